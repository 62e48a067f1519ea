"""Cutting documents into chunks: sections first, and long sections at the best places.

A section that fits is one chunk. A longer one is cut, in this order of liking, at a
paragraph, at a line, at a sentence, between words (or between two Han characters), after
punctuation, and only then anywhere. The first three count only in the second half of a piece,
so that pieces do not become crumbs. Pure functions, linear in the text.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sinks.anchors import path_bytes, without_comments
from memsearch.sinks.documents import digest_month, kind_of
from memsearch.sinks.ids import content_hash
from memsearch.sinks.journal_format import journal_day, section_anchor
from memsearch.sinks.sections import sections
from memsearch.sinks.types import Anchor, Chunk, Section

__all__ = ["CHUNKER_VERSION", "chunk_document", "embedding_text", "pieces", "sections"]

#: Part of the index's identity: goes up when the same text gives other chunks.
CHUNKER_VERSION = 1

#: Limits of the index's fields, in bytes of UTF-8.
MAX_CONTENT_BYTES = 65_535
MAX_HEADING_BYTES = 1_024
MAX_SOURCE_BYTES = 1_024

#: The overlap of two pieces is at most this part of a piece.
OVERLAP_SHARE = 5
#: How far a cut in the middle of a word steps back so as not to part a letter from its accents.
MAX_STEP_BACK = 16

# The lookbehind lets each run of marks be tried once; without it a line of dots is quadratic.
_SENTENCE_END = re.compile(r"(?<![.!?…])[.!?…]+[\"'”’)\]]*(?=\s)|[。！？；｡]+[”’」』）】》\"')\]]*")
_NOT_BLANK = re.compile(r"\S")
_URL_END = re.compile(r"[\s<>\"'`，。；、！？）】」』》]|\Z")
_SCHEME_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.")
#: Longest scheme of a URL that is looked for, in characters.
MAX_SCHEME = 16

_SOFT_END = frozenset(",;|&=)]}>")
_NOT_AT_START = frozenset("，。、；：！？）】》」』”’…,.;:!?)]}%·ー々")
_NOT_AT_END = frozenset("（【《「『“‘([{<$#@")

# Scripts that put no blanks between words: Thai to Myanmar, Khmer, CJK and its punctuation,
# kana, Hangul, the compatibility and full-width forms, the planes of rare Han.
_UNSPACED = (
    (0x0E00, 0x0EFF),
    (0x1000, 0x109F),
    (0x1780, 0x17FF),
    (0x2E80, 0x9FFF),
    (0xA960, 0xA97F),
    (0xAC00, 0xD7FF),
    (0xF900, 0xFAFF),
    (0xFE30, 0xFE4F),
    (0xFF00, 0xFFEF),
    (0x20000, 0x3FFFF),
)


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a text, as offsets: new text from ``start``, before it the overlap."""

    overlap: int
    start: int
    end: int


def chunk_document(
    text: str,
    source: str,
    *,
    max_chunk_size: int = 1500,
    overlap_lines: int = 2,
    archived: bool = False,
) -> list[Chunk]:
    """The chunks of a document, in its order.

    A chunk's content is its section's text as it stands in the file, heading line and
    comments included, without blank lines at the ends; it never exceeds ``max_chunk_size``
    characters or ``MAX_CONTENT_BYTES``. A section of which only blanks and comments are left
    below the heading gives none. Every other line is in a chunk. (Of pieces that one line
    gives, equal ones are kept once: they would have the same id.)

    Args:
        text: The document as ``documents.read_document`` gives it.
        source: Its path as the index names it.
        max_chunk_size: In characters, at least 1.
        overlap_lines: Whole lines that the next piece of a cut section repeats, as far as
            they stay below a fifth of the piece.
        archived: It lies in the archive of its memory.

    Raises:
        MemsearchError: ``BAD_FILE`` when ``source`` is longer than the index can hold.
    """
    source = _utf8(source)
    if len(source.encode()) > MAX_SOURCE_BYTES:
        raise MemsearchError(
            f"the path of {source[:80]}… is longer than {MAX_SOURCE_BYTES} bytes",
            kind=ErrorClass.BAD_FILE,
            hint="move the file to a shorter path",
        )
    text = _utf8(text)
    kind = kind_of(source, archived=archived)
    found_day = journal_day(source) if kind in ("entry", "archive") else None
    day = found_day.year * 10000 + found_day.month * 100 + found_day.day if found_day else 0
    month = digest_month(source) if kind == "digest" else ""
    starts = _line_starts(text)
    chunks: dict[tuple[int, int, str], Chunk] = {}
    for section in sections(text, journal=found_day is not None):
        if month and section.level == 2:
            day = _digest_day(section.heading, month) or day
        if not without_comments(section.body).strip():
            continue
        anchor = (section_anchor(section) if found_day else None) or Anchor()
        first, last = _bounds(section, starts, text)
        for piece in pieces(text, first, last, max_chunk_size, overlap_lines):
            content = text[piece.overlap : piece.end]
            chunk = Chunk(
                source=source,
                heading=_cut_bytes(section.heading, MAX_HEADING_BYTES),
                heading_level=section.level,
                start_line=bisect_right(starts, piece.overlap),
                end_line=bisect_right(starts, piece.end - 1),
                content=content,
                content_hash=content_hash(content),
                kind=kind,
                platform=anchor.platform,
                session=anchor.session,
                turn=anchor.turn,
                day=day,
            )
            chunks.setdefault((chunk.start_line, chunk.end_line, chunk.content_hash), chunk)
    return list(chunks.values())


def _digest_day(heading: str, month: str) -> int:
    """The day that a block of a digest is about, ``yyyymmdd``; 0 for another heading."""
    word = heading.strip()
    if not word.startswith(f"{month}-") or journal_day(f"{word}.md") is None:
        return 0
    return int(word.replace("-", ""))


def embedding_text(content: str) -> str:
    """What of a chunk's content is embedded: all but comments, whose ids mean nothing.

    It depends on the content alone, so the cache by ``content_hash`` holds.
    """
    return without_comments(content).strip() or content


def pieces(text: str, first: int, last: int, limit: int, overlap_lines: int) -> list[Piece]:
    """Cut ``text[first:last]`` into pieces of at most ``limit`` characters.

    Args:
        text: The whole document.
        first: Offset where the section begins.
        last: Offset after its last character.
        limit: Characters of a piece, its overlap included.
        overlap_lines: Whole lines that a piece repeats of the one before.

    Returns:
        Pieces whose new texts, put together, hold every character that is not blank.
    """
    limit = max(1, limit)
    found: list[Piece] = []
    start = _skip_blank(text, first, last, limit)
    overlap = start
    while start < last:
        cut = _cut(text, overlap, start, last, limit)
        if cut is None and overlap < start:  # no good place: give up the overlap for one
            overlap = start
            cut = _cut(text, overlap, start, last, limit)
        if cut is None:
            cut = _hard_cut(text, start, _window_end(text, start, last, limit))
        piece = Piece(overlap, start, start + len(text[start:cut].rstrip()))
        start = _skip_blank(text, cut, last, limit)
        if piece.end == piece.start:  # only the indentation of a word that is longer than all
            overlap = start
            continue
        found.append(piece)
        overlap = _overlap(text, piece, start, limit // OVERLAP_SHARE, overlap_lines)
    return found


def _cut(text: str, begin: int, start: int, last: int, limit: int) -> int | None:
    """The best end for a piece of ``text[begin:]`` whose new text begins at ``start``."""
    end = _window_end(text, begin, last, limit)
    if end == last:
        return last
    middle = max(start + 1, begin + limit // 2)
    return (
        _paragraph_or_line(text, middle, end)
        or _sentence(text, middle, end)
        or _between_words(text, start, end)
    )


def _window_end(text: str, begin: int, last: int, limit: int) -> int:
    """The furthest end that a piece from ``begin`` may have."""
    end = min(last, begin + limit)
    if (end - begin) * 4 > MAX_CONTENT_BYTES:
        encoded = text[begin:end].encode()
        if len(encoded) > MAX_CONTENT_BYTES:
            return begin + len(encoded[:MAX_CONTENT_BYTES].decode("utf-8", "ignore"))
    return end


def _paragraph_or_line(text: str, middle: int, end: int) -> int | None:
    """Behind the last blank line of the window's second half, else behind its last line."""
    # A newline right behind the window will do too: it is trimmed from the piece.
    newline = last = text.rfind("\n", middle, end + 1)
    while newline >= 0:
        before = text.rfind("\n", middle, newline)
        if before >= 0 and not text[before + 1 : newline].strip():
            return newline + 1
        newline = before
    return last + 1 if last >= 0 else None


def _sentence(text: str, middle: int, end: int) -> int | None:
    found = None
    for match in _SENTENCE_END.finditer(text, middle, end):
        found = match.end()
    return found


def _between_words(text: str, start: int, end: int) -> int | None:
    """The last place in the window that is not inside a word or a URL."""
    if text[end].isspace():
        return end
    window = text[start:end]
    if window.isascii():
        words = window.rsplit(None, 1)
        cut = end - len(words[-1]) if len(words) == 2 or window[:1].isspace() else start
        return cut if cut > start else None
    for cut in range(end, start, -1):
        if text[cut - 1].isspace():
            return cut
        if _is_unspaced_boundary(text, cut):
            return _before_url(text, start, cut)
    return None


def _is_unspaced_boundary(text: str, cut: int) -> bool:
    before, after = text[cut - 1], text[cut]
    return (
        (_is_unspaced(before) or _is_unspaced(after))
        and after not in _NOT_AT_START
        and before not in _NOT_AT_END
        and not _clings(text, cut)
    )


def _before_url(text: str, start: int, cut: int) -> int:
    """``cut``, or the beginning of the URL that it would go through."""
    mark = text.rfind("://", start, cut)
    if mark < 0:
        return cut
    url = mark
    while url > max(start, mark - MAX_SCHEME) and text[url - 1] in _SCHEME_CHARS:
        url -= 1
    match = _URL_END.search(text, mark + 3, cut)
    return url if match and match.start() == cut and url > start else cut


def _hard_cut(text: str, start: int, end: int) -> int:
    """Where nothing is good: after punctuation in the second half, else at the very end."""
    for cut in range(end, (start + end) // 2, -1):
        if text[cut - 1] in _SOFT_END:
            return cut
    for cut in range(end, max(start, end - MAX_STEP_BACK), -1):
        if not _clings(text, cut):
            return cut
    return end


def _clings(text: str, cut: int) -> bool:
    """Does the character at ``cut`` belong to the one before it?"""
    after = text[cut]
    return (
        unicodedata.category(after).startswith("M")
        or "\u200d" in (after, text[cut - 1])  # zero width joiner
        or "\U0001f3fb" <= after <= "\U0001f3ff"  # skin tones
    )


def _overlap(text: str, piece: Piece, start: int, bound: int, lines: int) -> int:
    """Where the piece after ``piece`` begins, so that it repeats some of its last lines."""
    if "\n" not in text[piece.end : start] or lines < 1:
        return start
    begin, line_end = start, piece.end
    for _ in range(lines):
        newline = text.rfind("\n", piece.overlap, line_end)
        if newline < 0 or start - (newline + 1) > bound:
            break
        if text[newline + 1 : line_end].strip():
            begin = newline + 1
        line_end = newline
    return begin


def _skip_blank(text: str, position: int, last: int, limit: int) -> int:
    """The next place that is not blank; at a line's beginning its indentation is kept."""
    match = _NOT_BLANK.search(text, position, last)
    if match is None:
        return last
    line = text.rfind("\n", position, match.start()) + 1
    if line == 0:  # no newline between: a cut inside a line, or right at its beginning
        line = position if position == 0 or text[position - 1] == "\n" else match.start()
    return line if match.start() - line <= limit // OVERLAP_SHARE else match.start()


def _line_starts(text: str) -> list[int]:
    starts = [0]
    position = text.find("\n")
    while position >= 0:
        starts.append(position + 1)
        position = text.find("\n", position + 1)
    return starts


def _bounds(section: Section, starts: list[int], text: str) -> tuple[int, int]:
    """Offsets of a section's first and behind its last character."""
    last = section.end_line
    return starts[section.line - 1], starts[last] - 1 if last < len(starts) else len(text)


def _is_unspaced(char: str) -> bool:
    code = ord(char)
    return code >= 0x0E00 and any(low <= code <= high for low, high in _UNSPACED)


def _cut_bytes(text: str, limit: int) -> str:
    return text.encode()[:limit].decode("utf-8", "ignore")


def _utf8(text: str) -> str:
    """The text without lone surrogates, which no store takes.

    Where they stand for the bytes of a path (as Python reads it in a C locale), the bytes are
    taken for what they are nearly always: UTF-8.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return path_bytes(text).decode("utf-8", "replace")
    return text
