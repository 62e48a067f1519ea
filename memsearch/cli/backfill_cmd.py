"""``backfill``: bring in what was said before memsearch was installed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from memsearch.cli import output
from memsearch.cli.home import current_home, start_for_next_time
from memsearch.config.errors import ErrorClass, MemsearchError

if TYPE_CHECKING:
    from memsearch.config.paths import Home
    from memsearch.pipeline.backfill import Backfill, Counts, Wanted
    from memsearch.sources.base import Conversation

#: Problems that are shown; the others are counted.
_MAX_PROBLEMS = 10


@click.command()
@click.option("--platform", multiple=True, metavar="AGENT", help="Only of this agent; repeatable.")
@click.option("--project", default="", metavar="PATH", help="Only of the project of this folder.")
@click.option("--since", default="", metavar="DAY", help="Only since then: YYYY-MM-DD, 30d, 8w.")
@click.option("--dry-run", is_flag=True, help="Say what there is and what it would take; stop.")
@click.option("--yes", is_flag=True, help="Do not ask before tokens are spent.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def backfill(
    platform: tuple[str, ...], project: str, since: str, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Capture past conversations of all agents, at their original dates.

    It reads what the agents keep, captures every finished turn that is not captured yet, and
    leaves the rest to the worker: summaries, journal, index. It can be stopped at any moment
    and run again; nothing is captured twice, and what was forgotten stays forgotten.

    \b
    Examples:
      memsearch backfill --dry-run
      memsearch backfill --since 30d --project .
      memsearch backfill --platform codex --yes
    """
    with output.reported():
        home = current_home(create=not dry_run)
        wanted = _wanted(home, platform, project, since)
        with _opened(home, wanted, keep=not dry_run) as run:
            conversations = run.conversations()
            fresh = [each for each in _progress(conversations, "reading") if run.survey(each)]
            facts = _facts(run)
            if not as_json:
                _show(run)
            captured = 0
            if not dry_run and fresh:
                _ask(facts, yes)
                captured = sum(map(run.capture, _progress(fresh, "capturing")))
                start_for_next_time(home, os.environ)
            _show_problems(run)
    if as_json:
        output.put_json(facts | {"dry_run": dry_run, "captured": captured})
    elif dry_run:
        output.note("nothing was captured (--dry-run)")
    elif captured:
        output.note(f"{captured} turns captured; memsearch status says how far the notes are")


def _wanted(home: Home, platforms: tuple[str, ...], project: str, since: str) -> Wanted:
    from datetime import datetime

    from memsearch.config.project import resolve
    from memsearch.config.settings import load
    from memsearch.pipeline.backfill import Wanted
    from memsearch.recall.dates import local_today, parse_day
    from memsearch.sources import registry

    for name in platforms:
        registry.get(name)  # an error names those that are known
    moment = None
    if since:
        day = parse_day(since, local_today(), option="--since")
        moment = datetime(day.year, day.month, day.day).astimezone()
    settings = load(home, None, environ=os.environ, strict=True).settings
    root = None
    if project:
        if not os.path.isdir(project):
            raise MemsearchError(f"there is no folder {project}", kind=ErrorClass.CONFIG)
        # As a turn of that folder is filed.
        where = {**os.environ, "MEMSEARCH_HOME": home.root}
        isolate = settings.project.isolate_worktrees
        root = resolve(project, where, isolate_worktrees=isolate).root
    return Wanted(platforms or registry.platforms(), root, moment)


@contextmanager
def _opened(home: Home, wanted: Wanted, *, keep: bool) -> Iterator[Backfill]:
    from contextlib import closing
    from tempfile import TemporaryDirectory

    from memsearch.pipeline.backfill import Backfill
    from memsearch.pipeline.engine import Engine
    from memsearch.pipeline.log import EventLog

    with TemporaryDirectory() as scratch:
        # A dry run of somebody who has no log yet leaves none behind.
        is_kept = keep or os.path.exists(home.state_db)
        path = home.state_db if is_kept else os.path.join(scratch, "state.db")
        with closing(EventLog(path)) as log:
            engine = Engine(home, dict(os.environ), log)
            try:
                yield Backfill(engine, wanted, os.environ)
            finally:
                engine.close()


def _progress(items: list[Conversation], label: str) -> Iterable[Conversation]:
    """The conversations one by one; on a terminal with a bar on stderr."""
    if not sys.stderr.isatty():
        yield from items
        return
    with click.progressbar(items, label=label, file=sys.stderr) as bar:
        yield from bar


def _facts(run: Backfill) -> dict[str, Any]:
    each = {name: counts.facts() for name, counts in run.counts.items()}
    total = {
        name: sum(facts[name] for facts in each.values())
        for name in ("conversations", "turns", "known", "running", "gone", "new", "tokens")
    }
    return total | {
        "skipped": sum(sum(facts["skipped"].values()) for facts in each.values()),
        "platforms": each,
        "providers": sorted(run.providers),
        "problems": run.problems,
    }


def _show(run: Backfill) -> None:
    for name, counts in run.counts.items():
        output.put(f"{name}: {_told(counts)}")
    total = sum(counts.new for counts in run.counts.values())
    tokens = sum(counts.tokens for counts in run.counts.values())
    by = f" by {', '.join(sorted(run.providers))}" if run.providers else ""
    output.put(f"to capture: {total} turns, about {tokens:,} tokens{by}")


def _told(counts: Counts) -> str:
    if not counts.turns:
        return "nothing"
    parts = [f"{counts.turns} turns in {counts.conversations} conversations"]
    if counts.new:
        parts.append(f"{counts.new} new ({counts.first} to {counts.last})")
    if counts.known:
        parts.append(f"{counts.known} captured already")
    if counts.running:
        parts.append(f"{counts.running} still going on")
    if counts.gone:
        parts.append(f"{counts.gone} in folders that are gone")
    parts += [f"{number} skipped ({why})" for why, number in sorted(counts.skipped.items())]
    if counts.unknown:
        parts.append(f"{sum(counts.unknown.values())} records of unknown types passed over")
    return ", ".join(parts)


def _ask(facts: dict[str, Any], yes: bool) -> None:
    """Have it confirmed that tokens are spent."""
    if yes or not facts["tokens"]:
        return
    if not sys.stdin.isatty():
        raise MemsearchError(
            f"this would spend about {facts['tokens']:,} tokens, and nobody can be asked",
            kind=ErrorClass.CONFIG,
            hint="memsearch backfill --yes goes on; --since and --project narrow it",
        )
    if not click.confirm("Go on?", err=True):
        raise MemsearchError("nothing was captured", kind=ErrorClass.CONFIG)


def _show_problems(run: Backfill) -> None:
    for problem in run.problems[:_MAX_PROBLEMS]:
        output.note(f"warning: {problem}")
    if len(run.problems) > _MAX_PROBLEMS:
        output.note(f"warning: and {len(run.problems) - _MAX_PROBLEMS} more")
