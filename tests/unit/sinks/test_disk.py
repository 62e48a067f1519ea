"""What the operating system's refusals are taken for."""

from __future__ import annotations

import errno

import pytest

from memsearch.config.errors import ErrorClass
from memsearch.sinks.disk import disk_error


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, ErrorClass.DISK_FULL),
        (errno.EDQUOT, ErrorClass.DISK_FULL),
        (errno.EFBIG, ErrorClass.DISK_FULL),
        (errno.EACCES, ErrorClass.PERMISSION),
        (errno.EPERM, ErrorClass.PERMISSION),
        (errno.EROFS, ErrorClass.PERMISSION),
        (errno.ENOTDIR, ErrorClass.BAD_FILE),
        (errno.EIO, ErrorClass.BAD_FILE),
    ],
)
def test_kinds(number: int, kind: ErrorClass) -> None:
    error = disk_error(OSError(number, "x"), "the cache cannot be opened")
    assert error.kind is kind
    assert error.message.startswith("the cache cannot be opened: ")
