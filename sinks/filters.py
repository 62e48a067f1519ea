"""Filter expressions of Milvus, built so that no value can be taken for a part of them.

The grammar is Milvus' boolean expression language (``Plan.g4`` of the server; Milvus Lite has a
tokenizer of its own for it). Filter templates do not work on Lite, so values are written into
the text as literals.

Two rules make this safe on both:

* In a string literal only ``\\`` ``"`` and the three characters that end a line or a field of
  it (newline, carriage return, tab) are escaped. Those five escapes are all that Lite knows,
  and the server knows them too. Every other character, control characters and NUL among them,
  stands for itself. JSON would not do: Lite refuses its ``\\b``, ``\\f`` and ``\\u0001``.
* A prefix is a range, not a ``LIKE``. How ``%``, ``_`` and ``\\`` inside a LIKE pattern are
  escaped differs between Lite and server versions; ``>=`` and ``<`` compare code points (that
  is, UTF-8 bytes) everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sinks.types import Chunk, Filters, Hit

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})

#: The last code point of Unicode.
_LAST = 0x10FFFF
#: Code points that stand for no character and cannot be written in UTF-8.
_FIRST_SURROGATE, _LAST_SURROGATE = 0xD800, 0xDFFF


def expression(filters: Filters) -> str:
    """The filter expression of a search.

    Rows without a day (``day`` 0) answer no search that ``since`` or ``until`` bounds.

    Args:
        filters: The conditions; all must hold.

    Returns:
        An expression, or the empty string when there is no condition.

    Raises:
        MemsearchError: ``BAD_REQUEST``, for a value that is no text (lone surrogates).
    """
    terms: list[str] = []
    if filters.since is not None or filters.until is not None:
        terms.append(f"day >= {day_number(filters.since) if filters.since else 1}")
    if filters.until is not None:
        terms.append(f"day <= {day_number(filters.until)}")
    if filters.platform:
        terms.append(equals("platform", filters.platform))
    if filters.session:
        terms.append(equals("session", filters.session))
    if filters.source_prefix:
        terms.append(begins("source", filters.source_prefix))
    if filters.kinds:
        terms.append(any_of("kind", filters.kinds))
    return " and ".join(terms)


def matches(item: Chunk | Hit, filters: Filters) -> bool:
    """Whether a chunk meets the conditions: what ``expression`` says, told without Milvus."""
    if filters.kinds and item.kind not in filters.kinds:
        return False
    if filters.platform and item.platform != filters.platform:
        return False
    if filters.session and item.session != filters.session:
        return False
    if not item.source.startswith(filters.source_prefix):
        return False
    return not (filters.since or filters.until) or day_is_in(item.day, filters)


def day_is_in(day: int, filters: Filters) -> bool:
    """Whether a day of the index (yyyymmdd; 0 for a text without one) is in a range.

    A text without a day is in none.
    """
    first = day_number(filters.since) if filters.since else 1
    last = day_number(filters.until) if filters.until else 99_999_999
    return first <= day <= last


def equals(field: str, value: str) -> str:
    """``field`` holds exactly ``value``."""
    return f"{field} == {literal(value)}"


def any_of(field: str, values: Iterable[str]) -> str:
    """``field`` holds one of ``values``."""
    return f"{field} in [{', '.join(literal(value) for value in values)}]"


def begins(field: str, prefix: str) -> str:
    """``field`` begins with ``prefix``, compared code point by code point."""
    after = successor(prefix)
    lower = f"{field} >= {literal(prefix)}"
    return lower if after is None else f"{lower} and {field} < {literal(after)}"


def successor(prefix: str) -> str | None:
    """The first string that comes after every string beginning with ``prefix``.

    Returns:
        None when there is none: the prefix is empty or holds nothing but U+10FFFF.
    """
    for end in range(len(prefix) - 1, -1, -1):
        point = ord(prefix[end])
        if point == _LAST:
            continue
        point += 1
        if _FIRST_SURROGATE <= point <= _LAST_SURROGATE:
            point = _LAST_SURROGATE + 1
        return prefix[:end] + chr(point)
    return None


def literal(value: str) -> str:
    """A value as a string literal of the filter language.

    Raises:
        MemsearchError: ``BAD_REQUEST``, for lone surrogates: no stored string can hold them.
    """
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise MemsearchError(
            f"{value!r} cannot be searched for: it is not valid Unicode",
            kind=ErrorClass.BAD_REQUEST,
            hint="a file name that is not UTF-8 cannot be in the index",
        ) from error
    return f'"{value.translate(_ESCAPES)}"'


def day_number(day: date) -> int:
    """A date as the index holds it: the number yyyymmdd."""
    return day.year * 10_000 + day.month * 100 + day.day
