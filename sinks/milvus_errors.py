"""What a failure of Milvus means, told by what the user can do about it."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from memsearch.config.errors import ErrorClass, MemsearchError

#: Where a database folder ends and a server begins.
_SERVER = re.compile(r"(?:https?|tcp)://", re.IGNORECASE)

#: How the server's own words and numbers (``pkg/util/merr`` of Milvus) are classed. Looked up
#: by range; the first that holds counts.
_CODES: tuple[tuple[range, ErrorClass], ...] = (
    (range(1, 4), ErrorClass.SERVER),  # not ready, unavailable, out of memory
    (range(4, 10), ErrorClass.RATE_LIMIT),  # too many requests, quotas
    (range(1100, 1110), ErrorClass.BAD_REQUEST),  # a parameter it does not take
    (range(1400, 1410), ErrorClass.CREDENTIALS),  # not authenticated, not permitted
    (range(1800, 1810), ErrorClass.CREDENTIALS),
)

#: gRPC's status codes by name.
_STATUS: dict[str, ErrorClass] = {
    "UNAVAILABLE": ErrorClass.NETWORK,
    "DEADLINE_EXCEEDED": ErrorClass.TIMEOUT,
    "UNAUTHENTICATED": ErrorClass.CREDENTIALS,
    "PERMISSION_DENIED": ErrorClass.CREDENTIALS,
    "RESOURCE_EXHAUSTED": ErrorClass.RATE_LIMIT,
    "INVALID_ARGUMENT": ErrorClass.BAD_REQUEST,
    "INTERNAL": ErrorClass.SERVER,
    "UNKNOWN": ErrorClass.SERVER,
}

_ERRNO: dict[int, ErrorClass] = {
    errno.EACCES: ErrorClass.PERMISSION,
    errno.EPERM: ErrorClass.PERMISSION,
    errno.EROFS: ErrorClass.PERMISSION,
    errno.ENOSPC: ErrorClass.DISK_FULL,
    errno.EDQUOT: ErrorClass.DISK_FULL,
    errno.EEXIST: ErrorClass.CONFIG,  # a file lies where the folder should be
    errno.ENOTDIR: ErrorClass.CONFIG,
    errno.ENAMETOOLONG: ErrorClass.CONFIG,
}

#: Exceptions of Milvus Lite's engine, of the libraries it reads with and of ours that tell of
#: broken files.
_DAMAGE_TYPES = frozenset(
    {
        "ManifestCorruptedError",
        "WALCorruptedError",
        "SchemaValidationError",
        "RowsLostError",
        "ArrowInvalid",
        "ArrowException",
        "ArrowKeyError",
        "ArrowTypeError",
        "JSONDecodeError",
        "UnicodeDecodeError",
        "FileNotFoundError",
    }
)

#: The same, where the engine's exception came through its server as words only.
_DAMAGE_WORDS = re.compile(
    r"manifest\.json|parquet|arrow|schema file|wal_(?:data|delta)|corrupt|No such file",
    re.IGNORECASE,
)

_ERRNO_WORDS = re.compile(r"\[Errno (\d+)\]")


def is_server(uri: str) -> bool:
    """Whether a URI names a server; anything else is a folder of Milvus Lite."""
    return _SERVER.match(uri) is not None


def shown(uri: str) -> str:
    """A URI without the user and the password that it may hold."""
    if not is_server(uri):
        return uri
    parts = urlsplit(uri)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def classify(error: BaseException, uri: str) -> MemsearchError:
    """The error to raise in place of one of pymilvus, gRPC, Milvus Lite or the system.

    Args:
        error: What was raised; its causes are looked at too.
        uri: The server, or the folder of Milvus Lite.

    Returns:
        An error with its class, in words for the user. What is none of the known failures is
        a ``BUG`` that quotes the error.
    """
    for part in _chain(error):
        if isinstance(part, MemsearchError):
            return part
    decide = _server_class if is_server(uri) else _lite_class
    kinds = [kind for part in _chain(error) if (kind := decide(part)) is not None]
    if not kinds:
        # Lite's own server that did not come up in time, on a machine that is busy.
        started = "fail connecting" not in str(getattr(error, "message", "") or error).lower()
        kind = ErrorClass.BUG if started else ErrorClass.SERVER
    elif is_server(uri):
        kind = kinds[-1]  # what gRPC said: "Fail connecting" also hides a wrong token
    else:
        kind = kinds[0]  # what Lite made of a bare error of the system
    return _describe(kind, error, uri)


def older_format(path: str) -> MemsearchError:
    """The error for a database file of Milvus Lite 2, which only another tool can have made."""
    return MemsearchError(
        f"{path} is a database file of Milvus Lite 2, which version 3 cannot open",
        kind=ErrorClass.CONFIG,
        hint="it is left as it is; give the index another place with"
        " `memsearch config set milvus.uri /path/to/index.db`",
    )


def foreign(collection: str) -> MemsearchError:
    """The error for a collection that is not ours to read or write."""
    return MemsearchError(
        f"the collection {collection} was made by another tool",
        kind=ErrorClass.CONFIG,
        hint="it is left as it is; give the project another name with"
        ' [projects."PATH"] collection = "…" in config.toml',
    )


def _server_class(error: BaseException) -> ErrorClass | None:
    status = _status_name(error)
    if status is not None:
        return _STATUS.get(status, ErrorClass.SERVER)
    if isinstance(error, TimeoutError):
        return ErrorClass.TIMEOUT
    if isinstance(error, OSError):
        return ErrorClass.NETWORK
    code = getattr(error, "code", None)
    words = str(getattr(error, "message", "") or error).lower()
    if "fail connecting" in words or "closed channel" in words:
        return ErrorClass.NETWORK
    if "timeout" in words or "deadline" in words:
        return ErrorClass.TIMEOUT
    if "auth" in words and ("fail" in words or "denied" in words):
        return ErrorClass.CREDENTIALS
    if isinstance(code, int):
        for codes, kind in _CODES:
            if code in codes:
                return kind
        return ErrorClass.SERVER
    return None


def _lite_class(error: BaseException) -> ErrorClass | None:
    name = type(error).__name__
    if name == "DataDirLockedError":
        return ErrorClass.BUSY
    number = getattr(error, "errno", None)
    if isinstance(number, int) and number in _ERRNO:
        return _ERRNO[number]
    if name in _DAMAGE_TYPES:
        return ErrorClass.DAMAGED
    words = str(getattr(error, "message", "") or error)
    found = _ERRNO_WORDS.search(words)
    if found and int(found[1]) in _ERRNO:
        return _ERRNO[int(found[1])]
    if "bind to address unix:" in words:
        return ErrorClass.PERMISSION  # a sandbox without Unix sockets
    if _DAMAGE_WORDS.search(words):
        return ErrorClass.DAMAGED
    if isinstance(error, OSError):
        return ErrorClass.DAMAGED
    return None


def _status_name(error: BaseException) -> str | None:
    """The gRPC status of an error, told without importing gRPC."""
    code = getattr(error, "code", None)
    if callable(code):
        code = code()
    if type(code).__name__ != "StatusCode":
        return None
    name: str = getattr(code, "name", "")
    return name


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An exception and its causes, the outermost first."""
    seen: set[int] = set()
    part: BaseException | None = error
    while part is not None and id(part) not in seen:
        seen.add(id(part))
        yield part
        # pymilvus raises its errors again "from" themselves, which leaves only the context.
        cause = part.__cause__
        part = part.__context__ if cause is None or id(cause) in seen else cause


def _describe(kind: ErrorClass, error: BaseException, uri: str) -> MemsearchError:
    where = shown(uri)
    subject = f"the Milvus server {where}" if is_server(uri) else f"the index in {where}"
    what, hint = _WORDS.get(kind, ("failed", "`memsearch doctor` looks into it"))
    if is_server(uri):
        what, hint = _SERVER_WORDS.get(kind, (what, hint))
    said = " ".join(str(getattr(error, "message", "") or error).split())[:300]
    secretless = said.replace(uri, where)
    detail = f": {secretless or type(error).__name__}" if kind not in _SELF_TOLD else ""
    return MemsearchError(f"{subject} {what}{detail}", kind=kind, hint=hint)


#: Classes whose words say everything: what the library said would only puzzle.
_SELF_TOLD = frozenset({ErrorClass.BUSY, ErrorClass.DISK_FULL})

_WORDS: dict[ErrorClass, tuple[str, str]] = {
    ErrorClass.BUSY: (
        "is in use by another program",
        "try again when it has ended; `memsearch workers status` shows whether it is the workers",
    ),
    ErrorClass.PERMISSION: (
        "may not be opened",
        "it and what it holds must belong to you and be writable;"
        " `memsearch doctor` names what is not",
    ),
    ErrorClass.DISK_FULL: (
        "cannot be written: the disk is full",
        "free some space; what waits goes on by itself",
    ),
    ErrorClass.DAMAGED: (
        "is damaged",
        "nothing is lost, the Markdown is the truth: `memsearch index` builds the index again,"
        " `memsearch doctor` tells more",
    ),
    ErrorClass.CONFIG: (
        "cannot be opened: something else lies there",
        "set milvus.uri to a folder that memsearch may make,"
        " `memsearch config get milvus.uri` shows it",
    ),
    ErrorClass.BUG: (
        "answered with an error that memsearch does not know",
        "`memsearch doctor` looks into it",
    ),
}

_SERVER_WORDS: dict[ErrorClass, tuple[str, str]] = {
    ErrorClass.NETWORK: (
        "cannot be reached",
        "is it running, and is milvus.uri right? `memsearch doctor` tries it",
    ),
    ErrorClass.TIMEOUT: (
        "does not answer in time",
        "is it overloaded, or something else than Milvus? `memsearch doctor` tries it",
    ),
    ErrorClass.CREDENTIALS: ("refuses the credentials", "check milvus.token"),
    ErrorClass.RATE_LIMIT: ("takes no more for now", "it is tried again later"),
    ErrorClass.SERVER: ("failed", "its own log says more; it is tried again later"),
    ErrorClass.BAD_REQUEST: ("refuses a request", "`memsearch doctor` looks into it"),
}
