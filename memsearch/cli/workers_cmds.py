"""``workers``: run the background worker in one of its ways, or manage the one that lives."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, NoReturn

import click

from memsearch.cli import output
from memsearch.cli.home import (
    current_home,
    start_for_next_time,
    start_worker,
    stop_worker,
    take_worker_lock,
    usable,
    wait_until,
)
from memsearch.config import worker_lock
from memsearch.config.errors import ErrorClass, MemsearchError

if TYPE_CHECKING:
    from memsearch.config.paths import Home
    from memsearch.pipeline.engine import Engine
    from memsearch.workers.runner import Counts

#: Seconds that a started worker has to begin to listen.
START_SECONDS = 10.0


@click.group(invoke_without_command=True)
@click.option("--foreground", is_flag=True, help="Run here until stopped (the default).")
@click.option("--drain", is_flag=True, help="Work everything that is due, then exit.")
@click.option("--wait", is_flag=True, help="With --drain: wait for retries too.")
@click.option("--json", "as_json", is_flag=True, help="With --drain: print the summary as JSON.")
@click.option("--debug", is_flag=True, help="Write to the log what ran, not only what happened.")
@click.pass_context
def workers(
    ctx: click.Context, foreground: bool, drain: bool, wait: bool, as_json: bool, debug: bool
) -> None:
    """Run the worker that turns captured turns into notes and keeps the index.

    Agents' hooks start it by themselves, and it ends by itself when it has had nothing to do
    for a while (workers.idle_exit_minutes). There is one for each MEMSEARCH_HOME.

    \b
    Examples:
      memsearch workers start
      memsearch workers status
      memsearch workers --drain         work what is due, then exit
      memsearch workers --drain --wait  also wait for what is to be tried again
      memsearch workers stop

    Exit codes: 0 when it was told to end, by Ctrl-C too, or --drain has worked all; 1 when
    --drain added a dead letter or cannot go on; 2 when the call or a setting is wrong; 130
    after Ctrl-C in --drain.
    """
    if ctx.invoked_subcommand is not None:
        if foreground or drain or wait or as_json or debug:
            raise click.UsageError(f"these options do not go with {ctx.invoked_subcommand}")
        return
    if (wait or as_json) and not drain:
        raise click.UsageError("--wait and --json go with --drain; memsearch workers status --json")
    if foreground and drain:
        raise click.UsageError("--foreground and --drain are two ways to run; choose one")
    with output.reported():
        if drain:
            _drain(wait, as_json, debug)
        else:
            _foreground(debug)


def _foreground(debug: bool) -> None:
    home = current_home(create=True)
    inherited = os.environ.pop(worker_lock.LOCK_FD_VARIABLE, "")
    lock = int(inherited) if inherited.isdigit() else None
    if lock is None or not worker_lock.is_ours(home, lock):
        with usable(home):
            lock = worker_lock.take_lock(home)
    if lock is None:
        pid = worker_lock.holder_pid(home)
        output.note(f"a worker runs already (pid {pid}); memsearch workers stop ends it")
        return
    os.set_inheritable(lock, False)  # the agents' CLIs that it calls must not keep the lock
    worker_lock.write_pid(lock)
    from memsearch.workers.logs import open_log
    from memsearch.workers.runner import Worker

    os.chdir(home.root)  # the folder it was started in may go away
    note = open_log(home, echo=sys.stderr.isatty(), debug=debug)
    with _leaving(note):
        Worker(home, dict(os.environ), lock, note).run()
    _leave(output.OK)


@contextmanager
def _leaving(note: Callable[..., None]) -> Iterator[None]:
    """End the process at an error, at once: see :func:`_leave`."""
    from memsearch.pipeline.engine import Engine

    try:
        yield
    except MemsearchError as error:
        note("worker_died", level="error", error=str(error), kind=error.kind.value)
        output.show_error(error)
        _leave(output.exit_code(error))
    except Exception as error:
        import traceback

        # Without its words in the log: they may quote a conversation.
        where = Engine.where(error)
        note("worker_died", level="error", error=type(error).__name__, traceback=where)
        traceback.print_exc()
        _leave(output.DEGRADED)


def _leave(code: int) -> NoReturn:
    """Leave without waiting: a call that hangs in a thread must not hold the lock."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _drain(wait: bool, as_json: bool, debug: bool) -> None:
    home = current_home(create=True)
    lock = take_worker_lock(home)
    told = ""
    if lock is None:
        counts = _wait_for_living(home, wait)
    else:
        from memsearch.workers.logs import open_log
        from memsearch.workers.runner import Worker

        note = open_log(home, echo=False, debug=debug)
        with _leaving(note):
            worker = Worker(home, dict(os.environ), lock, note)
            counts = worker.drain(wait=wait, progress=_progress())
        told = worker.reason
        os.close(lock)
        if not counts.stalled and worker.has_due():
            # A hook that came in at the very end saw the lock held and started nobody.
            start_for_next_time(home, os.environ)
    _show_counts(counts, as_json)
    if counts.stalled:
        output.note("what is due does not move any more; logs/worker.log says why")
    if told in signal.Signals.__members__:
        _leave(128 + signal.Signals[told])  # as a shell has it: not all was worked
    _leave(output.DEGRADED if counts.dead or counts.stalled else output.OK)


def _progress() -> Callable[[Engine], None]:
    last = time.monotonic()

    def show(engine: Engine) -> None:
        nonlocal last
        if time.monotonic() - last < output.progress_pause():
            return
        last = time.monotonic()
        from memsearch.workers.runner import count

        counts = count(engine.log, sys.maxsize)
        running = ", ".join(sorted({stage for stage, _ in engine.running()})) or "nothing"
        output.note(f"{counts.waiting} to do; running: {running}")

    return show


def _wait_for_living(home: Home, wait: bool) -> Counts:
    """A worker lives and has the same work to do: wait until it has done it."""
    from memsearch.pipeline.log import EventLog
    from memsearch.workers import recovery
    from memsearch.workers.runner import SOON_SECONDS, Pace, count

    output.note("a worker runs; waiting for it")
    log = EventLog(home.state_db)
    try:
        first = int(log.value("SELECT MAX(seq) FROM events") or 0)
        quiet = 0
        last = time.monotonic()
        pace = Pace(last)
        while quiet < 3:
            due = recovery.next_due(log)
            busy = due is not None and (wait or due <= time.time() + SOON_SECONDS)
            seq = int(log.value("SELECT MAX(seq) FROM events") or 0)
            if due is None or due > time.time():
                pace.goes_on(time.monotonic())
            elif pace.stalls(seq, time.monotonic()):
                if not _running(home):
                    return replace(count(log, first), stalled=True)
                pace.goes_on(time.monotonic())
            quiet = 0 if busy or recovery.spooled(home) else quiet + 1
            if not worker_lock.is_held(home):
                started = quiet or start_worker(home, by_hand=False) is not None
                if not started and not worker_lock.is_held(home):
                    raise MemsearchError(
                        "the worker ended before the work was done",
                        kind=ErrorClass.BUSY,
                        hint="memsearch workers --drain again; logs/worker.log says why it ended",
                    )
                continue
            if time.monotonic() - last > output.progress_pause():
                last = time.monotonic()
                output.note(f"{count(log, sys.maxsize).waiting} to do")
            time.sleep(0.1)
        return count(log, first)
    finally:
        log.close()


def _running(home: Home) -> list[list[str]]:
    """What the living worker is at; nothing when it does not say."""
    from memsearch.recall import client

    try:
        found = client.ask(home.socket, "ping", {}, timeout=5.0).get("running", [])
    except (client.Unreachable, MemsearchError):
        return []
    return list(found)


def _show_counts(counts: Counts, as_json: bool) -> None:
    if as_json:
        output.put_json(asdict(counts))
        return
    parts = [
        f"{number} {word}"
        for word, number in (
            ("captured", counts.captured),
            ("skipped", counts.skipped),
            ("summarised", counts.summarized),
            ("appended", counts.appended),
            ("documents indexed", counts.indexed),
            ("failed tries", counts.failed),
            ("dead letters", counts.dead),
            ("waiting", counts.waiting),
        )
        if number
    ]
    output.put(", ".join(parts) if parts else "nothing to do")
    if counts.dead or counts.waiting:
        output.note("memsearch status says why")


@workers.command()
def start() -> None:
    """Start a worker in the background, unless one runs.

    \b
    Example:
      memsearch workers start
    """
    with output.reported():
        home = current_home(create=True)
        pid = worker_lock.holder_pid(home)
        if pid is not None:
            output.put(f"a worker runs already (pid {pid})")
            return
        start_worker(home)
        from memsearch.recall import client

        if not wait_until(lambda: client.answers(home.socket), START_SECONDS):
            raise MemsearchError(
                f"the worker does not answer after {START_SECONDS:g} s",
                kind=ErrorClass.TIMEOUT,
                hint="memsearch workers --foreground shows why",
            )
        output.put(f"started (pid {worker_lock.holder_pid(home)})")


@workers.command()
def stop() -> None:
    """End the worker; what it was at is taken up by the next one.

    \b
    Example:
      memsearch workers stop
    """
    with output.reported():
        output.put("stopped" if stop_worker(current_home()) else "no worker runs")


@workers.command()
def restart() -> None:
    """End the worker and start a new one, for instance after an update.

    \b
    Example:
      memsearch workers restart
    """
    with output.reported():
        stop_worker(current_home())
    click.get_current_context().invoke(start)


@workers.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def worker_status(as_json: bool) -> None:
    """Say whether a worker runs and what it is at.

    \b
    Example:
      memsearch workers status --json

    Exit codes: 0 when one runs, 1 when none does.
    """
    with output.reported():
        home = current_home()
        pid = worker_lock.holder_pid(home)
        from memsearch.recall import client

        answers = pid is not None and client.answers(home.socket)
        running = _running(home) if answers else []
        if as_json:
            output.put_json({"pid": pid, "listening": answers, "running": running})
        elif pid is None:
            output.put("no worker runs; the next hook or search starts one")
        else:
            output.put(f"a worker runs (pid {pid}){'' if answers else ', not listening yet'}")
            for stage, key in running:
                output.put(f"  {stage:<10} {key}")
    if pid is None:
        raise SystemExit(output.DEGRADED)
