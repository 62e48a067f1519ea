"""Starting the one worker of a home from a process that must not wait for it.

Whoever finds the worker's lock free takes it and hands the locked descriptor to the worker
it starts: the lock is never let go in between, so a hundred hooks at once start one worker.
"""

from __future__ import annotations

import os
import sys
import time

from memsearch.config.agent_env import without_session
from memsearch.config.paths import Home
from memsearch.config.worker_lock import LOCK_FD_VARIABLE, backoff_left, stamp_start, take_lock


def start_worker(home: Home, environ: dict[str, str], *, by_hand: bool = False) -> int | None:
    """Start the worker of this home unless one lives.

    Args:
        home: Whose worker.
        environ: The caller's environment.
        by_hand: A person asks, who may have mended what the last starts died of: start at
            once, however they ended.

    Returns:
        The new worker's process id; None when one lives already or a start has to wait.

    Raises:
        OSError: The lock or the process could not be made.
    """
    fd = take_lock(home)
    if fd is None:
        return None
    try:
        now = time.time()
        if not by_hand and backoff_left(home, now) > 0:
            return None
        stamp_start(home, now)
        os.set_inheritable(fd, True)
        environ = without_session(environ)
        environ[LOCK_FD_VARIABLE] = str(fd)
        environ["MEMSEARCH_HOME"] = home.root
        # -P keeps the agent's working directory off sys.path: a project may hold a folder
        # that is called memsearch.
        argv = [sys.executable, "-P", "-m", "memsearch._entry", "workers", "--foreground"]
        return _spawn(argv, environ, keep=fd)
    finally:
        os.close(fd)  # the worker's copy keeps the lock


def _open_descriptors() -> list[int]:
    for folder in ("/proc/self/fd", "/dev/fd"):
        try:
            return [int(name) for name in os.listdir(folder)]
        except (OSError, ValueError):
            continue
    return list(range(3, 256))


def _spawn(argv: list[str], environ: dict[str, str], keep: int) -> int:
    actions: list[tuple[int, int] | tuple[int, int, str, int, int]] = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    # The agent waits for the end of a hook's output: no descriptor of it may live on.
    actions += [(os.POSIX_SPAWN_CLOSE, fd) for fd in _open_descriptors() if fd > 2 and fd != keep]
    try:
        return os.posix_spawn(argv[0], argv, environ, file_actions=actions, setsid=True)
    except NotImplementedError:
        return _double_fork(argv, environ, keep)


def _double_fork(argv: list[str], environ: dict[str, str], keep: int) -> int:
    """For a libc whose ``posix_spawn`` cannot make a new session."""
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        return pid
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        for fd in _open_descriptors():
            if fd > 2 and fd != keep:
                try:
                    os.close(fd)
                except OSError:
                    continue
        os.execve(argv[0], argv, environ)
    finally:
        os._exit(127)
