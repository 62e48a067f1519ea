"""The way to the workers' service: JSON over HTTP on their Unix socket.

On the path of every search, so it stands on ``socket`` and ``json`` alone: ``http.client``
brings mail parsers and TLS along, which cost as much as all the rest of a search's command.
"""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Mapping
from typing import Any

from memsearch.config.errors import ErrorClass, MemsearchError

#: Seconds to wait for a connection. A living service accepts at once; a full backlog of a
#: busy one is waited for.
CONNECT_SECONDS = 2.0
#: Seconds to wait for an answer: the first search of the day loads the model.
ANSWER_SECONDS = 120.0
#: Bytes of an answer that are read at most.
MAX_ANSWER_BYTES = 64 * 1024 * 1024
#: The service answers this while it starts or ends: ask again or go without it.
UNAVAILABLE = 503
_OK, _NOT_FOUND = 200, 404
#: Bytes that are received at a time, and that the head of an answer may have.
_BLOCK, _MAX_HEAD = 65_536, 65_536

#: Reasons of the system for which there is no service to talk to. EPERM is what a sandbox
#: says that forbids sockets.
_NO_SERVICE = frozenset(
    {
        errno.ENOENT,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.ENOTSOCK,
        errno.EPIPE,
        errno.EPERM,
        errno.EACCES,
        errno.EAGAIN,
        errno.ENOTCONN,
        errno.ENOSYS,
        errno.EAFNOSUPPORT,
        errno.ENAMETOOLONG,
        errno.ENOTDIR,
    }
)

#: Those of them that a sandbox gives.
_REFUSED = frozenset({errno.EPERM, errno.EACCES})


class Unreachable(Exception):  # noqa: N818 (a fact to decide on, not a failure to report)
    """Nobody answers on the socket: the caller does the work itself.

    Attributes:
        refused: The system refuses the way, as a sandbox does; somebody may listen.
    """

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


def ask(
    path: str,
    operation: str,
    request: Mapping[str, Any],
    *,
    timeout: float = ANSWER_SECONDS,
) -> dict[str, Any]:
    """One request to the service.

    Args:
        path: The socket.
        operation: What is asked, which becomes ``POST /v1/<operation>``.
        request: JSON-able.
        timeout: Seconds to wait for the answer.

    Returns:
        The answer, a JSON object.

    Raises:
        Unreachable: No service answers there.
        MemsearchError: The service's own error; ``TIMEOUT`` when it accepted and did not
            answer; ``BAD_ANSWER`` when the answer is not JSON of ours.
    """
    # Surrogates stand for undecodable bytes of a path; ASCII JSON carries them.
    body = json.dumps(request).encode("ascii")
    head = (
        f"POST /v1/{operation} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    try:
        channel = _connect(path, CONNECT_SECONDS)
    except TimeoutError as error:
        raise Unreachable(f"{path}: no connection within {CONNECT_SECONDS} s") from error
    except OSError as error:
        raise _failed(path, error) from error
    try:
        channel.settimeout(timeout)
        channel.sendall(head.encode("ascii") + body)
        status, data = _receive(channel, path)
    except TimeoutError as error:
        raise MemsearchError(
            f"The workers did not answer within {timeout:g} s",
            kind=ErrorClass.TIMEOUT,
            hint="see memsearch workers status; memsearch workers restart ends a stuck one",
        ) from error
    except OSError as error:
        raise _failed(path, error) from error
    finally:
        channel.close()
    return _read(path, operation, status, data)


def answers(path: str) -> bool:
    """Whether somebody accepts connections on the socket. Sends nothing."""
    try:
        _connect(path, CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


def _failed(path: str, error: OSError) -> Exception:
    if error.errno in _NO_SERVICE:
        return Unreachable(f"{path}: {error}", refused=error.errno in _REFUSED)
    return MemsearchError(f"The workers' socket {path} failed: {error}", kind=ErrorClass.NETWORK)


def _receive(channel: socket.socket, path: str) -> tuple[int, bytes]:
    """The status and the body of an answer (RFC 9112), which carries its length.

    Raises:
        Unreachable: It ends too early: the service ended while it had the request. Every
            request of recall may be repeated.
        MemsearchError: ``BAD_ANSWER`` for what is no such answer.
    """
    data = bytearray()
    while (end := data.find(b"\r\n\r\n")) < 0:
        block = channel.recv(_BLOCK)
        data += block
        if data and not data.startswith(b"HTTP/1."[: len(data)]):
            raise _not_ours(path, repr(bytes(data[:40])))
        if len(data) > _MAX_HEAD:
            raise _not_ours(path, "its head is too long")
        if not block:
            raise Unreachable(f"{path}: the service ended")
    lines = bytes(data[:end]).decode("latin-1").split("\r\n")
    del data[: end + 4]
    try:
        status = int(lines[0].split(" ", 2)[1])
        fields = dict(line.lower().split(":", 1) for line in lines[1:])
        length = int(fields["content-length"])
    except (KeyError, ValueError, IndexError) as error:
        raise _not_ours(path, lines[0][:40]) from error
    while len(data) < min(length, MAX_ANSWER_BYTES + 1):
        block = channel.recv(_BLOCK)
        if not block:
            raise Unreachable(f"{path}: the service ended")
        data += block
    return status, bytes(data)


def _read(path: str, operation: str, status: int, data: bytes) -> dict[str, Any]:
    if status == UNAVAILABLE:
        raise Unreachable(f"{path}: the service starts or ends")
    if status == _NOT_FOUND and not data.lstrip().startswith(b"{"):
        raise MemsearchError(
            f"The running workers do not know {operation!r}: they are of another version",
            kind=ErrorClass.CONFIG,
            hint="memsearch workers restart",
        )
    if len(data) > MAX_ANSWER_BYTES:
        raise _not_ours(path, "the answer is too long")
    try:
        answer = json.loads(data)
    except ValueError as error:
        raise _not_ours(path, f"status {status}, not JSON") from error
    if not isinstance(answer, dict):
        raise _not_ours(path, "no JSON object")
    if "error" in answer:
        raise error_of(answer)
    if status != _OK:
        raise _not_ours(path, f"status {status}")
    return answer


def error_of(answer: Mapping[str, Any]) -> MemsearchError:
    """The error that an error body carries; see ``recall.requests.error_body``."""
    try:
        kind = ErrorClass(str(answer.get("kind")))
    except ValueError:
        kind = ErrorClass.BUG
    return MemsearchError(str(answer["error"]), kind=kind, hint=str(answer.get("hint") or ""))


def _not_ours(path: str, what: str) -> MemsearchError:
    return MemsearchError(
        f"{path} gave an answer that is not memsearch's: {what}",
        kind=ErrorClass.BAD_ANSWER,
        hint="memsearch workers restart",
    )


def _connect(path: str, timeout: float) -> socket.socket:
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        channel.settimeout(timeout)
        channel.connect(os.fsencode(path))
    except OSError as error:
        channel.close()
        if "too long" in str(error):  # raised by Python itself, without an errno
            raise OSError(errno.ENAMETOOLONG, str(error)) from error
        raise
    return channel
