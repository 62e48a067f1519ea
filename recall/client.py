"""The way to the workers' service: JSON over HTTP on their Unix socket.

On the path of every search, so it stands on ``http.client`` and ``json`` alone.
"""

from __future__ import annotations

import errno
import http.client
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


class Unreachable(Exception):  # noqa: N818 (a fact to decide on, not a failure to report)
    """Nobody answers on the socket: the caller does the work itself."""


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
    connection = _UnixConnection(path, timeout)
    try:
        connection.request("POST", f"/v1/{operation}", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        status, data = response.status, _body(response)
    except TimeoutError as error:
        if not connection.connected:
            raise Unreachable(f"{path}: no connection within {CONNECT_SECONDS} s") from error
        raise MemsearchError(
            f"The workers did not answer within {timeout:g} s",
            kind=ErrorClass.TIMEOUT,
            hint="see memsearch workers status; memsearch workers restart ends a stuck one",
        ) from error
    except (http.client.RemoteDisconnected, http.client.IncompleteRead) as error:
        # It ended while it had the request. Every request of recall may be repeated.
        raise Unreachable(f"{path}: the service ended") from error
    except OSError as error:
        if error.errno in _NO_SERVICE:
            raise Unreachable(f"{path}: {error}") from error
        raise MemsearchError(
            f"The workers' socket {path} failed: {error}", kind=ErrorClass.NETWORK
        ) from error
    except http.client.HTTPException as error:
        raise _not_ours(path, repr(error)) from error
    finally:
        connection.close()
    return _read(path, operation, status, data)


def answers(path: str) -> bool:
    """Whether somebody accepts connections on the socket. Sends nothing."""
    try:
        _connect(path, CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


def _body(response: http.client.HTTPResponse) -> bytes:
    # Without an amount, a body that ends too early is an error of http.client's.
    if response.length is not None and response.length <= MAX_ANSWER_BYTES:
        return response.read()
    return response.read(MAX_ANSWER_BYTES + 1)


def _read(path: str, operation: str, status: int, data: bytes) -> dict[str, Any]:
    if status == UNAVAILABLE:
        raise Unreachable(f"{path}: the service starts or ends")
    if status == http.client.NOT_FOUND and not data.lstrip().startswith(b"{"):
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
    if status != http.client.OK:
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


class _UnixConnection(http.client.HTTPConnection):
    """``http.client`` on a Unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost")
        self._path = path
        self._answer_seconds = timeout
        self.connected = False

    def connect(self) -> None:
        self.sock = _connect(self._path, CONNECT_SECONDS)
        self.sock.settimeout(self._answer_seconds)
        self.connected = True
