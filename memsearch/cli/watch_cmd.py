"""``watch``: index what changes in any folders, until it is told to end."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from memsearch.cli import index_cmds, output
from memsearch.cli.home import current_home
from memsearch.config.errors import MemsearchError

if TYPE_CHECKING:
    from memsearch.workers.watch_index import Place

#: Seconds that a change which is being indexed has to end; killing it would harm nothing.
STOP_SECONDS = 10.0


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option(
    "--debounce-ms",
    type=click.IntRange(0, 600_000),
    help="Quiet time after an edit, in ms.  [default: watch.debounce_ms, 1500]",
)
@click.option("--project", metavar="DIR", help="A folder of the project, instead of this one.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
def watch(
    paths: tuple[str, ...], debounce_ms: int | None, project: str | None, as_json: bool
) -> None:
    """Index PATH, then go on indexing whatever changes in it, until Ctrl-C or SIGTERM.

    Without PATH: the memory of the project, which workers watch by themselves. Living workers
    do the indexing; without them this command does it. Editors' temporary files are passed
    over, files that vanish leave the index, failures are tried again, and the same files are
    left out as by memsearch index. Where the system cannot watch (its limit is reached, some
    network drives), the folders are looked through every few seconds, and it says so.

    Exit codes: 0 when it was told to end, by Ctrl-C too; 1 when something did not work; 2
    when a PATH does not exist.

    \b
    Examples:
      memsearch watch ./docs/ ./notes/
      memsearch watch ./docs/ --json | jq -r 'select(.event == "failed") | .path'
    """
    with output.reported():
        place = _place(project)
        named = [os.path.abspath(path) for path in paths]
        if not named:
            os.makedirs(place.project.memory_dir, exist_ok=True)
            named = [place.project.memory_dir]
        told = _Told(as_json)
        ending = _Ending()
        quiet = place.settings.watch.debounce_ms if debounce_ms is None else debounce_ms
        _run(place, named, quiet / 1000, told, ending)


def _place(project: str | None) -> Place:
    from memsearch.config.settings import load
    from memsearch.workers.logs import open_log
    from memsearch.workers.watch_index import Place

    home = current_home(create=True)
    request = index_cmds.request_for(project)
    mine = load(home, None, environ=os.environ, strict=True).settings
    found = index_cmds._resolve(request["cwd"], mine)
    settings = load(home, found.root, environ=os.environ, strict=True).settings
    note = open_log(home, echo=False)  # once: each call of it adds another writer
    return Place(home, os.environ, found, settings, request, lambda home: note)  # noqa: ARG005


def _run(place: Place, paths: list[str], debounce: float, told: _Told, ending: _Ending) -> None:
    from memsearch.workers import watch_index

    # Watching begins first, so that no edit falls between it and the first index.
    watcher = watch_index.watch(place, paths, told.change, debounce=debounce, notice=told.notice)
    try:
        told.began(paths, polling=watcher.polling)
        try:
            done = index_cmds.run(
                place.home, "index", dict(place.request) | {"paths": paths}, wait=True
            )
            told.first(done)
            watcher.again(watch_index.waiting_of(place, done))
        except MemsearchError as error:
            told.notice(f"not indexed: {error}")
            watcher.again()
        ending.wait()
    finally:
        if not watcher.stop(timeout=STOP_SECONDS):
            os._exit(0)  # an index under way is taken up by the next one


class _Ending:
    """Ctrl-C, SIGTERM or SIGHUP; the second one ends at once."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._ask)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._asked.is_set():
            os._exit(0)
        self._asked.set()

    def wait(self) -> None:
        self._asked.wait()


class _Told:
    """What is printed; from several threads."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._lock = threading.Lock()

    def began(self, paths: list[str], *, polling: bool) -> None:
        if self._as_json:
            self._put({"event": "watching", "paths": paths, "polling": polling})
        else:
            output.note(f"watching {', '.join(paths)}; Ctrl-C ends it")

    def first(self, done: dict[str, Any]) -> None:
        facts = {name: done[name] for name in ("seen", "queued", "chunks", "failed")}
        if self._as_json:
            self._put({"event": "ready", **facts})
            return
        output.note(f"{facts['seen']} files seen, {facts['queued']} changed")
        for failure in facts["failed"]:
            output.note(f"not indexed: {failure}")

    def change(self, kind: str, path: str, error: str) -> None:
        if self._as_json:
            self._put({"event": kind, "path": path, **({"error": error} if error else {})})
            return
        with self._lock:
            why = f": {output.one_line(error)}" if error else ""
            output.put(f"{time.strftime('%H:%M:%S')} {kind} {output.one_line(path)}{why}")

    def notice(self, words: str) -> None:
        if self._as_json:
            self._put({"event": "notice", "notice": words})
        else:
            output.note(f"note: {words}")

    def _put(self, value: dict[str, Any]) -> None:
        from memsearch.config.statedb import utc_now

        with self._lock:
            output.put(json.dumps({"at": utc_now(), **value}, ensure_ascii=False))
