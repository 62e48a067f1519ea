"""The worker's lock: who asks for it must not be taken for a worker, and no pid is believed."""

import errno
import fcntl
import os
import threading

import pytest

from memsearch.config import worker_lock
from memsearch.config.paths import Home


@pytest.fixture
def home(tmp_path):
    made = Home(str(tmp_path / "home"))
    made.create()
    return made


def test_one_takes_it_and_the_next_does_not(home):
    first = worker_lock.take_lock(home)
    assert first is not None
    assert worker_lock.take_lock(home) is None
    assert worker_lock.is_held(home)
    os.close(first)
    assert not worker_lock.is_held(home)
    second = worker_lock.take_lock(home)
    assert second is not None
    os.close(second)


def test_those_who_only_ask_never_keep_a_start_from_happening(home):
    os.close(worker_lock.take_lock(home))
    over = threading.Event()

    def ask():
        while not over.is_set():
            worker_lock.is_held(home)

    asking = [threading.Thread(target=ask) for _ in range(3)]
    for thread in asking:
        thread.start()
    try:
        for _ in range(300):
            taken = worker_lock.take_lock(home)
            assert taken is not None
            os.close(taken)
    finally:
        over.set()
        for thread in asking:
            thread.join()


def test_the_last_holders_pid_leaves_with_the_lock(home):
    first = worker_lock.take_lock(home)
    worker_lock.write_pid(first)
    assert worker_lock.holder_pid(home) == os.getpid()
    os.close(first)
    assert worker_lock.holder_pid(home) is None
    second = worker_lock.take_lock(home)  # a hook that hands it to a worker it starts
    assert worker_lock.is_held(home)
    assert worker_lock.holder_pid(home) is None
    os.close(second)


def test_a_lock_whose_file_was_deleted_is_known_to_keep_nobody_out(home):
    first = worker_lock.take_lock(home)
    assert worker_lock.is_ours(home, first)
    os.unlink(home.worker_lock)
    assert not worker_lock.is_ours(home, first)
    second = worker_lock.take_lock(home)
    assert worker_lock.is_ours(home, second)
    assert not worker_lock.is_ours(home, first)
    os.close(first)
    os.close(second)


@pytest.mark.parametrize(
    ("failures", "ago", "left"),
    [(1, 0.0, 1.0), (2, 0.0, 2.0), (3, 1.0, 3.0), (12, 0.0, 300.0), (1, 5.0, 0.0)],
)
def test_the_wait_after_starts_that_died_early(home, failures, ago, left):
    for _ in range(failures):
        worker_lock.stamp_start(home, 1_000_000.0 - ago)
    assert worker_lock.backoff_left(home, 1_000_000.0) == pytest.approx(left)
    worker_lock.clear_stamp(home)
    assert worker_lock.backoff_left(home, 1_000_000.0) == 0.0


def test_a_clock_that_was_set_back_holds_no_start_off(home):
    worker_lock.stamp_start(home, 1_000_000.0)
    assert worker_lock.backoff_left(home, 900_000.0) == 0.0


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_locks_is_no_living_worker(home, monkeypatch, number):
    os.close(worker_lock.take_lock(home))
    assert worker_lock.fault(home) == ""

    def flock(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(OSError, match=r"worker\.lock"):
        worker_lock.take_lock(home)
    assert not worker_lock.is_held(home)
    assert os.strerror(number) in worker_lock.fault(home)


def test_a_living_worker_is_no_fault(home):
    lock = worker_lock.take_lock(home)
    assert worker_lock.is_held(home)
    assert worker_lock.fault(home) == ""
    os.close(lock)
    assert worker_lock.fault(home) == ""
