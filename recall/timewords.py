"""The time that a question plainly names: "on March 3rd", "last week", 上周, 3月3日.

Only plain forms count, and only outside of code and quotes: what is read as a time narrows the
search, so a doubtful one is left to the words themselves.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, timedelta

#: Larger distances back, in units, are left alone.
MAX_COUNT = 3650
#: What names more times is a pasted text; one that names this many is none.
MAX_TIMES = 64
#: Earlier years are numbers rather than times of a memory of agents' work.
FIRST_YEAR = 2010

_MONTHS = (
    "january february march april may june july august september october november december"
).split()
_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_NUMBERS = "one two three four five six seven eight nine ten".split()
_CHINESE_DIGITS = "一二三四五六七八九十"
#: Words for a few, with the most units that they mean.
_VAGUE = {"few": 7, "couple": 3, "几": 7}

_MONTH = "|".join(f"{name}|{name[:3]}" for name in _MONTHS) + "|sept"
_WEEKDAY = "|".join(_WEEKDAYS)
#: Short forms too, but for those that are words: "on sat", "on sun".
_ANY_WEEKDAY = rf"{_WEEKDAY}|mon|tues?|weds?|thurs?|thu|fri"
_COUNT = r"\d{1,4}|(?:a\s+)?(?:few|couple)(?:\s+of)?|an?|" + "|".join(_NUMBERS)
_UNIT = r"days?|weeks?|months?|years?"
#: Units by the first character of their names; the other names are of weeks.
_KINDS = {"d": "d", "m": "m", "y": "y", "天": "d", "日": "d", "月": "m", "年": "y"}
_ZH_UNIT = "天|周|星期|礼拜|月|年"
_ZH_COUNT = rf"\d{{1,4}}|[{_CHINESE_DIGITS}]{{1,3}}|[两几]"
_ZH_WEEK = "(?:周(?!期)|星期|礼拜)"
#: Days of the week; not the first half of 日志, 日期 and their like.
_ZH_WEEKDAY = "[一二三四五六天]|日(?![志期程历报记])"

# What is quoted or code names no time.
_LITERAL = re.compile(r"`[^`]*`|\"[^\"]*\"|“[^”]*”|「[^」]*」")
# Traditional forms of the characters that times are written with, each for one.
_SIMPLIFIED = str.maketrans("週個號禮這兩幾過後內裡", "周个号礼这两几过后内里")

# What stands before or behind a time and makes another one of it.
_SINCE = re.compile(r"\b(?:since|after)\s+(?:the\s+)?\Z|(?:自从|从|自)\s*\Z", re.IGNORECASE)
_BEFORE = re.compile(
    r"\b(?:before|until|till|prior to|up to)\s+(?:the\s+)?\Z|截至\s*\Z", re.IGNORECASE
)
_WEEK_OF = re.compile(r"\bweek\s+of\s+(?:the\s+)?\Z", re.IGNORECASE)
_SINCE_BEHIND = re.compile(r"\s*(?:以来|之后|以后|起|后(?!端|台|缀))")
_BEFORE_BEHIND = re.compile(r"\s*(?:以|之)?前(?!后|端|台|缀|提)")
_TO = re.compile(
    r"\s*(?:\bto\b|\bthrough\b|\buntil\b|\btill\b|[-\u2013\u2014~]|到|至)\s*", re.IGNORECASE
)
_AND = re.compile(r"\s*(?:\band\b|和)\s*", re.IGNORECASE)
_BETWEEN = re.compile(r"\bbetween\s+(?:the\s+)?\Z|在\s*\Z", re.IGNORECASE)


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
        The time of the only form that fits, or from the first to the second of two ("from
        Monday to Friday"); None when several different times are named, and when it lies in
        the future altogether.
    """
    text = _LITERAL.sub(lambda match: " " * len(match[0]), question).translate(_SIMPLIFIED)
    found: list[_Found] = []
    taken: list[tuple[int, int]] = []
    for pattern, read in _FORMS:
        for match in pattern.finditer(text):
            if any(match.start() < end and begin < match.end() for begin, end in taken):
                continue  # a part of a longer form
            if len(taken) == MAX_TIMES:
                return None
            taken.append(match.span())
            try:
                days = read(match, today)
            except (ValueError, OverflowError):
                continue  # February 30th
            if days is not None:
                found.append(_Found(*match.span(), *days))
    found.sort(key=lambda each: each.begin)
    if len(found) == 2:
        whole = _from_to(text, *found)
        found = found if whole is None else [whole]
    else:
        found = [each for each in (_moved(text, each, today) for each in found) if each]
    found = [each for each in found if each.first <= today]
    if not found or any(
        (each.first, each.last) != (found[0].first, found[0].last) for each in found
    ):
        return None
    only = found[0]
    words = question[only.begin : only.end].strip()
    return Named(only.first, min(only.last, today), words)


@dataclass(frozen=True, slots=True)
class _Found:
    """A time and where the question names it."""

    begin: int
    end: int
    first: date
    last: date


def _from_to(text: str, one: _Found, other: _Found) -> _Found | None:
    """The time from one to another, if the question says so."""
    between = text[one.end : other.begin]
    said = _TO.fullmatch(between) or (
        _AND.fullmatch(between) and _BETWEEN.search(text[: one.begin])
    )
    if not said or one.first > other.last:
        return None
    return _Found(one.begin, other.end, one.first, other.last)


def _moved(text: str, found: _Found, today: date) -> _Found | None:
    """A time as the words around it mean it; None for one that has no first day."""
    before, behind = text[: found.begin], text[found.end :]
    if _BEFORE.search(before) or _BEFORE_BEHIND.match(behind):
        return None
    words = text[found.begin : found.end].lower()
    if words.startswith("since") or _SINCE.search(before) or _SINCE_BEHIND.match(behind):
        return replace(found, last=max(found.last, today))
    if _WEEK_OF.search(before) and found.first == found.last:
        monday = found.first - timedelta(days=found.first.weekday())
        return replace(found, first=monday, last=monday + timedelta(days=6))
    return found


Days = tuple[date, date] | None
Read = Callable[[re.Match[str], date], Days]


def _iso(match: re.Match[str], today: date) -> Days:
    del today
    return _one(date(int(match["y"]), int(match["m"]), int(match["d"])))


def _iso_month(match: re.Match[str], today: date) -> Days:
    del today
    return _whole_month(int(match["y"]), int(match["m"]))


def _month_day(match: re.Match[str], today: date) -> Days:
    return _one(_of_year(match["y"], _month(match["m"]), int(match["d"]), today))


def _month_alone(match: re.Match[str], today: date) -> Days:
    year, month = match["y"], _month(match["m"])
    if year:
        return _whole_month(int(year), month)
    return _whole_month(today.year - (month > today.month), month)


def _year_alone(match: re.Match[str], today: date) -> Days:
    del today
    year = int(match["y"])
    return _whole_year(year) if year >= FIRST_YEAR else None


def _zh_year(match: re.Match[str], today: date) -> str | None:
    """The year of a Chinese date, in digits; None when it names none."""
    if match["y"]:
        return match["y"]
    if match["w"]:
        return str(today.year + {"前年": -2, "去年": -1, "今年": 0, "明年": 1}[match["w"]])
    return None


def _zh_month_day(match: re.Match[str], today: date) -> Days:
    year, month, day = _zh_year(match, today), _count(match["m"]), _count(match["d"])
    return _one(_of_year(year, month, day, today))


def _zh_month(match: re.Match[str], today: date) -> Days:
    year, month = _zh_year(match, today), _count(match["m"])
    return _whole_month(int(year) if year else today.year - (month > today.month), month)


def _zh_year_alone(match: re.Match[str], today: date) -> Days:
    year = int(_zh_year(match, today) or 0)
    return _whole_year(year) if year >= FIRST_YEAR else None


def _zh_day_of_month(match: re.Match[str], today: date) -> Days:
    first = _months_back(1 if match["b"] == "上" else 0, today)
    return _one(first.replace(day=_count(match["d"])))


def _back(count: int, unit: str) -> Read:
    """The day, week, month or year that lies so many of them back."""

    def read(match: re.Match[str], today: date) -> Days:
        del match
        return _units_back(count, unit, today)

    return read


def _zh_week(match: re.Match[str], today: date) -> Days:
    """上周, 上上周."""
    return _units_back(match["b"].count("上"), "w", today)


def _weekday(match: re.Match[str], today: date) -> Days:
    """The last one before today; "last Monday" is the same."""
    return _one(today - timedelta(days=(today.weekday() - _day_of_week(match["w"]) - 1) % 7 + 1))


def _weekday_last_week(match: re.Match[str], today: date) -> Days:
    wanted = _day_of_week(match["w"])
    return _one(today - timedelta(days=today.weekday() + 7 - wanted))


def _zh_weekday(match: re.Match[str], today: date) -> Days:
    """上周一 is of the week before, 本周一 of this one; 周一 alone the last one up to today."""
    wanted = 6 if match["w"] == "天" else "一二三四五六日".index(match["w"])
    which = match["b"] or ""
    back = which.count("上")
    day = today - timedelta(days=today.weekday() + 7 * back - wanted)
    if not which and day > today:
        day -= timedelta(days=7)
    return _one(day)


def _weekend(match: re.Match[str], today: date) -> Days:
    """Saturday and Sunday: of last week, or the last ones that have begun."""
    saturday = today - timedelta(days=today.weekday() - 5)
    if match["b"] or saturday > today:
        saturday -= timedelta(days=7)
    return saturday, saturday + timedelta(days=1)


def _ago(match: re.Match[str], today: date) -> Days:
    unit = match["u"].lower()
    vague = _vague(match["n"])
    if vague:
        # "A few days ago" is no day: from the most of them to one.
        first, last = _units_back(vague, unit, today), _units_back(1, unit, today)
        return first and last and (first[0], last[1])
    return _units_back(_count(match["n"]), unit, today)


def _units_back(count: int, unit: str, today: date) -> Days:
    kind = _KINDS.get(unit[0], "w")
    if kind == "d":
        return _one(today - timedelta(days=count))
    if kind == "w":
        monday = today - timedelta(days=today.weekday() + 7 * count)
        return monday, monday + timedelta(days=6)
    if kind == "m":
        first = _months_back(count, today)
        return _whole_month(first.year, first.month)
    return _whole_year(today.year - count)


def _lately(match: re.Match[str], today: date) -> Days:
    count, unit = _vague(match["n"]) or _count(match["n"] or "1"), match["u"].lower()
    days = {"d": 1, "w": 7, "m": 30, "y": 365}[_KINDS.get(unit[0], "w")]
    return today - timedelta(days=count * days), today


def _a_few_days(match: re.Match[str], today: date) -> Days:
    del match
    return today - timedelta(days=_VAGUE["几"]), today


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


def _months_back(count: int, today: date) -> date:
    """The first day of the month that lies so many back."""
    months = today.year * 12 + today.month - 1 - count
    return date(months // 12, months % 12 + 1, 1)


def _whole_month(year: int, month: int) -> Days:
    first = date(year, month, 1)
    return first, date(year, month, monthrange(year, month)[1])


def _whole_year(year: int) -> Days:
    return date(year, 1, 1), date(year, 12, 31)


def _month(name: str) -> int:
    return next(n for n, known in enumerate(_MONTHS, 1) if known.startswith(name.lower()[:3]))


def _day_of_week(name: str) -> int:
    return next(n for n, known in enumerate(_WEEKDAYS) if known.startswith(name.lower()[:3]))


def _vague(text: str | None) -> int:
    """The most that a word for a few means; 0 for any other count."""
    return next((most for word, most in _VAGUE.items() if word in (text or "").lower()), 0)


def _count(text: str) -> int:
    text = text.lower()
    if text.isdigit():
        count = int(text)
    elif text in _NUMBERS:
        count = _NUMBERS.index(text) + 1
    elif text in ("a", "an"):
        count = 1
    elif text == "两":
        count = 2
    else:
        count = _chinese_number(text)
    if count > MAX_COUNT:
        raise ValueError("too far back")
    return count


def _chinese_number(text: str) -> int:
    """一 to 九十九.

    Raises:
        ValueError: It is none.
    """
    tens, ten, ones = text.rpartition("十")
    if len(tens) > 1 or len(ones) > 1 or not text:
        raise ValueError(f"{text} is no number")
    count = 10 * (_CHINESE_DIGITS.index(tens) + 1 if tens else 1) if ten else 0
    return count + (_CHINESE_DIGITS.index(ones) + 1 if ones else 0)


def _form(pattern: str, read: Read) -> tuple[re.Pattern[str], Read]:
    return re.compile(pattern, re.IGNORECASE), read


_ORDINAL = r"(?P<d>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?:,?\s+(?P<y>\d{4})\b)?"
# Not inside a name, a path or a file's name such as 2026-03-03.md.
_ALONE, _END = r"(?<![\w./\\-])", r"(?![\w/\\-]|\.\w)"
_IN = r"(?:in|during|since|early|mid|late|(?:beginning|start|middle|end)\s+of)(?:\s+|-)(?:last\s+)?"
_ZH_YEAR = r"(?:(?P<y>\d{4})年|(?P<w>[前去今明]年))"
_ZH_MONTH = r"(?P<m>\d{1,2}|十[一二]?|[一二三四五六七八九])月"
_ZH_DAY = r"(?P<d>\d{1,2}|[一二三]?十[一二三四五六七八九]?|[一二三四五六七八九])[日号]"
# A count before it makes 月 and 周 units: 3个月, 两周一次; so do 每周一 and 下周一.
_ZH_ALONE = r"(?<![\d一二三四五六七八九十两几个每下])"

#: Longer forms first: a shorter one inside them does not count.
_FORMS: tuple[tuple[re.Pattern[str], Read], ...] = (
    _form(rf"{_ALONE}(?P<y>\d{{4}})[-/.](?P<m>\d{{1,2}})[-/.](?P<d>\d{{1,2}}){_END}", _iso),
    _form(rf"{_IN}(?P<y>20\d\d)-(?P<m>\d\d){_END}", _iso_month),
    _form(rf"{_ZH_YEAR}{_ZH_MONTH}{_ZH_DAY}", _zh_month_day),
    _form(rf"{_ZH_ALONE}(?P<y>)(?P<w>){_ZH_MONTH}{_ZH_DAY}", _zh_month_day),
    _form(r"(?P<b>[上这本今])(?:个)?月(?P<d>\d{1,2})[日号]", _zh_day_of_month),
    _form(rf"\b(?:on\s+)?(?P<m>{_MONTH})\.?\s+{_ORDINAL}{_YEAR}(?!\w)", _month_day),
    _form(
        rf"\b(?:on\s+)?(?:the\s+)?{_ORDINAL}(?:\s+of)?\s+(?P<m>{_MONTH})\b\.?{_YEAR}", _month_day
    ),
    _form(rf"\b(?:{_IN}|last\s+)(?P<m>{_MONTH})\b{_YEAR}", _month_alone),
    _form(rf"{_ALONE}(?P<m>{_MONTH})\.?\s+(?P<y>20\d\d){_END}", _month_alone),
    _form(rf"\b(?:in|during|since)\s+(?P<y>20\d\d){_END}", _year_alone),
    _form(rf"{_ZH_YEAR}{_ZH_MONTH}(?:份)?(?!\d)", _zh_month),
    _form(rf"{_ZH_ALONE}(?P<y>)(?P<w>){_ZH_MONTH}份?(?!\d)", _zh_month),
    _form(_ZH_YEAR, _zh_year_alone),
    _form(r"\bthe day before yesterday\b", _back(2, "d")),
    _form(r"\b(?:yesterday|last night)\b", _back(1, "d")),
    _form(r"\b(?:today|tonight|this (?:morning|afternoon|evening))\b", _back(0, "d")),
    _form(rf"\b(?P<n>{_COUNT})\s+(?P<u>{_UNIT})\s+ago\b", _ago),
    _form(r"\b(?P<n>\d{1,4})(?P<u>[dw])\s+ago\b", _ago),
    _form(
        rf"\b(?:the\s+)?(?:last|past|previous)\s+(?P<n>{_COUNT})"
        r"\s+(?P<u>days|weeks|months|years)\b(?!\s+of\b)",
        _lately,
    ),
    _form(r"\b(?:in |over |during |for )?the past (?P<n>)(?P<u>week|month|year)\b", _lately),
    _form(r"\b(?:in|over|during|for) the last (?P<n>)(?P<u>week|month|year)\b(?! of)", _lately),
    _form(rf"\b(?:on\s+)?(?P<w>{_ANY_WEEKDAY})\s+(?:of\s+)?last week\b", _weekday_last_week),
    _form(rf"\blast week(?:'s|\s+on)?\s+(?P<w>{_ANY_WEEKDAY})\b", _weekday_last_week),
    _form(r"\b(?P<b>last) weekend\b", _weekend),
    _form(r"\b(?P<b>)(?:this|over the|on the|at the) weekend\b", _weekend),
    _form(r"\bthis week\b", _back(0, "w")),
    _form(r"\blast week\b(?!\s+of\b)", _back(1, "w")),
    _form(r"\bthis month\b", _back(0, "m")),
    _form(r"\blast month\b", _back(1, "m")),
    _form(r"\bthis year\b", _back(0, "y")),
    _form(r"\blast year\b", _back(1, "y")),
    _form(rf"\b(?:on|last|since)\s+(?P<w>{_ANY_WEEKDAY})\b(?!\s+of\b)", _weekday),
    _form(
        rf"(?<!every )(?<!each )(?<!next )(?<!black )\b(?P<w>{_WEEKDAY})"
        r"(?='s\b|\s+(?:morning|afternoon|evening|night)\b|\s*[?.!]*\s*\Z)",
        _weekday,
    ),
    _form(r"大前天", _back(3, "d")),
    _form(r"(?<![目当之以])前[天晚]|一昨日|おととい", _back(2, "d")),
    _form(r"昨[天日晚夜]", _back(1, "d")),
    _form(r"今[天日早晚]", _back(0, "d")),
    _form(rf"(?P<n>{_ZH_COUNT})\s*(?:个)?(?P<u>{_ZH_UNIT})(?:以|之)?前(?!端|后|台|缀|提)", _ago),
    _form(r"(?<![月\d])(?P<n>\d{1,3})(?P<u>日)前", _ago),
    _form(rf"(?:最近|过去|近)(?:的)?\s*(?P<n>{_ZH_COUNT})\s*(?:个)?(?P<u>{_ZH_UNIT})", _lately),
    _form(r"[前这]几天", _a_few_days),
    _form(rf"(?P<b>上(?:个)?|(?<![每下个上])){_ZH_WEEK}末", _weekend),
    _form(rf"(?:(?P<b>上+|[这本])(?:个)?|{_ZH_ALONE}){_ZH_WEEK}(?P<w>{_ZH_WEEKDAY})", _zh_weekday),
    _form(rf"(?P<b>上+)(?:个)?{_ZH_WEEK}", _zh_week),
    _form(rf"[这本](?:个)?{_ZH_WEEK}|今週|今周", _back(0, "w")),
    _form(r"先周", _back(1, "w")),
    _form(r"上(?:个)?月|先月", _back(1, "m")),
    _form(r"[这本今](?:个)?月", _back(0, "m")),
)
