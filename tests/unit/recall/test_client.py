"""The way to the workers' service, against a real socket."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.recall import client
from memsearch.recall.requests import error_body

Serve = Callable[[bytes], str]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts a service that answers every connection with the same bytes."""
    listeners: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def start(answer: bytes) -> str:
        path = str(tmp_path / "s.sock")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        listener.listen()
        listeners.append(listener)

        def run() -> None:
            while True:
                try:
                    channel, _ = listener.accept()
                except OSError:
                    return
                with channel:
                    read_request(channel)
                    channel.sendall(answer)

        thread = threading.Thread(target=run)
        thread.start()
        threads.append(thread)
        return path

    yield start
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
    for thread in threads:
        thread.join(5)


def read_request(channel: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += channel.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length")
    )
    while len(body) < length:
        body += channel.recv(65536)
    return head + b"\r\n\r\n" + body


def response(status: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


def test_request_and_answer(tmp_path: Path) -> None:
    path = str(tmp_path / "s.sock")
    got: list[bytes] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        listener.listen()

        def run() -> None:
            channel, _ = listener.accept()
            with channel:
                got.append(read_request(channel))
                channel.sendall(response("200 OK", '{"results": ["备份"]}'.encode()))

        thread = threading.Thread(target=run)
        thread.start()
        # A path of undecodable bytes holds lone surrogates.
        answer = client.ask(path, "search", {"query": "备份 \udce9"})
        thread.join(5)
    assert answer == {"results": ["备份"]}
    head, _, body = got[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/search HTTP/1.1\r\n")
    assert json.loads(body) == {"query": "备份 \udce9"}


def test_errors_come_back_as_they_were(serve: Serve) -> None:
    error = MemsearchError("the index is broken", kind=ErrorClass.DAMAGED, hint="mend it")
    path = serve(response("500 Internal Server Error", json.dumps(error_body(error)).encode()))
    with pytest.raises(MemsearchError) as caught:
        client.ask(path, "search", {})
    assert (caught.value.message, caught.value.kind, caught.value.hint) == (
        "the index is broken",
        ErrorClass.DAMAGED,
        "mend it",
    )


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (response("200 OK", b"not json"), ErrorClass.BAD_ANSWER),
        (response("200 OK", b"[1]"), ErrorClass.BAD_ANSWER),
        (response("404 Not Found", b"Not Found"), ErrorClass.CONFIG),
        (response("500 Oh", b"{}"), ErrorClass.BAD_ANSWER),
        (response("500 Oh", b'{"error": "x", "kind": "unheard of"}'), ErrorClass.BUG),
        (b"SSH-2.0-OpenSSH_9.6\r\n", ErrorClass.BAD_ANSWER),
    ],
)
def test_answers_that_are_not_ours(serve: Serve, answer: bytes, kind: ErrorClass) -> None:
    path = serve(answer)
    with pytest.raises(MemsearchError) as caught:
        client.ask(path, "search", {})
    assert caught.value.kind is kind


@pytest.mark.parametrize(
    "answer",
    [
        b"",  # ended without a word
        response("503 Service Unavailable", b'{"error": "the worker ends"}'),
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",  # ended in the middle
    ],
)
def test_a_service_that_ends_is_no_service(serve: Serve, answer: bytes) -> None:
    path = serve(answer)
    with pytest.raises(client.Unreachable):
        client.ask(path, "search", {})


def no_file(folder: Path) -> str:
    return str(folder / "none.sock")


def no_folder(folder: Path) -> str:
    return str(folder / "none" / "none.sock")


def stale_socket(folder: Path) -> str:
    path = str(folder / "stale.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(path)
    return path


def plain_file(folder: Path) -> str:
    (folder / "file").write_text("x")
    return str(folder / "file")


def below_a_file(folder: Path) -> str:
    return plain_file(folder) + "/x.sock"


def too_long(folder: Path) -> str:
    return str(folder / ("x" * 200))


@pytest.mark.parametrize(
    "make", [no_file, no_folder, stale_socket, plain_file, below_a_file, too_long]
)
def test_nobody_there(make: Callable[[Path], str], tmp_path: Path) -> None:
    path = make(tmp_path)
    assert not client.answers(path)
    with pytest.raises(client.Unreachable) as caught:
        client.ask(path, "search", {})
    assert not caught.value.refused


@pytest.mark.skipif(os.geteuid() == 0, reason="root may connect to any socket")
def test_a_socket_that_is_not_ours(serve: Serve) -> None:
    path = serve(b"")
    os.chmod(path, 0)
    with pytest.raises(client.Unreachable) as caught:
        client.ask(path, "search", {})
    assert caught.value.refused


def test_one_that_never_answers(tmp_path: Path) -> None:
    path = str(tmp_path / "s.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        listener.listen()
        assert client.answers(path)
        with pytest.raises(MemsearchError) as caught:
            client.ask(path, "search", {}, timeout=0.05)
    assert caught.value.kind is ErrorClass.TIMEOUT
    assert "workers" in caught.value.hint


def test_the_way_there_imports_little() -> None:
    """A search beside living workers is paid for by every call of every agent."""
    code = (
        "import sys\n"
        "from memsearch.cli import recall_cmds\n"
        "from memsearch.recall import backend\n"
        "from memsearch.recall.dates import parse_day\n"
        "print(*sorted(sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    heavy = {
        "email", "http", "huey", "milvus_lite", "msgspec", "numpy", "onnxruntime", "openai",
        "pymilvus",
        "snowballstemmer", "sqlite3", "ssl", "starlette", "structlog", "tokenizers", "tomlkit",
        "tomllib", "uvicorn",
    }  # fmt: skip
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert heavy & loaded == set()
    ours = {name for name in done.stdout.split() if name.startswith("memsearch.")}
    assert not any(name.startswith(("memsearch.sinks", "memsearch.sources")) for name in ours)


def test_a_handle_on_the_environment_goes_along() -> None:
    from memsearch.recall.requests import search_request, with_forwarded

    asked = {"HOME": "/home/a", "CODEX_HOME": "/codex", "SECRET": "x", "MEMSEARCH_DIR": "/m"}
    request: dict[str, Any] = search_request("q", cwd="/w", environ=asked)
    assert request["environ"] == {
        "HOME": "/home/a",
        "CODEX_HOME": "/codex",
        "MEMSEARCH_DIR": "/m",
    }
    serving = {"HOME": "/root", "PATH": "/bin", "CLAUDE_CONFIG_DIR": "/other"}
    # What the asker has not set is not set, whatever the service was started with.
    assert with_forwarded(serving, request) == {"PATH": "/bin", **request["environ"]}
    assert with_forwarded(serving, {"query": "q"}) == serving
