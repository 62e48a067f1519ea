"""Timestamps as agents write them."""

from __future__ import annotations

from datetime import UTC, datetime

#: A number above this is milliseconds since the epoch, one below it seconds.
_MILLISECONDS_FROM = 100_000_000_000


def parse_time(value: object) -> datetime | None:
    """A timestamp as an aware datetime in UTC; None for what is none.

    Args:
        value: ISO 8601 text (without an offset it is UTC), or a number of seconds or
            milliseconds since the epoch.
    """
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value.strip())
            return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if abs(value) >= _MILLISECONDS_FROM else value
            return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None
