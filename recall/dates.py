"""Days as a person writes them: ``2026-03-05``, ``today``, ``yesterday``, ``7d``, ``2w``."""

from __future__ import annotations

from datetime import date, datetime, timedelta

from memsearch.config.errors import ErrorClass, MemsearchError

#: Days in one unit of a relative form.
UNIT_DAYS = {"d": 1, "w": 7}
#: Digits of a relative form's number: beyond this a day lies before the calendar begins.
MAX_DIGITS = 5

_ACCEPTED = "write YYYY-MM-DD, today, yesterday, or a distance back such as 7d or 2w"


def parse_day(text: str, today: date, *, option: str = "date") -> date:
    """The day that ``text`` names.

    Args:
        text: ``YYYY-MM-DD``, ``today``, ``yesterday``, ``Nd`` or ``Nw`` (that many days or
            weeks before ``today``).
        today: The local day that relative forms count from.
        option: The option it came with, for the error.

    Raises:
        MemsearchError: ``CONFIG`` when it names no day.
    """
    word = text.strip().lower()
    if word == "today":
        return today
    if word == "yesterday":
        return today - timedelta(days=1)
    number, unit = word[:-1], word[-1:]
    if unit in UNIT_DAYS and number.isascii() and number.isdigit() and len(number) <= MAX_DIGITS:
        try:
            return today - timedelta(days=int(number) * UNIT_DAYS[unit])
        except OverflowError:
            raise _bad(text, option) from None
    # fromisoformat alone would also take 20260305 and 2026-W10-4, which look like typos here.
    if len(word) == 10 and word[4] == word[7] == "-":
        try:
            return date.fromisoformat(word)
        except ValueError:
            raise _bad(text, option) from None
    raise _bad(text, option)


def local_today() -> date:
    """The day it is here, in local time, which journals are named by."""
    return datetime.now().astimezone().date()


def day_number(day: date) -> int:
    """A day as the index holds it: ``yyyymmdd``."""
    return day.year * 10_000 + day.month * 100 + day.day


def day_text(number: int) -> str | None:
    """The index's ``yyyymmdd`` as ``YYYY-MM-DD``; None for 0, which is no day."""
    if not number:
        return None
    return f"{number // 10_000:04d}-{number // 100 % 100:02d}-{number % 100:02d}"


def _bad(text: str, option: str) -> MemsearchError:
    return MemsearchError(
        f"{option}: {text!r} is not a day", kind=ErrorClass.CONFIG, hint=_ACCEPTED
    )
