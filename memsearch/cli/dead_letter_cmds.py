"""``dead-letter``: look at what gave up, send it through again, or let it go."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from memsearch.cli import output
from memsearch.cli.home import current_home, open_log, start_worker, stop_worker
from memsearch.config import statedb
from memsearch.config.errors import ErrorClass, MemsearchError

if TYPE_CHECKING:
    from memsearch.pipeline.dead_letters import DeadLetter
    from memsearch.pipeline.log import EventLog

F = TypeVar("F", bound=Callable[..., Any])

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _stage(what: str) -> Callable[[F], F]:
    stages = click.Choice(("capture", "summarize", "append", "chunk", "embed", "upsert"))
    listed = ", ".join(stages.choices)
    return click.option("--stage", type=stages, metavar="STAGE", help=f"{what}: {listed}.")


@click.group("dead-letter")
def dead_letter() -> None:
    """Turns, hooks and documents whose stage gave up. Nothing of them is lost.

    \b
    Examples:
      memsearch dead-letter list
      memsearch dead-letter show 3fa9c2d1
      memsearch dead-letter replay 3fa9c2d1
      memsearch dead-letter replay --all --stage summarize --since 2d
      memsearch dead-letter discard --older 7d
    """


@dead_letter.command("list")
@_stage("Only of this stage")
@click.option("--since", default="", metavar="DAY", help="Only since then: YYYY-MM-DD, 2d, 1w.")
@_json
def list_(stage: str | None, since: str, as_json: bool) -> None:
    """List the dead letters, oldest first, each with its reason.

    \b
    Examples:
      memsearch dead-letter list
      memsearch dead-letter list --stage summarize --since 2d --json
    """
    with output.reported(), _log() as log:
        from memsearch.pipeline.dead_letters import dead_letters
        from memsearch.pipeline.status import mark_dead_letters_seen

        letters = dead_letters(log, stage=stage or "", since=_moment(since)) if log else []
        if log is not None and letters:
            mark_dead_letters_seen(log, time.time())
    if as_json:
        output.put_json([letter.facts() for letter in letters])
        return
    for letter in letters:
        output.put(
            f"{letter.id}  {letter.at[:19]}  {letter.stage:<9} {letter.reason:<11} "
            f"{output.shorten(output.one_line(letter.error), 120)}"
        )
    if letters:
        output.note("memsearch dead-letter show ID tells all of one; replay ID tries it again")
    else:
        output.note("no dead letters")


@dead_letter.command()
@click.argument("name", metavar="ID")
@_json
def show(name: str, as_json: bool) -> None:
    """Show one: the turn, the stage, every attempt with its error, how to replay it.

    ID is what the list shows, or its first 4 digits or more.

    \b
    Example:
      memsearch dead-letter show 3fa9c2d1
    """
    with output.reported(), _log() as log:
        from memsearch.pipeline import dead_letters

        letter = _one(log, name)
        assert log is not None
        tries = dead_letters.attempts(log, letter.stream)
        turn = _turn_text(log, letter)
        facts = letter.facts() | {"tries": tries, "turn": turn}
        from memsearch.pipeline.status import mark_dead_letters_seen

        mark_dead_letters_seen(log, time.time())
    if as_json:
        output.put_json(facts)
        return
    for key in ("id", "stream", "stage", "reason", "at", "project", "day", "session"):
        if facts[key]:
            output.put(f"{key}: {facts[key]}")
    output.put(f"error: {letter.error}")
    for each in tries:
        output.put(f"  {each['at']}  {each['what']} {each['stage']}: {each['error']}")
    if turn:
        output.put("turn:")
        for line in turn.splitlines():
            output.put("  " + line)
    output.put(f"try again: {facts['replay']}")


@dead_letter.command()
@click.argument("names", nargs=-1, metavar="[ID]...")
@click.option("--all", "every", is_flag=True, help="All of them, or those of --stage and --since.")
@_stage("With --all: only of this stage")
@click.option("--since", default="", metavar="DAY", help="With --all: only since then.")
@click.option(
    "--waiting", is_flag=True, help="Instead: what has not given up and waits to be tried again."
)
@_json
def replay(
    names: tuple[str, ...],
    every: bool,
    stage: str | None,
    since: str,
    waiting: bool,
    as_json: bool,
) -> None:
    """Send dead letters through again, from the stage that gave up.

    An entry goes into the file of the turn's own day. With --waiting, what waits for a
    provider or a disk is tried now; a worker that runs is started anew, since it keeps to the
    time that a provider named.

    \b
    Examples:
      memsearch dead-letter replay 3fa9c2d1
      memsearch dead-letter replay --all --stage summarize --since 2d
      memsearch dead-letter replay --waiting
    """
    if waiting:
        if names or every or stage or since:
            raise click.UsageError("--waiting takes no ids, and nothing that narrows them down")
        _say(_try_now(), "tried now", as_json)
        return
    _check_choice(names, every, "replay", bool(stage or since))
    with output.reported(), _log() as log:
        from memsearch.pipeline import dead_letters

        letters = _chosen(log, names, stage=stage or "", since=_moment(since))
        sent = dead_letters.replay(log, letters, "hand") if log else 0
        if sent:
            start_worker(current_home(create=True))
    _say(sent, "sent through again", as_json)


@dead_letter.command()
@click.argument("names", nargs=-1, metavar="[ID]...")
@click.option("--older", default="", metavar="AGE", help="All that gave up before: 7d, 2w, a day.")
@_stage("With --older: only of this stage")
@_json
def discard(names: tuple[str, ...], older: str, stage: str | None, as_json: bool) -> None:
    """Give dead letters up for good.

    \b
    Examples:
      memsearch dead-letter discard 3fa9c2d1
      memsearch dead-letter discard --older 7d
    """
    _check_choice(names, bool(older), "discard", bool(stage))
    with output.reported(), _log() as log:
        from memsearch.pipeline import dead_letters

        letters = _chosen(log, names, stage=stage or "", before=_moment(older))
        gone = dead_letters.discard(log, letters) if log else 0
    _say(gone, "discarded", as_json)


def _try_now() -> int:
    from memsearch.pipeline.dead_letters import try_now
    from memsearch.pipeline.retry import TRANSIENT, WAITING

    with output.reported(), _log() as log:
        if log is None:
            return 0
        stop_worker(current_home())
        released = try_now(log, TRANSIENT | WAITING, "hand", time.time())
        start_worker(current_home(create=True))
        return released


def _say(number: int, what: str, as_json: bool) -> None:
    if as_json:
        output.put_json({"count": number})
    else:
        output.put(f"{number} {what}")


def _check_choice(names: tuple[str, ...], many: bool, verb: str, narrowed: bool) -> None:
    wide = "--all" if verb == "replay" else "--older AGE"
    if bool(names) == many:
        raise click.UsageError(f"{verb} takes the ids of dead letters, or {wide}")
    if names and narrowed:
        raise click.UsageError(f"what narrows them down goes with {wide}, not with ids")


class _log:  # noqa: N801 (reads as a function where it is used)
    """The log for the length of a command; None where there is none."""

    def __enter__(self) -> EventLog | None:
        self._opened = open_log(current_home())
        return self._opened

    def __exit__(self, *_: object) -> None:
        if self._opened is not None:
            self._opened.close()


def _chosen(log: EventLog | None, names: tuple[str, ...], **narrowed: Any) -> list[DeadLetter]:
    from memsearch.pipeline.dead_letters import dead_letters

    if names:
        return [_one(log, name) for name in names]
    return dead_letters(log, **narrowed) if log else []


def _one(log: EventLog | None, name: str) -> DeadLetter:
    from memsearch.pipeline.dead_letters import dead_letters, matching

    found = matching(dead_letters(log), name) if log else []
    if len(found) == 1:
        return found[0]
    what = "is no dead letter" if not found else f"is the beginning of {len(found)} dead letters"
    raise MemsearchError(
        f"{name!r} {what}", kind=ErrorClass.BAD_REQUEST, hint="memsearch dead-letter list"
    )


def _turn_text(log: EventLog, letter: DeadLetter) -> str:
    if not letter.stream.startswith("turn:"):
        return ""
    from memsearch.pipeline.turn_codec import load_turn
    from memsearch.sources.render import render_conversation

    captured = log.value("SELECT captured_id FROM turns WHERE stream = ?", (letter.stream,))
    text = log.payload(captured) if captured else None
    return render_conversation((load_turn(text),)) if text else ""


def _moment(day: str) -> str:
    """A day or an age as a moment in UTC; empty stays empty."""
    if not day:
        return ""
    from datetime import datetime

    from memsearch.recall.dates import local_today, parse_day

    at = parse_day(day, local_today())
    return statedb.utc_now(datetime(at.year, at.month, at.day).astimezone().timestamp())
