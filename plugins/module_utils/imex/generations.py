# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Generations: what the files of a host were before a run, so that they can be put back byte for byte.

Each is a folder STATE_DIR/imex/generations/<id> with manifest.json and the files that were there; it is renamed into its
place when it is complete. Callers hold the lock of host_writes.lock().
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import time
import typing as t

from .. import files
from ..errors import FileError, InputError

FOLDER = os.path.join("imex", "generations")
MANIFEST = "manifest.json"
NEW = ".new-"
NAMES = {"config": "config.cfg", "nodes": "nodes_config.cfg", "dropin": "dropin.conf"}
VERSION = 1


class Paths(t.NamedTuple):
    """The files that make up a generation; dropin: our drop-in of the unit, which a host need not have."""

    config: str
    nodes: str
    dropin: str


class Stored(t.NamedTuple):
    """One file of a generation. present: False when it did not exist; the rest is then empty."""

    role: str
    path: str
    present: bool
    mode: int = 0
    uid: int = 0
    gid: int = 0
    sha256: str = ""


class Generation(t.NamedTuple):
    """One saved state. saved_at: seconds since the epoch; nodes: canonical where possible; folder: where it lies."""

    id: str
    label: str
    saved_at: float
    unit_file_state: str
    files: tuple[Stored, ...]
    nodes: tuple[str, ...]
    digest: str
    config_digest: str
    folder: str

    @property
    def absent(self) -> tuple[str, ...]:
        """Paths of the files that did not exist, which a restore removes."""
        return tuple(stored.path for stored in self.files if not stored.present)

    @property
    def paths(self) -> Paths:
        return Paths(**{stored.role: stored.path for stored in self.files})

    def as_result(self) -> dict[str, t.Any]:
        """What imex_generation returns of it."""
        return {
            "id": self.id,
            "label": self.label,
            "saved_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.saved_at)),
            "nodes": list(self.nodes),
            "digest": self.digest,
            "config_digest": self.config_digest,
            "absent": list(self.absent),
            "unit_file_state": self.unit_file_state,
        }


class Change(t.NamedTuple):
    """One file that a restore changes: before and after are contents, None where there is no file."""

    stored: Stored
    before: bytes | None
    after: bytes | None

    def diff(self) -> dict[str, str]:
        """For Ansible's diff mode; a change of owner or mode alone has no lines."""
        before, after = ((data or b"").decode("utf-8", "replace") for data in (self.before, self.after))
        path = self.stored.path
        return {"before_header": path, "after_header": path, "before": before, "after": after}


def save(
    state_dir: str, run_id: str, paths: Paths, unit_file_state: str, keep: int = 5, protect: t.Collection[str] = ()
) -> Generation:
    """Save the present files under the label run_id and prune to keep generations, without those in protect (ids).

    A second save of the same run keeps the first: what was there before the run is what matters. Raises FileError,
    InputError.
    """
    if not run_id.strip() or len(run_id) > 200 or re.search(r"[\x00-\x1f\x7f]", run_id):
        raise InputError(f"{run_id!r} cannot be the label of a generation, expected 1 to 200 printable characters.")
    from .. import atomic

    root = os.path.join(state_dir, FOLDER)
    files.ensure_folder(root, 0o700)
    clean(root)
    for known in listing(state_dir):
        if known.label == run_id:
            return known
    saved_at = time.time()
    # Sorted by name they are sorted by time.
    name = (
        time.strftime("%Y%m%dT%H%M%S", time.gmtime(saved_at)) + f".{int(saved_at % 1 * 1000):03d}-{os.urandom(2).hex()}"
    )
    folder = os.path.join(root, NEW + name)
    try:
        os.mkdir(folder, 0o700)
        stored = tuple(keep_file(folder, role, path) for role, path in paths._asdict().items())
        manifest = {
            "version": VERSION,
            "id": name,
            "label": run_id,
            "saved_at": saved_at,
            "unit_file_state": unit_file_state,
            "files": [item._asdict() for item in stored],
        }
        atomic.replace(os.path.join(folder, MANIFEST), (json.dumps(manifest, indent=1) + "\n").encode(), 0o600)
        os.rename(folder, os.path.join(root, name))
        files.sync_folder(root)
    except OSError as exc:
        raise files.failure("save a generation in", root, exc) from exc
    prune(state_dir, keep, {name, *protect})
    return find(state_dir, name)


def keep_file(folder: str, role: str, path: str) -> Stored:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return Stored(role, path, False)
    except OSError as exc:
        raise files.failure("read", path, exc) from exc
    if stat.S_ISLNK(status.st_mode):
        raise FileError(f"Cannot save {path}: it is a symbolic link, expected a regular file or none.", path)
    from .. import atomic

    data = files.read_bytes(path, files.PLAIN_LIMIT) or b""
    atomic.replace(os.path.join(folder, NAMES[role]), data, 0o600)
    mode = stat.S_IMODE(status.st_mode)
    return Stored(role, path, True, mode, status.st_uid, status.st_gid, hashlib.sha256(data).hexdigest())


def listing(state_dir: str) -> tuple[Generation, ...]:
    """All whole generations, the newest first. What is not whole is left out."""
    root = os.path.join(state_dir, FOLDER)
    try:
        names = os.listdir(root)
    except FileNotFoundError:
        return ()
    except OSError as exc:
        raise files.failure("read", root, exc) from exc
    found = [load(os.path.join(root, name)) for name in names if not name.startswith(".")]
    whole = [generation for generation in found if generation is not None]
    return tuple(sorted(whole, key=lambda generation: (generation.saved_at, generation.id), reverse=True))


def load(folder: str) -> Generation | None:
    """The generation in a folder, None when it is not whole or of a form that this version does not know."""
    from . import config_file, node_map

    try:
        data = json.loads(files.read_text(os.path.join(folder, MANIFEST)) or "")
        if data["version"] != VERSION or data["id"] != os.path.basename(folder):
            return None
        stored = tuple(Stored(**item) for item in data["files"])
        texts = {item.role: read_stored(folder, item) for item in stored}
        nodes = node_map.parse(files.decode(texts["nodes"] or b""), "").nodes
        values = config_file.parse(files.decode(texts["config"] or b""), "").values
        return Generation(
            id=data["id"],
            label=data["label"],
            saved_at=float(data["saved_at"]),
            unit_file_state=data["unit_file_state"],
            files=stored,
            nodes=nodes,
            digest=node_map.digest(nodes),
            config_digest=config_file.digest(values),
            folder=folder,
        )
    except (FileError, ValueError, KeyError, TypeError):
        return None


def read_stored(folder: str, stored: Stored) -> bytes | None:
    """The saved content, None for a file that did not exist. Raises FileError when it is not what was saved."""
    if not stored.present:
        return None
    path = os.path.join(folder, NAMES[stored.role])
    data = files.read_bytes(path)
    if data is None or hashlib.sha256(data).hexdigest() != stored.sha256:
        raise FileError(f"{path} is not what was saved for {stored.path}: this generation is damaged.", path)
    return data


def find(state_dir: str, wanted: str) -> Generation:
    """The generation with this id or label, or "previous": the newest whose files differ from those of the host.

    Raises InputError, with those there are, when there is none.
    """
    known = listing(state_dir)
    for generation in known:
        if wanted in (generation.id, generation.label) or (wanted == "previous" and changes(generation)):
            return generation
    names = ", ".join(f"{generation.id} ({generation.label})" for generation in known) or "none"
    expected = "one that differs from the present files" if wanted == "previous" else "an id or a label"
    raise InputError(
        f"There is no generation {wanted!r} in {os.path.join(state_dir, FOLDER)}, expected {expected}. There are: {names}."
    )


def changes(generation: Generation) -> tuple[Change, ...]:
    """What a restore would change: content, mode or owner of a file, its removal. Raises FileError."""
    found = []
    for stored in generation.files:
        before = files.read_bytes(stored.path)
        after = read_stored(generation.folder, stored)
        if before != after or (stored.present and not same_owner(stored)):
            found.append(Change(stored, before, after))
    return tuple(found)


def same_owner(stored: Stored) -> bool:
    status = os.stat(stored.path)
    return (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid) == (stored.mode, stored.uid, stored.gid)


def restore(state_dir: str, wanted: str) -> tuple[str, ...]:
    """Put a generation (id, label or previous) back and return the paths that changed; none when all was so already.

    Files that did not exist are removed. The generation stays. Raises FileError, InputError.
    """
    return write(changes(find(state_dir, wanted)))


def write(planned: t.Iterable[Change]) -> tuple[str, ...]:
    """Make the changes and return their paths."""
    from .. import atomic

    done = []
    for change in planned:
        stored = change.stored
        if change.after is None:
            files.remove(stored.path)
        else:
            files.ensure_folder(os.path.dirname(stored.path))
            atomic.replace(stored.path, change.after, stored.mode, stored.uid, stored.gid)
        done.append(stored.path)
    return tuple(done)


def prune(state_dir: str, keep: int, protect: t.Collection[str] = ()) -> tuple[str, ...]:
    """Remove generations until keep are left, and return their ids.

    First those that hold the same as a newer one, so that runs which changed nothing push nothing out; then the oldest.
    """
    known = list(listing(state_dir))
    seen: set[tuple[Stored, ...]] = set()
    repeated = []
    for generation in known:
        if generation.files in seen:
            repeated.append(generation)
        seen.add(generation.files)
    rest = [generation for generation in known if generation not in repeated]
    candidates = [item for item in (*reversed(repeated), *reversed(rest)) if item.id not in protect]
    gone = candidates[: max(len(known) - max(keep, 1), 0)]
    for generation in gone:
        shutil.rmtree(generation.folder, ignore_errors=True)
    return tuple(generation.id for generation in gone)


def clean(root: str) -> None:
    """Remove what an interrupted save left: folders under their first name, and those without a readable manifest."""
    for name in os.listdir(root):
        folder = os.path.join(root, name)
        if name.startswith(NEW) or (os.path.isdir(folder) and not name.startswith(".") and not has_manifest(folder)):
            shutil.rmtree(folder, ignore_errors=True)


def has_manifest(folder: str) -> bool:
    try:
        return isinstance(json.loads(files.read_text(os.path.join(folder, MANIFEST)) or ""), dict)
    except ValueError:
        return False
