# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import pathlib
import stat
import subprocess
import sys
import threading
import typing as t

import pytest

from ansible_collections.hpc.fabric.plugins.module_utils import atomic, files
from ansible_collections.hpc.fabric.plugins.module_utils.errors import FabricError, FileError, InputError

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def names(folder: pathlib.Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_read_of_what_is_not_there(tmp_path: pathlib.Path) -> None:
    assert files.read_bytes(str(tmp_path / "no")) is None
    assert files.read_text(str(tmp_path / "no")) is None
    assert files.read_plain(str(tmp_path / "no")) is None


def test_text_survives_a_round_trip(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"\xef\xbb\xbfcaf\xe9\r\n\xff")
    text = files.read_text(str(path))
    assert text is not None
    assert text.startswith("\ufeff")
    assert files.encode(text) == path.read_bytes()


def make_folder(path: pathlib.Path) -> None:
    path.mkdir()


def make_fifo(path: pathlib.Path) -> None:
    os.mkfifo(path)


def make_link(path: pathlib.Path) -> None:
    path.with_name("target").write_text("10.0.0.1\n")
    path.symlink_to("target")


def make_loop(path: pathlib.Path) -> None:
    path.symlink_to(path.name)


def make_binary(path: pathlib.Path) -> None:
    path.write_bytes(b"10.0.0.1\n\0\0\0\0")


def make_huge(path: pathlib.Path) -> None:
    path.write_bytes(b"#" * (files.PLAIN_LIMIT + 1))


@pytest.mark.parametrize(
    "make, parts",
    [
        (make_folder, ["a folder", "expected a regular file", "Move it away"]),
        (make_fifo, ["a FIFO", "expected a regular file", "Move it away"]),
        (make_link, ["a symbolic link to target", "expected a regular file", "replace the link"]),
        (make_loop, ["a symbolic link"]),
        (make_binary, ["a NUL byte at offset 9", "expected plain text", "put a good copy back"]),
        (make_huge, ["larger than 1048576 bytes", "expected a short text file", "the right path"]),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_no_plain_file(make: t.Callable[[pathlib.Path], None], parts: list[str], tmp_path: pathlib.Path) -> None:
    path = tmp_path / "nodes_config.cfg"
    make(path)
    with pytest.raises((FileError, InputError)) as error:
        files.read_plain(str(path))
    for part in [str(path), *parts]:
        assert part in str(error.value)


def test_a_part_of_the_path_is_a_file(tmp_path: pathlib.Path) -> None:
    (tmp_path / "f").write_text("")
    with pytest.raises(FileError, match="Not a directory"):
        files.read_plain(str(tmp_path / "f" / "g"))
    with pytest.raises(FileError, match="A part of the path is a file"):
        atomic.replace(str(tmp_path / "f" / "g"), b"")


@as_root
def test_unreadable_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "f"
    path.write_text("x")
    path.chmod(0)
    os.chmod(tmp_path, 0o755)
    message = in_child(lambda: files.read_plain(str(path)))
    assert message.startswith(f"Cannot read {path}: Permission denied. Run as root (become: true)")


@as_root
def test_write_without_rights(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "etc"
    folder.mkdir(mode=0o755)
    path = folder / "f"
    path.write_text("old")
    message = in_child(lambda: atomic.replace(str(path), b"new"))
    assert message.startswith(f"Cannot write {path}: Permission denied. Run as root (become: true)")
    assert path.read_text() == "old"


def in_child(action: t.Callable[[], t.Any]) -> str:
    """Run action as an unprivileged user in a process of its own; the message of the error that it raises."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reader)
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            action()
            os.write(writer, b"no error")
        except FabricError as exc:
            os.write(writer, str(exc).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    # A path above tmp_path may be closed to that user; then it is that folder that the error is of.
    return text


def test_replace_makes_a_file_whatever_the_umask(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "f"
    before = os.umask(0o077)
    try:
        atomic.replace(str(path), b"x\n")
    finally:
        os.umask(before)
    assert path.read_bytes() == b"x\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert names(tmp_path) == ["f"]


def test_replace_keeps_the_mode(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "f"
    path.write_text("old")
    path.chmod(0o640)
    atomic.replace(str(path), b"new")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", 0o640)
    atomic.replace(str(path), b"new", mode=0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@as_root
def test_replace_keeps_the_owner(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "f"
    path.write_text("old")
    os.chown(path, 12, 34)
    atomic.replace(str(path), b"new")
    assert (path.stat().st_uid, path.stat().st_gid) == (12, 34)
    atomic.replace(str(path), b"new", uid=56)
    assert (path.stat().st_uid, path.stat().st_gid) == (56, 34)


def test_replace_keeps_extended_attributes(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "f"
    path.write_text("old")
    try:
        os.setxattr(path, "user.label", b"imex")
    except OSError:
        pytest.skip("this file system has no extended attributes for users")
    atomic.replace(str(path), b"new")
    assert os.getxattr(path, "user.label") == b"imex"


def test_replace_writes_large_files_whole(tmp_path: pathlib.Path) -> None:
    data = os.urandom(3_000_000)
    atomic.replace(str(tmp_path / "f"), data)
    assert (tmp_path / "f").read_bytes() == data


@pytest.mark.parametrize("make", [make_folder, make_fifo, make_link], ids=lambda make: make.__name__)
def test_replace_refuses_what_is_no_file(make: t.Callable[[pathlib.Path], None], tmp_path: pathlib.Path) -> None:
    path = tmp_path / "f"
    make(path)
    before = names(tmp_path)
    with pytest.raises(FileError, match="expected a regular file"):
        atomic.replace(str(path), b"new")
    assert names(tmp_path) == before


def test_replace_without_its_folder(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileError, match=r"no/f: No such file or directory\. The folder does not exist: create it"):
        atomic.replace(str(tmp_path / "no" / "f"), b"")


def test_litter_of_a_dead_writer_goes_with_the_next_write(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "f"
    (tmp_path / f".f{atomic.TEMPORARY}4711-dead").write_text("half")
    (tmp_path / f".g{atomic.TEMPORARY}4711-dead").write_text("of another file")
    (tmp_path / ".f.swp").write_text("of an editor")
    atomic.replace(str(path), b"new")
    assert names(tmp_path) == [".f.swp", f".g{atomic.TEMPORARY}4711-dead", "f"]


def test_the_temporary_file_of_a_living_writer_stays(tmp_path: pathlib.Path) -> None:
    handle, path = atomic.create_temporary(str(tmp_path), "f")
    try:
        atomic.replace(str(tmp_path / "f"), b"new")
        assert os.path.exists(path)
    finally:
        os.close(handle)
    atomic.replace(str(tmp_path / "f"), b"newer")
    assert names(tmp_path) == ["f"]


def test_many_writers_at_once_leave_one_whole_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "f"
    versions = [bytes([65 + number]) * 20000 for number in range(8)]
    errors: list[Exception] = []

    def write(data: bytes) -> None:
        try:
            for _round in range(20):
                atomic.replace(str(path), data)
        except Exception as exc:
            errors.append(exc)

    writers = [threading.Thread(target=write, args=(data,)) for data in versions]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert errors == []
    assert path.read_bytes() in versions
    assert names(tmp_path) == ["f"]


def test_remove(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "f"
    path.write_text("x")
    assert files.remove(str(path)) is True
    assert files.remove(str(path)) is False
    with pytest.raises(FileError, match="Cannot remove"):
        files.remove(str(tmp_path))


def test_changed_at_is_of_the_youngest(tmp_path: pathlib.Path) -> None:
    for name, when in (("a", 100), ("b", 200)):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (when, when))
    assert files.changed_at(str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "c")) == 200
    assert files.changed_at(str(tmp_path / "c")) is None


def test_lock_names_its_holder_and_ends_with_it(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "run" / "imex.lock")
    ready, begin = os.pipe()
    end, finish = os.pipe()
    child = os.fork()
    if not child:
        os.close(finish)
        with atomic.locked(path):
            os.write(begin, b"x")
            os.read(end, 1)
        os._exit(0)
    try:
        os.read(ready, 1)
        with pytest.raises(FileError) as error, atomic.locked(path, 0.2):
            pass
        assert path in str(error.value)
        assert f"process {child}" in str(error.value)
    finally:
        os.close(finish)
        os.close(end)
        os.kill(child, 9)
        os.waitpid(child, 0)
    with atomic.locked(path, 0):
        assert pathlib.Path(path).read_text() == f"{os.getpid()}\n"


def test_lock_excludes_two_runs(tmp_path: pathlib.Path) -> None:
    # Both add to the same number, reading it before they write it: without the lock some additions are lost.
    code = (
        "import sys\n"
        "from ansible_collections.hpc.fabric.plugins.module_utils import atomic, files\n"
        "lock, path = sys.argv[1:]\n"
        "for _turn in range(100):\n"
        "    with atomic.locked(lock, 60):\n"
        "        number = int(files.read_text(path))\n"
        "        atomic.replace(path, str(number + 1).encode())\n"
    )
    path = tmp_path / "number"
    path.write_text("0")
    command = [sys.executable, "-c", code, str(tmp_path / "lock"), str(path)]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    runs = [subprocess.Popen(command, env=environment) for _turn in range(2)]
    assert [run.wait() for run in runs] == [0, 0]
    assert path.read_text() == "200"


def test_lock_that_cannot_be_made(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="Cannot create the folder"), atomic.locked(str(tmp_path / "file" / "lock")):
        pass


# Run in a mount namespace of its own: makes the file system, tries to write, prints the error and what is there then.
FULL = """
import os, subprocess, sys
from ansible_collections.hpc.fabric.plugins.module_utils import atomic, files
from ansible_collections.hpc.fabric.plugins.module_utils.errors import FileError
kind, folder = sys.argv[1:]
path = folder + "/nodes_config.cfg"
if kind == "full":
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", folder], check=True)
    atomic.replace(path, b"old")
    with open(folder + "/filler", "wb", buffering=0) as filler:
        try:
            while True:
                filler.write(bytes(4096))
        except OSError:
            pass
elif kind == "inodes":
    subprocess.run(["mount", "-t", "tmpfs", "-o", "nr_inodes=2", "none", folder], check=True)
    open(path, "w").write("old")
else:
    atomic.replace(path, b"old")
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
try:
    atomic.replace(path, b"new" * 10000)
    print("no error")
except FileError as exc:
    print(exc)
print(files.read_text(path), [name for name in os.listdir(folder) if "hpc-fabric" in name])
"""


@pytest.mark.parametrize(
    "kind, answer, cure",
    [
        ("full", "No space left on device", "The file system is full: free space there"),
        ("inodes", "No space left on device", "The file system is full: free space there"),
        ("read-only", "Read-only file system", "mounted read-only"),
    ],
)
def test_disk_that_takes_nothing(kind: str, answer: str, cure: str, tmp_path: pathlib.Path) -> None:
    may_mount = os.geteuid() == 0 and not subprocess.run(["unshare", "-m", "true"], check=False).returncode
    if not may_mount and not os.environ.get("CI"):
        pytest.skip("needs root and mount namespaces")
    done = subprocess.run(
        ["unshare", "-m", sys.executable, "-c", FULL, kind, str(tmp_path)],
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    message, state = done.stdout.splitlines()
    assert message.startswith(f"Cannot write {tmp_path}/nodes_config.cfg: {answer}. ")
    assert cure in message
    assert state == "old []"
