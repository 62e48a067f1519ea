"""``status``: what works, what waits, what failed, and why."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any

import click

from memsearch.cli import output
from memsearch.cli.home import current_home, open_log
from memsearch.config import worker_lock
from memsearch.config.errors import MemsearchError
from memsearch.config.paths import unusable


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(as_json: bool) -> None:
    """Say what works, what waits, what failed, and why.

    \b
    Examples:
      memsearch status
      memsearch status --json | jq -r .state

    Exit codes: 0 when all is well or the day's budget is spent, 1 when something needs you: work
    that is due and does not progress, a provider that fails, dead letters of the last day
    that nobody has looked at, a fault of the home, the spool or the configuration.
    """
    with output.reported():
        found = collect()
    if as_json:
        output.put_json(found)
    else:
        for line in lines(found):
            output.put(line)
        _show_project_problems()
    if found["state"] == "degraded":
        raise SystemExit(output.DEGRADED)


def _show_project_problems() -> None:
    """What of the current project's own settings file is not taken as it stands, on stderr."""
    from memsearch.config.project import working_folder
    from memsearch.config.settings import load_at

    _, loaded = load_at(working_folder(os.environ), os.environ, strict=False)
    for problem in loaded.problems:
        if os.path.basename(problem.origin) == ".memsearch.toml":
            output.note(f"warning: {problem}")


def collect() -> dict[str, Any]:
    """The status of the current home."""
    from memsearch.config.settings import load
    from memsearch.pipeline import put_aside
    from memsearch.pipeline.status import Surroundings
    from memsearch.pipeline.status import status as judge
    from memsearch.recall import client
    from memsearch.workers.recovery import spooled

    home = current_home()
    loaded = load(home, None, environ=os.environ, strict=False)
    pid = worker_lock.holder_pid(home)
    listening = pid is not None and client.answers(home.socket)
    passed_over: dict[str, str] = {}
    watch: tuple[str, ...] = ()
    if listening:
        with contextlib.suppress(client.Unreachable, MemsearchError):
            alive = client.ask(home.socket, "ping", {}, timeout=5.0)
            passed_over, watch = alive["passed_over"], tuple(alive.get("watch", ()))
    spool = spooled(home)
    around = Surroundings(
        worker_pid=pid,
        listening=listening,
        passed_over=passed_over,
        watch=watch,
        spooled=len(spool),
        spooled_seconds=max((_age(path) for path in spool), default=0.0),
        worker_seconds=_age(home.worker_lock),
        early_deaths=worker_lock.early_deaths(home),
        unlockable=worker_lock.fault(home),
        free_bytes=_free_bytes(home.root),
        put_aside=tuple(aside.path for aside in put_aside.damaged(home)),
        bad_spooled=len(put_aside.bad_spooled(home)),
        problems=tuple(str(problem) for problem in loaded.problems if problem.severity != "note"),
    )
    why = unusable(home.root)
    unwritable = [f"nothing can be stored from here: {why}"] if why else []
    reasons = unwritable + [f"configuration: {problem}" for problem in around.problems]
    try:
        log = open_log(home)
        if log is not None:
            try:
                found = judge(log, loaded.settings, around, time.time()) | {"home": home.root}
            finally:
                log.close()
            if unwritable:
                found |= {"state": "degraded", "reasons": unwritable + found["reasons"]}
            return found
    except MemsearchError as error:
        # The one thing that status is asked about must not keep it from answering.
        reasons.append(str(error))
    return {
        "state": "degraded" if reasons else "ok",
        "reasons": reasons,
        "turns": {},
        "workers": {"pid": pid, "listening": around.listening},
        "home": home.root,
    }


def _free_bytes(folder: str) -> int | None:
    """What a user's programs may still write on the disk of a folder; None for no folder."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def _age(path: str) -> float:
    """Seconds since a file was written; 0 for one that is gone."""
    try:
        return max(0.0, time.time() - os.stat(path).st_mtime)
    except OSError:
        return 0.0


def lines(found: dict[str, Any]) -> list[str]:
    """The status as a person reads it."""
    from memsearch.pipeline.status import span

    shown = [f"{found['state']}  ({found['home']})"]
    shown += [f"  ! {output.one_line(reason)}" for reason in found["reasons"]]
    turns = found["turns"]
    if not turns and not found.get("hooks"):
        shown.append("  nothing was captured yet")
    else:
        names = ("done", "open", "dead", "skipped", "discarded", "forgotten")
        parts = [f"{turns[name]} {name}" for name in names if turns.get(name)]
        shown.append("  turns: " + (", ".join(parts) or "none"))
    for reason, number in found.get("skipped", {}).items():
        shown.append(f"    skipped: {number} {reason}")
    for agent, why in found.get("summarizers_passed_over", {}).items():
        shown.append(f"  summaries of {agent}: its own command line is passed over: {why}")
    for item in found.get("waiting", []):
        why = f": {output.shorten(output.one_line(str(item['why'])), 160)}" if item["why"] else ""
        oldest = span(item["seconds"])
        shown.append(f"  waiting: {item['count']} for {item['stage']}, oldest {oldest}{why}")
    for item in found.get("held", []):
        again = item["next_try_seconds"]
        when = "" if again is None else f", tried again in {span(again)}"
        shown.append(
            f"  held back: {item['count']} turns of session {item['session']} by"
            f" {item['behind']} ({item['stage']}{when})"
        )
    letters = found.get("dead_letters", {})
    if letters.get("total"):
        by = ", ".join(f"{n} {stage}" for stage, n in letters["by_stage"].items())
        shown.append(f"  dead letters: {letters['total']} ({by}); memsearch dead-letter list")
    for row in found.get("documents", []):
        behind = f", {row['not_indexed']} behind" if row["not_indexed"] else ""
        shown.append(
            f"  index: {row['documents']} documents, {row['chunks']} chunks{behind}"
            f"  ({row['project'] or row['collection']})"
        )
    for row in found.get("renewals", []):
        shown.append(
            f"  renewing: {row['documents']} of {row['of']} documents, from"
            f" {row['from'] or 'what is not known'} to {row['to']}"
            f"  ({row['project'] or row['collection']});"
            + (" waits, see above;" if row["waits"] else "")
            + " keywords answer meanwhile"
        )
    for path in found.get("put_aside", []):
        shown.append(f"  damaged, put aside and made anew: {path}")
    if found.get("put_aside"):
        shown.append("  memsearch forget --put-aside deletes what was put aside")
    budget = found.get("budget")
    if budget:
        cap = budget["daily_tokens"] or "no cap"
        shown.append(f"  tokens today: {budget['spent']} of {cap}")
    for stage, at in found.get("last_success", {}).items():
        if at:
            shown.append(f"  last {stage}: {at}")
    shown += [f"  watching: {words}" for words in found["workers"].get("watch", ())]
    worker = found["workers"]["pid"]
    shown.append(f"  worker: {f'pid {worker}' if worker else 'none runs'}")
    return shown
