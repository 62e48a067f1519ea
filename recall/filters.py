"""What a search is narrowed to: the options of a request as conditions of the index."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import date
from typing import cast, get_args

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.recall.dates import parse_day
from memsearch.sinks.types import Filters, Kind
from memsearch.sources.registry import platforms

KINDS: tuple[Kind, ...] = get_args(Kind)


def make_filters(
    *,
    today: date,
    base: str,
    since: str = "",
    until: str = "",
    day: str = "",
    platform: str = "",
    session: str = "",
    source_prefix: str = "",
    kinds: Sequence[str] = (),
    archive: bool = False,
) -> Filters:
    """The conditions that both legs apply before they rank.

    Args:
        today: The local day that relative dates count from.
        base: The folder that the project's sources are relative to, an absolute real path.
        since: First day, inclusive, as ``recall.dates`` reads it; empty for none.
        until: Last day, inclusive.
        day: One day; not together with ``since`` or ``until``.
        platform: An agent's name, one of ``sources.registry.platforms``.
        session: A conversation's id. Data, whatever it holds.
        source_prefix: Compared character by character with the stored source, absolute or
            relative to the project.
        kinds: The kinds that may answer; empty for all but the archive.
        archive: The archive may answer too.

    Raises:
        MemsearchError: ``CONFIG`` when a date is none, the range is empty, an agent or a kind is
            unknown.
    """
    if day and (since or until):
        raise MemsearchError("--day cannot stand beside --since or --until", kind=ErrorClass.CONFIG)
    first = parse_day(since, today, option="--since") if since else None
    last = parse_day(until, today, option="--until") if until else None
    if day:
        first = last = parse_day(day, today, option="--day")
    if first and last and first > last:
        raise MemsearchError(
            f"--since {first} lies after --until {last}, so no day is left",
            kind=ErrorClass.CONFIG,
            hint="swap them",
        )
    if platform and platform not in platforms():
        raise MemsearchError(
            f"--platform: there is no agent {platform!r}",
            kind=ErrorClass.CONFIG,
            hint="one of " + ", ".join(platforms()),
        )
    return Filters(
        since=first,
        until=last,
        platform=platform,
        session=session,
        source_prefix=stored_prefix(source_prefix, base),
        kinds=_kinds(kinds, archive=archive),
    )


def stored_prefix(prefix: str, base: str) -> str:
    """A source prefix in the form that the index holds sources in.

    The end is kept as written: ``docs/`` is a folder, ``docs/a`` also means ``docs/ab.md``.
    """
    if not prefix:
        return ""
    if not os.path.isabs(prefix):
        while prefix.startswith("./"):
            prefix = prefix[2:].lstrip("/")
        return prefix
    folder, last = os.path.split(prefix)
    # The index names real paths; only whole names of the prefix can be followed.
    prefix = os.path.join(os.path.realpath(folder), last)
    inside = base.rstrip("/") + "/"
    return prefix[len(inside) :] if prefix.startswith(inside) else prefix


def day_in(day: date, filters: Filters) -> bool:
    """Whether a day meets the conditions."""
    return not (filters.since and day < filters.since) and not (
        filters.until and day > filters.until
    )


def _kinds(kinds: Sequence[str], *, archive: bool) -> tuple[Kind, ...]:
    for kind in kinds:
        if kind not in KINDS:
            raise MemsearchError(
                f"--kind: {kind!r} is no kind of text",
                kind=ErrorClass.CONFIG,
                hint="one of " + ", ".join(KINDS),
            )
    chosen = [cast(Kind, kind) for kind in kinds] or list(Filters().kinds)
    if archive and "archive" not in chosen:
        chosen.append("archive")
    return tuple(dict.fromkeys(chosen))
