"""Running another program with a deadline that nothing outlives.

The program gets its own session and process group. At the deadline, or when the worker
stops, the whole group is ended: agents start helpers, and a helper that holds a pipe open
would keep us waiting for ever. Also after a normal end nothing of the group stays behind.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Literal

from memsearch.pipeline.summarizers.calls import POLL_SECONDS

#: Bytes of each output stream that are kept; the rest is read and dropped.
MAX_OUTPUT_BYTES = 1_000_000
#: Seconds that a program has to end by itself after SIGTERM.
GRACE_SECONDS = 2.0
#: Seconds in which what a finished program left in its pipes is read.
DRAIN_SECONDS = 0.5
_PIPE_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended.

    ``status`` is its exit status, or minus the signal that ended it; ``why`` is ``exit``
    when it ended by itself.
    """

    status: int
    out: str
    err: str
    why: Literal["exit", "timeout", "stop"]


def run(
    argv: Sequence[str],
    *,
    stdin: bytes = b"",
    env: Mapping[str, str],
    cwd: str,
    timeout: float,
    stop: threading.Event,
) -> Ended:
    """Run a program to its end, without a shell.

    Args:
        argv: The program's path and its arguments.
        stdin: What it can read; any size, since it is written while the output is read.
        env: Its whole environment.
        cwd: Its working directory.
        timeout: Seconds after which its group is ended.
        stop: Ends it when set.

    Raises:
        OSError: It could not be started.
    """
    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(env),
        cwd=cwd,
        start_new_session=True,
    )
    pipes = _Pipes(process, stdin)
    try:
        why = _wait(process, pipes, time.monotonic() + timeout, stop)
        if why != "exit":
            _signal_group(process, signal.SIGTERM)
            grace = time.monotonic() + GRACE_SECONDS
            while not _has_ended(process) and time.monotonic() < grace:
                pipes.turn(POLL_SECONDS)
        else:
            pipes.drain(DRAIN_SECONDS)
        # The leader is not reaped yet, so its number cannot belong to another group.
        _signal_group(process, signal.SIGKILL)
        status = process.wait()
    except BaseException:
        _signal_group(process, signal.SIGKILL)
        process.wait()
        raise
    finally:
        pipes.close()
    return Ended(status, pipes.text(process.stdout), pipes.text(process.stderr), why)


def _wait(
    process: subprocess.Popen[bytes], pipes: _Pipes, deadline: float, stop: threading.Event
) -> Literal["exit", "timeout", "stop"]:
    while not _has_ended(process):
        if stop.is_set():
            return "stop"
        if time.monotonic() >= deadline:
            return "timeout"
        pipes.turn(POLL_SECONDS)
    return "exit"


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether the program has ended, leaving it to be reaped where the system can."""
    if not hasattr(os, "waitid"):
        return process.poll() is not None
    flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
    try:
        return os.waitid(os.P_PID, process.pid, flags) is not None
    except ChildProcessError:
        return True


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    # The group is gone when all of it has ended; on macOS a group of zombies refuses.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


class _Pipes:
    """Feeds the standard input and collects both outputs, never blocking on one of them."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: bytes) -> None:
        self._process = process
        self._left = memoryview(stdin)
        self._kept: dict[int, bytearray] = {}
        self._selector = selectors.DefaultSelector()
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            if stream is process.stdin:
                self._selector.register(stream, selectors.EVENT_WRITE)
            else:
                self._kept[stream.fileno()] = bytearray()
                self._selector.register(stream, selectors.EVENT_READ)
        self._texts: dict[int, str] = {}

    def turn(self, seconds: float) -> bool:
        """Move what can be moved; waits up to ``seconds`` for it. False: nothing came."""
        if not self._selector.get_map():
            time.sleep(seconds)
            return False
        ready = self._selector.select(seconds)
        for key, _ in ready:
            if key.fileobj is self._process.stdin:
                self._write()
            else:
                self._read(key.fd)
        return bool(ready)

    def drain(self, seconds: float) -> None:
        """Read what is left in the pipes, but wait for nobody who holds them open."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self._selector.get_map():
            if not self.turn(0.0):
                break

    def close(self) -> None:
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                self._texts[id(stream)] = self._kept[stream.fileno()].decode("utf-8", "replace")
        self._selector.close()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):  # a flush into a pipe that nobody reads
                    stream.close()

    def text(self, stream: IO[bytes] | None) -> str:
        """What came from one of the outputs; to be asked after ``close``."""
        return self._texts[id(stream)]

    def _write(self) -> None:
        stream = self._process.stdin
        assert stream is not None
        try:
            if self._left:
                self._left = self._left[os.write(stream.fileno(), self._left[:_PIPE_BYTES]) :]
        except BlockingIOError:
            return
        except OSError:  # it does not read; its exit says why
            self._left = memoryview(b"")
        if not self._left:
            self._selector.unregister(stream)
            with contextlib.suppress(OSError):
                stream.close()

    def _read(self, fd: int) -> None:
        try:
            data = os.read(fd, _PIPE_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._selector.unregister(fd)
            return
        kept = self._kept[fd]
        kept += data[: MAX_OUTPUT_BYTES - len(kept)]
