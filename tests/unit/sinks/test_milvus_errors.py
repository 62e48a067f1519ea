"""Each failure is told by what can be done about it, and no advice destroys anything."""

from __future__ import annotations

import errno
import re

import pytest

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sinks.milvus_client import import_pymilvus
from memsearch.sinks.milvus_errors import classify, foreign, is_server, older_format, shown
from memsearch.sinks.milvus_lite_server import RowsLostError
from memsearch.sinks.store_lock import busy

import_pymilvus()

import grpc  # noqa: E402 - quietly, by import_pymilvus
import pyarrow  # noqa: E402
from milvus_lite.exceptions import (  # noqa: E402
    DataDirLockedError,
    ManifestCorruptedError,
    SchemaValidationError,
)
from pymilvus.exceptions import MilvusException  # noqa: E402

LITE, SERVER = "/home/u/.memsearch/milvus.db", "http://milvus:19530"
ADVICE_THAT_DESTROYS = re.compile(r"\b(delete|remove|move|rename|rm|reset|wipe|drop)\b", re.I)


class Rpc(grpc.RpcError):
    """A failed call, as gRPC raises it."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self._status = grpc.StatusCode[status]

    def code(self) -> grpc.StatusCode:
        return self._status


def caused(outer: BaseException, inner: BaseException) -> BaseException:
    outer.__cause__ = inner
    return outer


def connecting(status: str) -> BaseException:
    """What pymilvus makes of each failure to connect."""
    return caused(MilvusException(2, "Fail connecting to server, illegal params"), Rpc(status))


def raised_again(status: str) -> BaseException:
    """As pymilvus' decorators do it: from itself, which hides the cause."""
    error = MilvusException(2, "Fail connecting to server")
    error.__context__ = Rpc(status)
    error.__cause__ = error
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (DataDirLockedError("another process holds the lock"), ErrorClass.BUSY),
        (PermissionError(errno.EACCES, "Permission denied", LITE), ErrorClass.PERMISSION),
        (OSError(errno.EROFS, "Read-only file system"), ErrorClass.PERMISSION),
        (RuntimeError("Failed to bind to address unix:/x.sock"), ErrorClass.PERMISSION),
        (OSError(errno.ENOSPC, "No space left on device"), ErrorClass.DISK_FULL),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), ErrorClass.DISK_FULL),
        (FileExistsError(errno.EEXIST, "File exists", LITE), ErrorClass.CONFIG),
        (NotADirectoryError(errno.ENOTDIR, "Not a directory"), ErrorClass.CONFIG),
        (ManifestCorruptedError("both failed to load"), ErrorClass.DAMAGED),
        (SchemaValidationError("schema file is not valid JSON"), ErrorClass.DAMAGED),
        (pyarrow.ArrowInvalid("Parquet magic bytes not found"), ErrorClass.DAMAGED),
        (FileNotFoundError(errno.ENOENT, "No such file"), ErrorClass.DAMAGED),
        (OSError("Corrupt snappy compressed data."), ErrorClass.DAMAGED),
        (OSError(errno.EIO, "Input/output error"), ErrorClass.DAMAGED),
        (RowsLostError("manifest references missing data file"), ErrorClass.DAMAGED),
        (caused(RuntimeError("failed"), DataDirLockedError("locked")), ErrorClass.BUSY),
        # The engine's errors as its server passes them on: words only.
        (MilvusException(1, "[Errno 28] No space left on device"), ErrorClass.DISK_FULL),
        (MilvusException(1, "[Errno 13] Permission denied: 'x'"), ErrorClass.PERMISSION),
        (MilvusException(1, "Could not open Parquet input source"), ErrorClass.DAMAGED),
        (MilvusException(1, "something new"), ErrorClass.BUG),
        (ValueError("something new"), ErrorClass.BUG),
    ],
)
def test_of_milvus_lite(error: BaseException, kind: ErrorClass) -> None:
    known = classify(error, LITE)
    assert known.kind is kind
    assert LITE in known.message
    assert "memsearch" in known.hint or kind is ErrorClass.DISK_FULL
    assert not ADVICE_THAT_DESTROYS.search(known.hint)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (connecting("UNAVAILABLE"), ErrorClass.NETWORK),
        (connecting("DEADLINE_EXCEEDED"), ErrorClass.TIMEOUT),
        (connecting("UNAUTHENTICATED"), ErrorClass.CREDENTIALS),
        (connecting("PERMISSION_DENIED"), ErrorClass.CREDENTIALS),
        (raised_again("DEADLINE_EXCEEDED"), ErrorClass.TIMEOUT),
        (MilvusException(2, "Fail connecting to server on h:1"), ErrorClass.NETWORK),
        # The store was closed by another thread.
        (ValueError("Cannot invoke RPC on closed channel!"), ErrorClass.NETWORK),
        (Rpc("UNAVAILABLE"), ErrorClass.NETWORK),
        (Rpc("DEADLINE_EXCEEDED"), ErrorClass.TIMEOUT),
        (Rpc("RESOURCE_EXHAUSTED"), ErrorClass.RATE_LIMIT),
        (Rpc("INTERNAL"), ErrorClass.SERVER),
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), ErrorClass.NETWORK),
        (TimeoutError("timed out"), ErrorClass.TIMEOUT),
        (MilvusException(1800, "user hasn't authenticated"), ErrorClass.CREDENTIALS),
        (MilvusException(1401, "privilege not permitted"), ErrorClass.CREDENTIALS),
        (MilvusException(65535, "auth check failure"), ErrorClass.CREDENTIALS),
        (MilvusException(8, "rate limit exceeded"), ErrorClass.RATE_LIMIT),
        (MilvusException(9, "quota exceeded"), ErrorClass.RATE_LIMIT),
        (MilvusException(2, "service unavailable"), ErrorClass.SERVER),
        (MilvusException(1100, "invalid parameter"), ErrorClass.BAD_REQUEST),
        (MilvusException(100, "collection not found"), ErrorClass.SERVER),
        (MilvusException(1, "[search] Retry timeout: 10s"), ErrorClass.TIMEOUT),
        (ValueError("something new"), ErrorClass.BUG),
    ],
)
def test_of_a_server(error: BaseException, kind: ErrorClass) -> None:
    known = classify(error, SERVER)
    assert known.kind is kind
    assert SERVER in known.message
    assert known.hint
    assert not ADVICE_THAT_DESTROYS.search(known.hint)


def test_ours_pass_unchanged() -> None:
    ours = MemsearchError("x", kind=ErrorClass.BAD_REQUEST)
    assert classify(ours, LITE) is ours
    assert classify(caused(ValueError("y"), ours), SERVER) is ours


def test_each_fault_of_the_folder_has_words_of_its_own() -> None:
    faults: list[BaseException] = [
        DataDirLockedError("x"),
        PermissionError(errno.EACCES, "x"),
        ManifestCorruptedError("x"),
        FileExistsError(errno.EEXIST, "x"),
    ]
    errors = [*(classify(fault, LITE) for fault in faults), older_format(LITE), foreign("c")]
    assert len({error.message.replace(LITE, "") for error in errors}) == len(errors)
    assert len({error.hint for error in errors}) == len(errors)
    for error in [*errors, busy(4711)]:
        assert not ADVICE_THAT_DESTROYS.search(error.hint)


@pytest.mark.parametrize(
    ("uri", "server"),
    [
        ("http://h:19530", True),
        ("HTTPS://in01.zillizcloud.com", True),
        ("tcp://h:1", True),
        ("/a/milvus.db", False),
        ("./milvus.db", False),
        ("C:/milvus.db", False),
    ],
)
def test_what_is_a_server(uri: str, server: bool) -> None:
    assert is_server(uri) is server


def test_no_password_is_shown() -> None:
    uri = "https://root:S3cret@h:19530/db"
    assert shown(uri) == "https://h:19530/db"
    assert shown("/a b/@x.db") == "/a b/@x.db"
    error = classify(caused(MilvusException(2, f"Fail connecting to {uri}"), Rpc("INTERNAL")), uri)
    assert "S3cret" not in str(error)
