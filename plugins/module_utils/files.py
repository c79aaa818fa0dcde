# Copyright (c) 2026, hpc.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whole files: read with limits, remove. What replaces and locks them is in atomic.py."""

from __future__ import annotations

import errno
import os
import stat

from .errors import FileError, InputError

DEFAULT_MODE = 0o644
# A node map or a config.cfg has some kilobytes; what is larger is another file.
PLAIN_LIMIT = 1024 * 1024

CURES = {
    errno.ENOSPC: "The file system is full: free space there, then run again",
    errno.EDQUOT: "The disk quota is used up: free space there, then run again",
    errno.EROFS: "The file system is mounted read-only: find out why (journalctl -k), remount it, then run again",
    errno.EACCES: "Run as root (become: true), or correct the permissions of the file and its folders",
    errno.EPERM: "Run as root (become: true), and look for the immutable attribute (lsattr)",
    errno.EISDIR: "A folder is in the place of the file: move it away, or correct the path",
    errno.ENOTDIR: "A part of the path is a file, not a folder: correct the path",
    errno.ENOENT: "The folder does not exist: create it, or correct the path",
    errno.EBUSY: "The file is a mount point of its own (a bind mount?): mount its folder instead, or unmount it",
    errno.ELOOP: "The path runs through a loop of symbolic links: correct the links",
    errno.EIO: "The disk reports an error: see journalctl -k",
    errno.ENAMETOOLONG: "The path is too long: correct it",
}


def failure(action: str, path: str, exc: OSError) -> FileError:
    """An error that says what was done to which file, what the system answered and what to do."""
    number = exc.errno or 0
    cure = CURES.get(number, "Correct this, then run again")
    return FileError(f"Cannot {action} {path}: {exc.strerror or exc}. {cure}.", path, exc.errno)


def read_bytes(path: str, limit: int | None = None) -> bytes | None:
    """The content of a regular file, None when it does not exist. Raises FileError for all else.

    limit: bytes; a longer file is an error. Never waits, not for a FIFO in the place of the file either.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise failure("read", path, exc) from exc
    try:
        kind = os.fstat(handle).st_mode
        if not stat.S_ISREG(kind):
            raise FileError(
                f"Cannot read {path}: it is {kind_name(kind)}, expected a regular file. Move it away, or correct the path.",
                path,
            )
        with open(handle, "rb", closefd=False) as source:
            data = source.read() if limit is None else source.read(limit + 1)
    except OSError as exc:
        raise failure("read", path, exc) from exc
    finally:
        os.close(handle)
    if limit is not None and len(data) > limit:
        raise FileError(
            f"Cannot use {path}: it is larger than {limit} bytes, expected a short text file. Is this the right path?",
            path,
        )
    return data


def read_text(path: str, limit: int | None = None) -> str | None:
    """The file as text (UTF-8; other bytes survive as surrogates; a BOM is kept), None when it does not exist."""
    data = read_bytes(path, limit)
    return None if data is None else decode(data)


def read_plain(path: str) -> str | None:
    """A text file that is to be edited or replaced, None when it does not exist.

    Refuses what a replacement would destroy or what is no such file: a symbolic link, a folder, a device, binary
    content, more than PLAIN_LIMIT bytes.
    """
    try:
        kind = os.lstat(path).st_mode
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise failure("read", path, exc) from exc
    if stat.S_ISLNK(kind):
        raise FileError(
            f"Cannot use {path}: it is a symbolic link to {os.readlink(path)}, expected a regular file of this host alone. "
            "Give the path that it points to, or replace the link by the file.",
            path,
        )
    text = read_text(path, PLAIN_LIMIT)
    if text is not None and "\0" in text:
        raise InputError(
            f"Cannot use {path}: binary data (a NUL byte at offset {len(encode(text[: text.index(chr(0))]))}), expected "
            "plain text. The file is damaged (a power cut?) or not the right one: move it away or put a good copy back."
        )
    return text


def decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def kind_name(mode: int) -> str:
    """What a file is, in words, from its st_mode."""
    tests = (
        (stat.S_ISREG, "a regular file"),
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISLNK, "a symbolic link"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
    )
    return next((name for test, name in tests if test(mode)), "a device")


def ensure_folder(path: str, mode: int = 0o755) -> bool:
    """Create a folder and its parents; True when it was not there."""
    if os.path.isdir(path):
        return False
    try:
        os.makedirs(path, mode, exist_ok=True)
        sync_folder(os.path.dirname(os.path.abspath(path)))
    except OSError as exc:
        raise failure("create the folder", path, exc) from exc
    return True


def sync_folder(path: str) -> None:
    handle = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove(path: str) -> bool:
    """Remove a file; False when there was none."""
    try:
        os.unlink(path)
        sync_folder(os.path.dirname(os.path.abspath(path)))
    except FileNotFoundError:
        return False
    except OSError as exc:
        raise failure("remove", path, exc) from exc
    return True


def changed_at(*paths: str) -> float | None:
    """When the youngest of the files that exist got its content (seconds since the epoch); None when there is none."""
    times = []
    for path in paths:
        try:
            times.append(os.stat(path).st_mtime)
        except OSError:
            continue
    return max(times, default=None)
