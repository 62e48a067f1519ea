"""The agents as servers: started once for many tests, and asked over HTTP."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from machine import PATIENCE, Machine

#: Seconds that a server may take to come up.
START_SECONDS = 240
#: Seconds between two looks at something that is waited for.
POLL_SECONDS = 0.1
RPC = Path(__file__).with_name("gateway_rpc.mjs")


def wait_for(what: Callable[[], bool], why: Callable[[], str] = str) -> None:
    """Look until something is so; a generous bound, since a machine may be slow."""
    deadline = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < deadline, why()
        time.sleep(POLL_SECONDS)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Server:
    """A process that listens; a context manager.

    Args:
        machine: Where it runs.
        argv: Its command line.
        port: Where it listens.
        ready: A path that answers when it is up.
        headers: Sent with every request.
    """

    def __init__(
        self, machine: Machine, argv: list[str], port: int, ready: str, **headers: str
    ) -> None:
        self.machine = machine
        self.url = f"http://127.0.0.1:{port}"
        self._argv = argv
        self._ready = ready
        self._headers = headers
        self._log = machine.root / "server.log"

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.machine.environ,
                cwd=self.machine.project,
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._is_up():
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(POLL_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End it; twice is once."""
        self.machine.model.release.set()
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(30)

    def _is_up(self) -> bool:
        try:
            self.call("GET", self._ready, timeout=5)
        except OSError:
            return False
        return True

    def log(self) -> str:
        """The end of what it said."""
        return self._log.read_text("utf-8", "replace")[-4_000:]

    def call(self, method: str, path: str, body: Any = None, timeout: float = PATIENCE) -> Any:
        """One request; what it answers as JSON."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"} | self._headers
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            raw = answer.read()
        return json.loads(raw) if raw.startswith((b"{", b"[")) else None


class OpenCodeServer(Server):
    """``opencode serve``."""

    def __init__(self, machine: Machine) -> None:
        port = free_port()
        argv = [*machine.programs["opencode"], "serve", "--port", str(port)]
        super().__init__(machine, argv, port, "/global/health")

    def begin(self, cwd: Path | None = None) -> str:
        """A new session, in the project or another folder; its id."""
        made = self.call("POST", f"/session?directory={self._directory(cwd)}", {})
        return str(made["id"])

    def say(self, session: str, words: str, cwd: Path | None = None) -> None:
        """A whole turn."""
        body = {"parts": [{"type": "text", "text": words}]}
        self.call("POST", f"/session/{session}/message?directory={self._directory(cwd)}", body)

    def act(self, session: str, what: str, body: Any = None) -> Any:
        """Something else that is done with a session."""
        return self.call("POST", f"/session/{session}/{what}", {} if body is None else body)

    def _directory(self, cwd: Path | None) -> str:
        return quote(str(cwd or self.machine.project))


class Gateway(Server):
    """OpenClaw's gateway; its port and the way in over HTTP are written into the settings."""

    def __init__(self, machine: Machine) -> None:
        config = machine.root / ".openclaw" / "openclaw.json"
        port = int(config.read_text("utf-8").partition('"port": ')[2].partition(",")[0])
        argv = [*machine.programs["openclaw"], "gateway", "run"]
        super().__init__(machine, argv, port, "/healthz", authorization="Bearer stub-token")

    def say(self, session: str, words: str, agent: str = "main") -> None:
        """A whole turn."""
        body = {"model": f"openclaw/{agent}", "messages": [{"role": "user", "content": words}]}
        self._headers["x-openclaw-session-key"] = f"agent:{agent}:{session}"
        self.call("POST", "/v1/chat/completions", body)

    def say_aside(self, session: str, words: str) -> threading.Thread:
        """A turn that somebody else waits for; it may be aborted."""

        def run() -> None:
            try:
                self.say(session, words)
            except urllib.error.HTTPError:
                return  # what an aborted turn gets

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def rpc(self, method: str, **parameters: Any) -> Any:
        """A request over its WebSocket, which only Node speaks without more."""
        node = self.machine.programs["openclaw"][0]
        argv = [node, str(RPC), self.url.replace("http", "ws"), "stub-token", method]
        done = subprocess.run(
            [*argv, json.dumps(parameters)], capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)
