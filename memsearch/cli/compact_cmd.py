"""``compact``: old journals into a digest for each month, the originals into the archive."""

from __future__ import annotations

import time
from typing import Any

import click

from memsearch.cli import index_cmds, output
from memsearch.cli.home import current_home

#: Journals that a dry run names for each month.
MAX_SHOWN = 10


@click.command()
@click.option(
    "--older-than",
    default="",
    metavar="AGE",
    help="30d, 8w, or a day such as 2026-01-31: that day and all before."
    "  [default: compact.older_than_days, 30]",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--project", metavar="DIR", help="A folder of the project, instead of this one.")
def compact(older_than: str, dry_run: bool, as_json: bool, project: str | None) -> None:
    """Turn old journals into one digest a month, and move them to the archive.

    The notes of each day are shortened by the summariser that the settings choose (without a
    model: the first notes of each entry), into memory/digest-YYYY-MM.md. What you wrote or
    changed yourself is kept there word for word. The journals themselves are only moved, to
    .memsearch/archive/, where search --archive finds them, and expand and transcript work.

    Nothing is moved before its digest is written and checked; when something fails, or the
    day's tokens are spent, the journals are where they were, and the next call goes on from
    there. Today's journal, and days with turns still on their way, are left alone. Workers do
    this by themselves with compact.schedule = daily, weekly or monthly.

    \b
    Examples:
      memsearch compact --dry-run
      memsearch compact --older-than 90d
      memsearch config set compact.schedule weekly
    """
    with output.reported():
        home = current_home(create=True)
        today, until = _days(older_than)
        request = index_cmds.request_for(project) | {
            "today": today,
            "until": until,
            "dry_run": dry_run,
        }
        done = index_cmds.run(home, "compact", request, wait=not dry_run, steps=_Steps())
    if as_json:
        output.put_json({name: value for name, value in done.items() if name not in _INNER})
    elif dry_run:
        _show_plan(done)
    else:
        _show_done(done)
    for failure in done.get("failed", ()):
        output.note(f"not indexed: {failure}")
    if done.get("failed"):
        raise SystemExit(output.DEGRADED)


#: What is for ``asking`` alone.
_INNER = ("queued", "unreadable")


def _days(older_than: str) -> tuple[str, str]:
    """Today, and the youngest day that is compacted, or an empty text for the setting's."""
    from memsearch.recall.dates import local_today, parse_day

    today = local_today()
    if not older_than:
        return today.isoformat(), ""
    return today.isoformat(), parse_day(older_than, today, option="--older-than").isoformat()


def _show_plan(plan: dict[str, Any]) -> None:
    for month in plan["months"]:
        own = f", {month['own']} pieces of yours word for word" if month["own"] else ""
        output.put(
            f"{month['digest']}: {month['entries']} entries{own}"
            f" of {len(month['journals'])} journals, which go to the archive:"
        )
        for path in month["journals"][:MAX_SHOWN]:
            output.put(f"  {path}")
        if len(month["journals"]) > MAX_SHOWN:
            output.put(f"  … and {len(month['journals']) - MAX_SHOWN} more")
    _show_rest(plan, nothing=not plan["months"])


def _show_done(done: dict[str, Any]) -> None:
    for path in done["digests"]:
        output.put(f"wrote {path}")
    if done["moved"]:
        output.put(f"archived {len(done['moved'])} journals with {done['entries']} entries")
    _show_rest(done, nothing=not done["moved"])


def _show_rest(found: dict[str, Any], *, nothing: bool) -> None:
    if nothing:
        output.note(f"nothing to compact up to {found['until']}")
    for item in found["left"]:
        output.note(f"left where it is: {item['path']}: {item['why']}")


class _Steps:
    """Says on stderr how far it is: often on a terminal, now and then in a file."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._said = -1

    def __call__(self, done: int, total: int, what: str) -> None:
        pause = output.progress_pause()
        if done != self._said and total and time.monotonic() - self._last >= pause:
            self._last, self._said = time.monotonic(), done
            output.note(f"{done} of {total} journals, now {what}")
