# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Replace files in one step, and lock; apart, since most calls of a module write nothing."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
import typing as t

from .errors import FileError
from .files import DEFAULT_MODE, ensure_folder, failure, kind_name, sync_folder

TEMPORARY = ".hpc-fabric-"


def replace(path: str, data: bytes, mode: int | None = None, uid: int | None = None, gid: int | None = None) -> None:
    """Put data in the place of a file in one step: at any moment the old or the new content is there, whole.

    What is not given (mode, owner, extended attributes such as the SELinux label) is taken from the old file; a new
    one gets DEFAULT_MODE. What an interrupted writer of the same file left behind is removed. Raises FileError; the old
    file is then untouched.
    """
    folder, name = os.path.split(os.path.abspath(path))
    temporary = ""
    handle = -1
    try:
        old = None
        try:
            old = os.lstat(path)
        except FileNotFoundError:
            pass
        if old is not None and not stat.S_ISREG(old.st_mode):
            raise FileError(
                f"Cannot write {path}: it is {kind_name(old.st_mode)}, expected a regular file. Move it away, or correct "
                "the path.",
                path,
            )
        clear_stale(folder, name)
        handle, temporary = create_temporary(folder, name)
        write_all(handle, data)
        if old is not None:
            copy_attributes(path, handle)
        owner = (-1 if uid is None else uid, -1 if gid is None else gid)
        if old is not None:
            owner = (old.st_uid if uid is None else uid, old.st_gid if gid is None else gid)
        if owner != (-1, -1):
            os.fchown(handle, *owner)
        # After chown, which clears set-id bits; not subject to the umask.
        os.fchmod(handle, mode if mode is not None else stat.S_IMODE(old.st_mode) if old else DEFAULT_MODE)
        os.fsync(handle)
        os.rename(temporary, path)
        temporary = ""
        sync_folder(folder)
    except OSError as exc:
        raise failure("write", path, exc) from exc
    finally:
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        if handle >= 0:
            os.close(handle)


def create_temporary(folder: str, name: str) -> tuple[int, str]:
    """A new file beside the target, locked as long as its writer lives: that is how clear_stale knows it from litter."""
    while True:
        path = os.path.join(folder, f".{name}{TEMPORARY}{os.getpid()}-{os.urandom(4).hex()}")
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:
            return handle, path  # no locks on this file system: clear_stale cannot lock there either
        if os.fstat(handle).st_nlink:
            return handle, path
        os.close(handle)  # another writer took it for litter between creation and lock


def clear_stale(folder: str, name: str) -> None:
    """Remove the temporary files that writers of folder/name left when they were killed."""
    prefix = f".{name}{TEMPORARY}"
    for entry in os.listdir(folder):
        if not entry.startswith(prefix):
            continue
        path = os.path.join(folder, entry)
        with contextlib.suppress(OSError):
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
            finally:
                os.close(handle)


def write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def copy_attributes(path: str, handle: int) -> None:
    """Carry extended attributes over, as far as the file system and our rights allow."""
    with contextlib.suppress(OSError, AttributeError):
        for name in os.listxattr(path):
            with contextlib.suppress(OSError):
                os.setxattr(handle, name, os.getxattr(path, name))


@contextlib.contextmanager
def locked(path: str, timeout: float = 30.0) -> t.Iterator[None]:
    """Hold an exclusive lock on the file path, which is created and stays. Raises FileError after timeout seconds.

    The lock ends with its holder, however that ends. The file holds the holder's process id, for the error message.
    """
    ensure_folder(os.path.dirname(os.path.abspath(path)))
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as exc:
        raise failure("open the lock", path, exc) from exc
    try:
        deadline = time.monotonic() + timeout
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise FileError(
                        f"Another run holds the lock {path} (process {lock_holder(handle)}), waited {timeout:g} s for it. "
                        "Wait until it ends (ps -fp shows what it does), then run again.",
                        path,
                    ) from None
                time.sleep(0.05)
            except OSError as exc:
                raise failure("lock", path, exc) from exc
        # The number is for people only: a full disk must not prevent the lock.
        with contextlib.suppress(OSError):
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)


def lock_holder(handle: int) -> str:
    return os.pread(handle, 32, 0).decode("ascii", "replace").strip() or "unknown"
