"""What a failed file operation means for memsearch."""

from __future__ import annotations

import errno
import os

from memsearch.config.errors import ErrorClass, MemsearchError

_KINDS: dict[int, tuple[ErrorClass, str]] = {
    errno.ENOSPC: (ErrorClass.DISK_FULL, "make room and try again"),
    errno.EDQUOT: (ErrorClass.DISK_FULL, "your disk quota is used up: make room and try again"),
    errno.EFBIG: (ErrorClass.DISK_FULL, "files may not grow this large here (ulimit -f)"),
    errno.EACCES: (ErrorClass.PERMISSION, "the file and its folder must be yours to write"),
    errno.EPERM: (ErrorClass.PERMISSION, "the file and its folder must be yours to write"),
    errno.EROFS: (ErrorClass.PERMISSION, "the disk is mounted for reading only"),
}


def disk_error(exc: OSError, what: str) -> MemsearchError:
    """The error to raise from ``exc``.

    Args:
        exc: What the operating system said.
        what: What could not be done, to what: a sentence without its end.

    Returns:
        ``DISK_FULL``, ``PERMISSION``, or ``BAD_FILE`` for anything else.
    """
    kind, hint = _KINDS.get(exc.errno or 0, (ErrorClass.BAD_FILE, ""))
    return MemsearchError(f"{what}: {os.strerror(exc.errno or 0)}", kind=kind, hint=hint)
