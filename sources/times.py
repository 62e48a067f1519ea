"""Timestamps as agents write them."""

from __future__ import annotations

from datetime import UTC, datetime

#: A number above this is milliseconds since the epoch, one below it seconds.
_MILLISECONDS_FROM = 100_000_000_000
#: Years that can be meant. At the ends of the calendar a shift to local time overflows.
_YEARS = range(1971, 9999)


def parse_time(value: object) -> datetime | None:
    """A timestamp as an aware datetime in UTC; None for what cannot be one.

    Args:
        value: ISO 8601 text (without an offset it is UTC), or a number of seconds or
            milliseconds since the epoch.
    """
    try:
        moment = _moment(value)
    except (ValueError, OverflowError, OSError):
        return None
    return moment if moment is not None and moment.year in _YEARS else None


def _moment(value: object) -> datetime | None:
    if isinstance(value, str):
        moment = datetime.fromisoformat(value.strip())
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = value / 1000 if abs(value) >= _MILLISECONDS_FROM else value
        return datetime.fromtimestamp(seconds, UTC)
    return None
