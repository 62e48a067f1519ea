"""Lines of a file that may be far larger than memory, forward and backward.

Agents write one JSON object per line. Files of 1.5 GB and lines of 30 MB (an image in
base64, a whole file before an edit) exist, so nothing here holds more than a few
megabytes: a line up to ``MAX_LINE_BYTES`` is read as it is; of a longer one every JSON
string is cut to ``MAX_STRING_BYTES`` while it is read, which leaves the record around an
image intact and its words complete. Only a line that is still too long after that is
passed over, and says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from memsearch.sources.bounds import TORN

#: A line up to this many bytes is kept as it is; a shrunk one may be as long.
MAX_LINE_BYTES = 2_000_000
#: Bytes that are kept of each JSON string in a longer line. Escaped (``\\uXXXX``) it still
#: holds all that the bounds of one text of a turn leave.
MAX_STRING_BYTES = 262_144
#: Bytes read at once.
BLOCK_BYTES = 262_144

#: The mark of a cut string, as it stands in JSON.
_TORN = json.dumps(TORN)[1:-1].encode()

#: Why a line was passed over: it has no place in memory even when it is shrunk.
TOO_LONG = "too long"
#: Why a line was passed over: it is not JSON.
NOT_JSON = "not JSON"
#: Why a line was passed over: it is JSON, and not an object.
NOT_AN_OBJECT = "not an object"

Record = dict[str, Any]


class Line(NamedTuple):
    """One line and its place.

    ``offset`` is its first byte, ``end`` the byte after its newline. ``data`` is None where
    the line is not held: too long even when shrunk, or, read backward, longer than
    ``MAX_LINE_BYTES`` (:func:`read_line` shrinks it). ``whole`` says that it ends in a
    newline.
    """

    offset: int
    end: int
    data: bytes | None
    whole: bool


def read_forward(file: BinaryIO, start: int) -> Iterator[Line]:
    """The lines from a byte offset to the end of the file, in order.

    Args:
        file: Opened for reading bytes.
        start: Byte offset of the first line.
    """
    file.seek(start)
    offset = start
    while piece := file.readline(MAX_LINE_BYTES):
        if piece.endswith(b"\n") or len(piece) < MAX_LINE_BYTES:
            yield Line(offset, offset + len(piece), piece, piece.endswith(b"\n"))
            # Without a newline this was the end of the file. What a writer appends from
            # now on completes this line and must not be taken for a new one.
            if not piece.endswith(b"\n"):
                return
            offset += len(piece)
            continue
        shrinker = Shrinker()
        end = offset
        while piece:
            end += len(piece)
            shrinker.feed(piece)
            if piece.endswith(b"\n"):
                break
            piece = file.readline(BLOCK_BYTES)
        yield Line(offset, end, shrinker.result(), piece.endswith(b"\n"))
        if not piece:
            return
        offset = end


def read_line(file: BinaryIO, offset: int) -> Line:
    """The line that begins at a byte offset before the end of the file, shrunk if need be."""
    return next(read_forward(file, offset))


def read_backward(file: BinaryIO, end: int) -> Iterator[Line]:
    """The lines before a byte offset, last line first.

    Lines longer than ``MAX_LINE_BYTES`` come without their data: what they hold is not
    read twice unless the caller asks for it.

    Args:
        file: Opened for reading bytes. It may be moved between two lines.
        end: Byte offset to begin at, usually the size of the file.
    """
    position = end  # where the block that was read last begins
    line_end = end  # where the line that is being put together ends
    held: bytes | None = b""  # its bytes from ``position`` on, None when they are too many
    while position > 0:
        size = min(BLOCK_BYTES, position)
        position -= size
        file.seek(position)
        block = file.read(size)
        if held is None:
            data, base = block, position
        else:
            data, base = block + held, position
        stop = len(data) if held is not None else len(block)
        # A newline at ``line_end - 1`` closes the line itself and does not begin another.
        newline = data.rfind(b"\n", 0, min(stop, max(0, line_end - 1 - base)))
        while newline >= 0:
            begin = base + newline + 1
            whole_line = data[newline + 1 : line_end - base] if held is not None else None
            if whole_line is None or len(whole_line) > MAX_LINE_BYTES:
                yield Line(begin, line_end, None, True)
            else:
                yield Line(begin, line_end, whole_line, whole_line.endswith(b"\n"))
            line_end = begin
            held = b""
            newline = data.rfind(b"\n", 0, newline)
        if line_end <= base:
            held = b""
        elif held is not None:
            held = data[: line_end - base]
            if len(held) > MAX_LINE_BYTES:
                held = None
    if line_end > 0:
        whole = held is None or held.endswith(b"\n")
        yield Line(0, line_end, held, whole)


def decode(data: bytes) -> Record | str | None:
    """The record of one line.

    Bytes that are not UTF-8 become U+FFFD. NULs around the record (left by a power cut)
    are taken off.

    Returns:
        The record; or the reason why there is none; or None for a blank line.
    """
    stripped = data.strip(b"\x00\xef\xbb\xbf \t\r\n")
    if not stripped:
        return None
    try:
        value = json.loads(stripped.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return NOT_JSON
    return value if isinstance(value, dict) else NOT_AN_OBJECT


class Shrinker:
    """Cuts the long strings out of one line of JSON while it is read in pieces."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._in_string = False
        self._string_start = 0  # where the body of the current string begins in _kept
        self._cut = False  # the current string has reached its bound
        self._odd_backslashes = False  # the piece before ended inside an escape
        self._given_up = False

    def feed(self, piece: bytes) -> None:
        """Take the next bytes of the line."""
        index = 0
        while index < len(piece) and not self._given_up:
            quote = piece.find(b'"', index)
            if not self._in_string:
                stop = len(piece) if quote < 0 else quote + 1
                self._kept += piece[index:stop].replace(b"\x00", b"")
                if quote >= 0:
                    self._begin_string()
                index = stop
            else:
                while quote >= 0 and self._is_escaped(piece, index, quote):
                    quote = piece.find(b'"', quote + 1)
                stop = len(piece) if quote < 0 else quote
                self._keep_body(piece, index, stop)
                if quote >= 0:
                    self._kept += b'"'
                    self._in_string = False
                    stop += 1
                else:
                    self._odd_backslashes = self._is_escaped(piece, index, stop)
                index = stop
            if len(self._kept) > MAX_LINE_BYTES:
                self._given_up = True
                self._kept.clear()

    def result(self) -> bytes | None:
        """What is left of the line; None when that is still too long."""
        return None if self._given_up else bytes(self._kept)

    def _begin_string(self) -> None:
        self._in_string = True
        self._string_start = len(self._kept)
        self._cut = False
        self._odd_backslashes = False

    def _is_escaped(self, piece: bytes, body: int, at: int) -> bool:
        """Whether an odd number of backslashes stands before ``at``."""
        run = at
        while run > body and piece[run - 1] == 0x5C:
            run -= 1
        odd = (at - run) % 2 == 1
        # The run may have begun in the piece before.
        return odd != self._odd_backslashes if run == body else odd

    def _keep_body(self, piece: bytes, start: int, stop: int) -> None:
        if self._cut:
            return
        room = MAX_STRING_BYTES - (len(self._kept) - self._string_start)
        self._kept += piece[start : min(stop, start + room)]
        if stop - start <= room:
            return
        self._cut = True
        # An escape is at most 12 bytes long (a surrogate pair), so one that the cut went
        # through begins in these last bytes. Cutting where a run of backslashes begins is
        # always between two characters.
        tail = max(self._string_start, len(self._kept) - 12)
        backslash = self._kept.find(b"\\", tail)
        if backslash >= 0:
            while backslash > self._string_start and self._kept[backslash - 1] == 0x5C:
                backslash -= 1
            del self._kept[backslash:]
        self._kept += _TORN
