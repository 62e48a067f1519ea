"""Processes take turns at the store's lock."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sinks.store_lock import StoreLock

HOLD = """
import sys, time
from memsearch.sinks.store_lock import StoreLock
lock = StoreLock(sys.argv[1])
lock.acquire(5)
print("held", flush=True)
time.sleep(float(sys.argv[2]))
lock.release()
time.sleep(30)
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "with space 中" / "store.lock")


def hold(path: str, seconds: float) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", HOLD, path, str(seconds)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_the_holder_is_named(path: str) -> None:
    process = hold(path, 30)
    try:
        lock = StoreLock(path)
        assert not lock.try_acquire()
        with pytest.raises(MemsearchError) as caught:
            lock.acquire(0.1)
        assert caught.value.kind is ErrorClass.BUSY
        assert f"process {process.pid}" in caught.value.message
        assert not lock.held
    finally:
        end(process)


def test_the_next_one_waits_its_turn(path: str) -> None:
    process = hold(path, 0.3)
    try:
        lock, asked = StoreLock(path), []
        lock.acquire(10, lambda waited: bool(asked.append(waited)))
        assert lock.held
        assert asked == sorted(asked)
        assert len(asked) > 0
        assert lock.holder() == os.getpid()
        lock.release()
        assert lock.holder() is None
    finally:
        end(process)


def test_waiting_is_given_up_early(path: str) -> None:
    process = hold(path, 30)
    try:
        started = time.monotonic()
        with pytest.raises(MemsearchError, match="in use") as caught:
            StoreLock(path).acquire(60, lambda waited: waited > 0.1)
        assert caught.value.kind is ErrorClass.BUSY
        assert time.monotonic() - started < 10
    finally:
        end(process)


def test_a_killed_holder_holds_nothing(path: str) -> None:
    process = hold(path, 30)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    lock = StoreLock(path)
    assert lock.try_acquire()
    lock.release()


def test_two_in_one_process(path: str) -> None:
    first, second = StoreLock(path), StoreLock(path)
    assert first.try_acquire()
    assert first.try_acquire()  # it has it already
    with pytest.raises(MemsearchError, match="this same process"):
        second.acquire(0)
    first.release()
    first.release()
    assert second.try_acquire()
    second.release()


def test_a_child_does_not_keep_it(path: str) -> None:
    lock = StoreLock(path)
    assert lock.try_acquire()
    child = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False
    )
    try:
        lock.release()
        assert StoreLock(path).try_acquire()
    finally:
        child.communicate()


def test_the_file_is_for_the_user_alone(path: str) -> None:
    lock = StoreLock(path)
    lock.acquire(0)
    assert os.stat(path).st_mode & 0o077 == 0
    lock.release()
    assert os.path.exists(path)
