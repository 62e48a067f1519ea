"""The time that a question plainly names: "on March 3rd", "last week", 上周, 3月3日.

Only plain forms count, and only outside of code and quotes: what is read as a time narrows the
search, so a doubtful one is left to the words themselves.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta

#: Larger distances back, in units, are left alone.
MAX_COUNT = 3650

_MONTHS = (
    "january february march april may june july august september october november december"
).split()
_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_NUMBERS = "one two three four five six seven eight nine ten".split()
_CHINESE_DIGITS = "一二三四五六七八九十"

_MONTH = "|".join(f"{name}|{name[:3]}" for name in _MONTHS) + "|sept"
_COUNT = r"\d{1,4}|an?|" + "|".join(_NUMBERS)
_ZH_UNIT = "天|周|星期|礼拜|月"
_ZH_COUNT = rf"\d{{1,4}}|[{_CHINESE_DIGITS}两几]"

# What is quoted or code names no time.
_LITERAL = re.compile(r"`[^`]*`|\"[^\"]*\"|“[^”]*”|「[^」]*」")


@dataclass(frozen=True, slots=True)
class Named:
    """A time: its first and last day, both included, and the words that name it."""

    first: date
    last: date
    words: str


def named_time(question: str, today: date) -> Named | None:
    """The time that a question names, or None.

    Args:
        question: As it was asked.
        today: The local day that relative words count from.

    Returns:
        The first form that fits; None also when several different times are named, and when
        it lies in the future altogether.
    """
    text = _LITERAL.sub(lambda match: " " * len(match[0]), question)
    found: list[Named] = []
    taken: list[tuple[int, int]] = []
    for pattern, read in _FORMS:
        for match in pattern.finditer(text):
            if any(match.start() < end and begin < match.end() for begin, end in taken):
                continue  # a part of a longer form
            try:
                days = read(match, today)
            except (ValueError, OverflowError):
                continue  # February 30th
            taken.append(match.span())
            if days is not None and days[0] <= today:
                found.append(Named(days[0], min(days[1], today), match[0].strip()))
    if not found or any((n.first, n.last) != (found[0].first, found[0].last) for n in found):
        return None
    return found[0]


Days = tuple[date, date] | None
Read = Callable[[re.Match[str], date], Days]


def _iso(match: re.Match[str], today: date) -> Days:
    del today
    return _one(date(int(match["y"]), int(match["m"]), int(match["d"])))


def _month_day(match: re.Match[str], today: date) -> Days:
    return _one(_of_year(match["y"], _month(match["m"]), int(match["d"]), today))


def _month_alone(match: re.Match[str], today: date) -> Days:
    year, month = match["y"], _month(match["m"])
    if year:
        return _whole_month(int(year), month)
    return _whole_month(today.year - (month > today.month), month)


def _zh_month_day(match: re.Match[str], today: date) -> Days:
    return _one(_of_year(match["y"], int(match["m"]), int(match["d"]), today))


def _zh_month(match: re.Match[str], today: date) -> Days:
    month = int(match["m"])
    if match["y"]:
        return _whole_month(int(match["y"]), month)
    return _whole_month(today.year - (month > today.month), month)


def _day_back(count: int) -> Read:
    def read(match: re.Match[str], today: date) -> Days:
        del match
        return _one(today - timedelta(days=count))

    return read


def _week_back(count: int) -> Read:
    def read(match: re.Match[str], today: date) -> Days:
        del match
        monday = today - timedelta(days=today.weekday() + 7 * count)
        return monday, monday + timedelta(days=6)

    return read


def _month_back(count: int) -> Read:
    def read(match: re.Match[str], today: date) -> Days:
        del match
        months = today.year * 12 + today.month - 1 - count
        return _whole_month(months // 12, months % 12 + 1)

    return read


def _weekday(match: re.Match[str], today: date) -> Days:
    """The last one before today; "last Monday" is the same."""
    wanted = _WEEKDAYS.index(match["w"].lower())
    return _one(today - timedelta(days=(today.weekday() - wanted - 1) % 7 + 1))


def _zh_weekday(match: re.Match[str], today: date) -> Days:
    """上周一 is of the week before; 周一 alone the last one up to today."""
    wanted = "一二三四五六日天".index(match["w"]) % 7
    if match["w"] == "天":
        wanted = 6
    monday = today - timedelta(days=today.weekday())
    if match["last"]:
        return _one(monday + timedelta(days=wanted - 7))
    day = monday + timedelta(days=wanted)
    return _one(day if day <= today else day - timedelta(days=7))


def _ago(match: re.Match[str], today: date) -> Days:
    count, unit = _count(match["n"]), match["u"].lower()
    if unit[0] == "d" or unit == "天":
        return _one(today - timedelta(days=count))
    if unit[0] == "w" or unit in ("周", "星期", "礼拜"):
        return _week_back(count)(match, today)
    return _month_back(count)(match, today)


def _lately(match: re.Match[str], today: date) -> Days:
    count, unit = _count(match["n"]), match["u"].lower()
    days = 1 if unit[0] == "d" or unit == "天" else 30 if unit[0] == "m" or unit == "月" else 7
    return today - timedelta(days=count * days), today


def _one(day: date) -> Days:
    return day, day


def _of_year(year: str | None, month: int, day: int, today: date) -> date:
    """A day without a year is the last one of that name."""
    if year:
        return date(int(year), month, day)
    # February 29th of the last leap year.
    for back in range(9):
        try:
            found = date(today.year - back, month, day)
        except ValueError:
            continue
        if found <= today:
            return found
    raise ValueError(f"{month}/{day} is no day")


def _whole_month(year: int, month: int) -> Days:
    first = date(year, month, 1)
    return first, date(year, month, monthrange(year, month)[1])


def _month(name: str) -> int:
    return next(n for n, known in enumerate(_MONTHS, 1) if known.startswith(name.lower()[:3]))


def _count(text: str) -> int:
    text = text.lower()
    if text.isdigit():
        count = int(text)
    elif text in _NUMBERS:
        count = _NUMBERS.index(text) + 1
    elif text in _CHINESE_DIGITS:
        count = _CHINESE_DIGITS.index(text) + 1
    else:
        count = {"a": 1, "an": 1, "两": 2, "几": 7}[text]
    if count > MAX_COUNT:
        raise ValueError("too far back")
    return count


def _form(pattern: str, read: Read) -> tuple[re.Pattern[str], Read]:
    return re.compile(pattern, re.IGNORECASE), read


_ORDINAL = r"(?P<d>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?:,?\s+(?P<y>\d{4})\b)?"
# Not inside a name, a path or a file's name such as 2026-03-03.md.
_ALONE, _END = r"(?<![\w./\\-])", r"(?![\w/\\-]|\.\w)"

#: Longer forms first: a shorter one inside them does not count.
_FORMS: tuple[tuple[re.Pattern[str], Read], ...] = (
    _form(rf"{_ALONE}(?P<y>\d{{4}})[-/.](?P<m>\d{{1,2}})[-/.](?P<d>\d{{1,2}}){_END}", _iso),
    _form(
        r"(?:(?P<y>\d{4})年)(?P<m>\d{1,2})月(?P<d>\d{1,2})[日号號]"
        r"|(?<!\d)(?P<m2>\d{1,2})月(?P<d2>\d{1,2})[日号號]",
        lambda match, today: _one(
            _of_year(
                match["y"], int(match["m"] or match["m2"]), int(match["d"] or match["d2"]), today
            )
        ),
    ),
    _form(rf"\b(?:on\s+)?(?P<m>{_MONTH})\.?\s+{_ORDINAL}{_YEAR}(?!\w)", _month_day),
    _form(
        rf"\b(?:on\s+)?(?:the\s+)?{_ORDINAL}(?:\s+of)?\s+(?P<m>{_MONTH})\b\.?{_YEAR}", _month_day
    ),
    _form(rf"\b(?:in|during|since last|last)\s+(?P<m>{_MONTH})\b{_YEAR}", _month_alone),
    _form(r"(?:(?P<y>\d{4})年)(?P<m>\d{1,2})月(?:份)?(?!\d)", _zh_month),
    _form(r"(?<![\d个])(?P<y>)(?P<m>\d{1,2})月份?(?!\d)", _zh_month),
    _form(r"\bthe day before yesterday\b", _day_back(2)),
    _form(r"\byesterday\b", _day_back(1)),
    _form(r"\b(?:today|this (?:morning|afternoon|evening))\b", _day_back(0)),
    _form(rf"\b(?P<n>{_COUNT})\s+(?P<u>days?|weeks?|months?)\s+ago\b", _ago),
    _form(
        rf"\b(?:in |over |during )?the (?:last|past)\s+(?P<n>{_COUNT})"
        r"\s+(?P<u>days|weeks|months)\b",
        _lately,
    ),
    _form(r"\bthis week\b", _week_back(0)),
    _form(r"\blast week\b", _week_back(1)),
    _form(r"\bthis month\b", _month_back(0)),
    _form(r"\blast month\b", _month_back(1)),
    _form(rf"\b(?:on|last)\s+(?P<w>{'|'.join(_WEEKDAYS)})\b", _weekday),
    _form(r"前天", _day_back(2)),
    _form(r"昨[天日晚]", _day_back(1)),
    _form(r"今[天日早晚]", _day_back(0)),
    _form(rf"(?P<n>{_ZH_COUNT})\s*(?:个)?(?P<u>天|周|星期|礼拜|月)(?:以)?前", _ago),
    _form(
        rf"(?:最近|过去|近)(?:的)?(?P<n>{_ZH_COUNT})\s*(?:个)?(?P<u>天|周|星期|礼拜|月)", _lately
    ),
    _form(r"(?P<last>上(?:个)?)?(?:周|星期|礼拜)(?P<w>[一二三四五六日天])", _zh_weekday),
    _form(r"上(?:个)?(?:周(?!期)|星期|礼拜)", _week_back(1)),
    _form(r"[这本](?:个)?(?:周(?!期)|星期|礼拜)", _week_back(0)),
    _form(r"上(?:个)?月", _month_back(1)),
    _form(r"[这本](?:个)?月", _month_back(0)),
)
