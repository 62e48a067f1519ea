"""The lock goes to those who wait, in their order."""

from __future__ import annotations

import threading
import time

from memsearch.sinks.fair_lock import FairLock


def waiting(lock: FairLock) -> int:
    return len(lock._waiting)


def test_it_is_handed_on_in_order() -> None:
    lock, order = FairLock(), []

    def take(number: int) -> None:
        with lock:
            order.append(number)

    lock.acquire()
    threads = []
    for number in range(5):
        threads.append(threading.Thread(target=take, args=(number,)))
        threads[-1].start()
        while waiting(lock) != number + 1:
            time.sleep(0.001)
    lock.release()
    # Who lets go and takes again at once comes after those who waited.
    take(99)
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3, 4, 99]


def test_one_at_a_time() -> None:
    lock, inside, most = FairLock(), 0, 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(200):
            with lock:
                inside += 1
                most = max(most, inside)
                time.sleep(0)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, inside) == (1, 0)
