"""A text as a reader sees it, with the place of each character in the text itself. Pure.

A colour between a name and its value, an invisible character within a token, a quote or a line
break that HTML, JSON or a URL has escaped: each hides a secret from a pattern, and most are
taken away later, when the text is shown or written. So the rules look at this view as well.
"""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass

#: Colours and other control sequences, also as programs write them down.
_SEQUENCE = r"(?:\x1b|\\u001[bB]|\\x1[bB]|\\033|\\e)\[[0-9;:?]{0,30}[A-Za-z]"
#: What is not seen: zero-width, soft hyphen, directions, tags.
_INVISIBLE = (
    "[\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufe00-\ufe0f\ufeff"
    "\U000e0000-\U000e007f]"
)
#: What stands between names and values, and how else it is written.
_WRITTEN = {
    " ": ("\u00a0", "\u202f", "\u3000", "&nbsp;", "%20"),
    ":": ("：", "\\u003a", "%3a"),
    "=": ("＝", "\\u003d", "%3d"),
    '"': ("＂", "“", "”", "「", "」", "&quot;", "&#34;", "&#x22;", "\\u0022", "%22"),
    "'": ("‘", "’", "&apos;", "&#39;", "&#x27;", "\\u0027", "%27"),
    "\n": ("\0", "<br>", "<br/>", "\\u000a", "%0a"),
    "\r": ("%0d",),
    "+": ("%2b",),
    "/": ("%2f",),
    ",": ("%2c",),
}
_STANDS_FOR = {way: sign for sign, ways in _WRITTEN.items() for way in ways}
_HIDDEN = re.compile(
    "|".join(
        (_SEQUENCE, _INVISIBLE, *map(re.escape, sorted(_STANDS_FOR, key=lambda each: -len(each))))
    ),
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class View:
    """A text as it is seen.

    Attributes:
        text: What is seen.
        starts: Where each of its pieces begins, in characters of ``text``.
        places: Where each piece begins and ends in the text itself.
    """

    text: str
    starts: tuple[int, ...]
    places: tuple[tuple[int, int], ...]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The place in the text itself of a part that is not empty."""
        return self._place(start)[0], self._place(end - 1)[1]

    def _place(self, at: int) -> tuple[int, int]:
        piece = bisect.bisect_right(self.starts, at) - 1
        start, end = self.places[piece]
        offset = at - self.starts[piece]
        last = piece + 1 == len(self.starts)
        shown = (len(self.text) if last else self.starts[piece + 1]) - self.starts[piece]
        if shown == end - start:
            return start + offset, start + offset + 1
        return start, end  # one character that stands for several


def view(text: str) -> View | None:
    """The text as it is seen; None where that is what it is."""
    shown: list[str] = []
    starts: list[int] = []
    places: list[tuple[int, int]] = []
    length = at = 0

    def put(piece: str, start: int, end: int) -> None:
        nonlocal length
        if piece:
            shown.append(piece)
            starts.append(length)
            places.append((start, end))
            length += len(piece)

    for match in _HIDDEN.finditer(text):
        put(text[at : match.start()], at, match.start())
        put(_STANDS_FOR.get(match[0].lower(), ""), *match.span())
        at = match.end()
    if not at:
        return None
    put(text[at:], at, len(text))
    return View("".join(shown), tuple(starts), tuple(places))
