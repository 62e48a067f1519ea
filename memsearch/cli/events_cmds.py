"""``events``: the log itself, and what is folded from it."""

from __future__ import annotations

import json
from typing import Any

import click

from memsearch.cli import output
from memsearch.cli.home import current_home, open_log
from memsearch.config.errors import ErrorClass, MemsearchError


@click.group(invoke_without_command=True)
@click.option("--stream", default="", help="Only this stream, or streams that begin so.")
@click.option("--type", "type_", default="", help="Only this type, for instance StageFailed.")
@click.option("--limit", default=50, show_default=True, help="The newest so many; 0: all.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@click.pass_context
def events(ctx: click.Context, stream: str, type_: str, limit: int, as_json: bool) -> None:
    """Show the event log, oldest first: what happened to every hook, turn and document.

    \b
    Examples:
      memsearch events --limit 20
      memsearch events --stream turn:claude-code:
      memsearch events --type DeadLettered --json
      memsearch events rebuild
    """
    if ctx.invoked_subcommand is not None:
        return
    with output.reported():
        _check_type(type_)
        log = open_log(current_home())
        if log is None:
            output.note("nothing was captured yet")
            return
        try:
            rows = log.rows(
                "SELECT * FROM events WHERE (? = '' OR substr(stream, 1, length(?)) = ?)"
                " AND (? = '' OR type = ?) ORDER BY seq DESC LIMIT ?",
                (stream, stream, stream, type_, type_, limit if limit > 0 else -1),
            )
        finally:
            log.close()
    for row in reversed(rows):
        event: dict[str, Any] = dict(row) | {"data": json.loads(row["data"])}
        if as_json:
            output.put(json.dumps(event, ensure_ascii=False))
        else:
            facts = json.dumps(event["data"], ensure_ascii=False)
            output.put(
                f"{event['seq']:>6} {event['at']} {event['type']:<16} {event['stream']}"
                f" {output.shorten(facts, 200)}"
            )


def _check_type(name: str) -> None:
    """Refuse a type that no event has: an empty answer would say that it never happened."""
    from memsearch.pipeline.events import EventType

    types = [str(each) for each in EventType]
    if not name or name in types:
        return
    import difflib

    near = difflib.get_close_matches(name.lower(), [each.lower() for each in types], n=1)
    meant = [each for each in types if each.lower() in near]
    raise MemsearchError(
        f"--type: there is no event {name!r}",
        kind=ErrorClass.BAD_REQUEST,
        hint=f"did you mean {meant[0]}?" if meant else "one of " + ", ".join(types),
    )


@events.command()
def rebuild() -> None:
    """Fold the turns, documents and usage anew from the log, and swap them in.

    Nothing is lost when it is killed; a running worker goes on meanwhile.

    \b
    Example:
      memsearch events rebuild
    """
    from memsearch.pipeline.rebuild import rebuild as fold_anew

    with output.reported():
        log = open_log(current_home())
        if log is None:
            output.note("nothing was captured yet")
            return
        try:
            folded = fold_anew(log, _progress)
        finally:
            log.close()
    output.put(f"rebuilt from {folded} events")


def _progress(done: int, total: int) -> None:
    if total > 10_000:
        output.note(f"{done} of {total} events")
