"""Reading turns out of an append-only file of JSON lines, for every agent that writes one.

What a record means is the agent's module's business (a :class:`Fold`, and what opens a
turn); where to begin, when to stop, and what to do with torn, broken and endless lines is
decided here, once.
"""

from __future__ import annotations

import os
import stat
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, Literal, Protocol

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sources.base import MAX_READING_CHARS, Pointer, Reading, Turn
from memsearch.sources.lines import (
    TOO_LONG,
    Line,
    Record,
    decode,
    read_backward,
    read_forward,
    read_line,
)
from memsearch.sources.packed import MAX_UNPACKED_BYTES, is_packed, unpack

#: Bytes that the file object reads ahead.
BUFFER_BYTES = 65_536
#: Bytes from the beginning of a file in which its first user message is looked for.
HEAD_BYTES = 8_000_000
#: Records after a command among which its answer is looked for.
ANSWER_RECORDS = 200
#: Different names of unknown things that are told apart.
MAX_NAMES = 100
#: Turns older than asked for after which the search for a hooked turn gives up.
MAX_OLDER_TURNS = 50


@dataclass(frozen=True, slots=True)
class Opening:
    """A record that begins a turn, or that a hook may name.

    Attributes:
        id: The turn's id, or another id by which a hook may name the turn before it.
        at: When, None if the record does not say.
        kind: ``turn`` begins a turn for certain, ``maybe`` does if the agent answers it.
            ``alias`` does not: its id belongs to the turn before it.
    """

    id: str
    at: datetime | None
    kind: Literal["turn", "maybe", "alias"]


class Fold(Protocol):
    """Records in, turns out. A turn comes out when the next one has begun."""

    #: Types of records and blocks that were not known, and how often.
    unknown: Counter[str]

    @property
    def resume(self) -> int | None:
        """The offset of the first record of the turn that is going on; None without one."""
        ...

    def feed(self, record: Record, offset: int) -> list[Turn]:
        """Take the next record; the turns that are over now."""
        ...

    def finish(self) -> list[Turn]:
        """The turns that are left at the end of the file."""
        ...


class JsonlSource(ABC):
    """A source whose conversations are files of JSON lines."""

    resumable = True
    agent_is_subagent = True
    root_is_transcript = False
    #: Every line that can open a turn holds one of these; others are not even decoded
    #: when the beginning of a tail is looked for.
    opening_marks: tuple[bytes, ...] = (b"{",)

    @abstractmethod
    def fold(self, pointer: Pointer, fallback: datetime) -> Fold:
        """A new fold. ``fallback`` is the time of turns whose records carry none."""

    @abstractmethod
    def opening(self, record: Record, offset: int) -> Opening | None:
        """What a record opens, seen without those before it."""

    def is_answered(self, following: Iterator[Record]) -> bool:  # noqa: ARG002
        """Whether the agent answered what a ``maybe`` opened, by the records after it."""
        return False

    def rewind(self, file: BinaryIO, begin: int) -> int:  # noqa: ARG002
        """Where a turn really begins whose opening record lies at ``begin``.

        An agent may write facts of a turn (its id, its working directory) before the
        record that opens it.
        """
        return begin

    @abstractmethod
    def first_words(self, record: Record) -> str | None:
        """The user's words in a record as they were sent, None when it holds none."""

    @abstractmethod
    def is_foreign(self, path: str) -> bool:
        """Whether a file is no conversation of the user (a subagent's)."""

    def read(
        self,
        pointer: Pointer,
        *,
        start: int | None,
        not_before: datetime | None,
        is_ours: Callable[[str], bool] = lambda _text: False,
    ) -> Reading:
        """See :meth:`memsearch.sources.base.Source.read`."""
        with open_file(pointer.path) as file:
            size = os.fstat(file.fileno()).st_size
            if self.is_foreign(pointer.path) or self._is_ours(file, is_ours):
                return Reading((), size, unknown={}, skipped={}, torn=False, foreign=True)
            wanted, last_counts = pointer.turn, False
            if start is None:
                last_counts = wanted is None
                begin = 0
                if not_before is not None:
                    begin = self._tail(
                        file, size, wanted, lambda at: at >= not_before, give_up=MAX_OLDER_TURNS
                    )
                    begin = self.rewind(file, begin)
            else:
                begin = _valid(file, start, size)
            records = _Records(file, begin)
            fold = self.fold(pointer, _changed_at(file))
            kept: list[Turn] = []
            last: Turn | None = None
            room = MAX_READING_CHARS
            stopped: int | None = None  # where turns were left out for want of room
            missing = wanted is not None or last_counts
            for turns in _batches(records, fold):
                for turn in turns:
                    last = turn
                    hooked = wanted is not None and turn.answers_to(wanted)
                    missing = missing and not hooked
                    fits = stopped is None and (not_before is None or turn.at >= not_before)
                    if fits or hooked:
                        kept.append(turn)
                        room -= weight(turn)
                if room < 0 and stopped is None and not records.ended:
                    stopped = fold.resume
                if stopped is not None and not missing:
                    break
            if last_counts and last is not None and kept[-1:] != [last]:
                kept.append(last)
            resume = records.whole_until if fold.resume is None else fold.resume
            return Reading(
                turns=tuple(kept),
                resume=resume if stopped is None else stopped,
                unknown=dict(fold.unknown),
                skipped=dict(records.skipped),
                torn=records.torn,
                more=stopped is not None,
            )

    def conversation(
        self, path: str, session: str, turn: str | None, *, context: int = 3
    ) -> tuple[Turn, ...]:
        """See :meth:`memsearch.sources.base.Source.conversation`."""
        pointer = Pointer(platform="", session=session, path=path, turn=turn)
        context = max(0, context)
        width = 2 * context + 1
        with open_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            begin = self._tail(
                file,
                size,
                turn,
                lambda _at: False,
                before=context if turn is not None else width - 1,
            )
            begin = self.rewind(file, begin)
            window: deque[Turn] = deque(maxlen=width if turn is None else context)
            found: list[Turn] = []
            fold = self.fold(pointer, _changed_at(file))
            for each in chain.from_iterable(_batches(_Records(file, begin), fold)):
                if found:
                    found.append(each)
                elif turn is not None and each.answers_to(turn):
                    found = [*window, each]
                    width = len(found) + context
                else:
                    window.append(each)
                if found and len(found) >= width:
                    break
        if turn is None:
            return tuple(window)
        if not found:
            raise MemsearchError(
                f"{path} does not hold the turn {turn}",
                kind=ErrorClass.BAD_FILE,
                hint="leave the turn out to see the end of the conversation",
            )
        return tuple(found)

    def _is_ours(self, file: BinaryIO, is_ours: Callable[[str], bool]) -> bool:
        for record, offset in _Records(file, 0):
            words = self.first_words(record)
            if words is not None:
                return is_ours(words)
            if offset > HEAD_BYTES:
                break
        return False

    def _tail(
        self,
        file: BinaryIO,
        size: int,
        wanted: str | None,
        is_recent: Callable[[datetime], bool],
        *,
        before: int = 0,
        give_up: int | None = None,
    ) -> int:
        """Where the shortest tail begins that holds the wanted turn and every recent one.

        Args:
            file: The transcript.
            size: Its size in bytes.
            wanted: The hooked turn's id; None: the last turn.
            is_recent: Whether a turn that began then is wanted too.
            before: How many turns before the wanted one are wanted too.
            give_up: After how many turns that are not recent the wanted one is taken to
                be absent; None: never.
        """
        begin = size
        fallback = size
        hooked: str | None = None
        included: str | None = None
        takes_next = wanted is None
        older: set[str] = set()
        for line in read_backward(file, size):
            if line.end == size and not line.whole:
                begin = fallback = line.offset  # a torn line is looked at again, whole
            record = self._candidate(file, line)
            opening = None if record is None else self.opening(record, line.offset)
            if opening is None:
                continue
            recent = opening.at is None or is_recent(opening.at)
            certain = opening.kind == "turn" or (
                opening.kind == "maybe" and self._is_answered(file, line)
            )
            if not certain:
                # A hook that names what is no turn means the turn before it. What may be
                # one is kept in case there is none before it.
                if hooked is None and (takes_next or opening.id == wanted):
                    takes_next = True
                    if opening.kind == "maybe":
                        fallback = line.offset
                if opening.kind == "maybe" and recent:
                    begin = line.offset
                continue
            if hooked is None and (takes_next or opening.id == wanted):
                hooked = opening.id
            elif opening.id == included or recent:
                pass
            elif hooked is None:
                if give_up is not None:
                    older.add(opening.id)
                    if len(older) >= give_up:
                        break
                continue
            elif before > 0:
                before -= 1
            else:
                return begin
            begin = line.offset
            included = opening.id
        return begin if hooked is not None else min(begin, fallback)

    def _is_answered(self, file: BinaryIO, line: Line) -> bool:
        records = (record for record, _ in _Records(file, line.end))
        return self.is_answered(islice(records, ANSWER_RECORDS))

    def _candidate(self, file: BinaryIO, line: Line) -> Record | None:
        data = line.data
        if data is None:
            data = read_line(file, line.offset).data
        if data is None or not any(mark in data for mark in self.opening_marks):
            return None
        record = decode(data)
        return record if isinstance(record, dict) else None


class _Records:
    """The records from an offset on, and what was passed over among them."""

    def __init__(self, file: BinaryIO, start: int) -> None:
        self._file = file
        self._start = start
        self.skipped: Counter[str] = Counter()
        self.torn = False
        self.ended = False
        #: The offset after the last line that need not be read again.
        self.whole_until = start

    def __iter__(self) -> Iterator[tuple[Record, int]]:
        broken: Line | None = None
        reason = ""
        for line in read_forward(self._file, self._start):
            if broken is not None:
                # Another line follows, so it was not torn: it is broken for good.
                self.skipped[reason] += 1
                self.whole_until = broken.end
                broken = None
            record = TOO_LONG if line.data is None else decode(line.data)
            if isinstance(record, str):
                if record == TOO_LONG and line.whole:
                    self.skipped[record] += 1
                    self.whole_until = line.end
                else:
                    broken, reason = line, record
                continue
            # A record that can be decoded is complete, newline or not: no beginning of an
            # object is an object. It is read again until its newline is there.
            if line.whole:
                self.whole_until = line.end
            if record is not None:
                yield record, line.offset
        self.torn = broken is not None
        self.ended = True


@contextmanager
def open_file(path: str, *, most: int = MAX_UNPACKED_BYTES) -> Iterator[BinaryIO]:
    """A transcript, opened for reading bytes; one that its agent has packed is unpacked.

    Args:
        path: Its name before it was packed.
        most: Bytes of a packed one that are wanted.

    Raises:
        MemsearchError: ``BAD_FILE`` when it is missing, no file or cannot be read;
            ``PERMISSION`` when access is denied.
    """
    try:
        if is_packed(path):
            with unpack(path, most) as file:
                yield file
            return
        if not stat.S_ISREG(Path(path).stat().st_mode):
            raise MemsearchError(f"{path} is not a file", kind=ErrorClass.BAD_FILE)
        with _open(path) as file:
            yield file
    except FileNotFoundError:
        raise MemsearchError(
            f"there is no transcript {path}",
            kind=ErrorClass.BAD_FILE,
            hint="the agent may have cleaned it up, or the session had no message",
        ) from None
    except PermissionError as error:
        raise MemsearchError(
            f"{path} may not be read ({error.strerror})",
            kind=ErrorClass.PERMISSION,
            hint="run memsearch as the user who runs the agent",
        ) from error
    except (OSError, ValueError) as error:
        raise MemsearchError(
            f"{path} cannot be read ({error})", kind=ErrorClass.BAD_FILE
        ) from error


def _open(path: str) -> BinaryIO:
    return Path(path).open("rb", buffering=BUFFER_BYTES)


def _valid(file: BinaryIO, start: int, size: int) -> int:
    """The offset, or 0 when it belongs to a file that was replaced by this one."""
    if start <= 0 or start > size:
        return 0
    file.seek(start - 1)
    return start if file.read(1) == b"\n" else 0


def _changed_at(file: BinaryIO) -> datetime:
    return datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, UTC)


def weight(turn: Turn) -> int:
    """Characters of a turn in memory, what holds them included."""
    return 500 + sum(
        len(item.text) + len(item.output) + len(item.name) + 100 for item in turn.items
    )


def _batches(records: _Records, fold: Fold) -> Iterator[list[Turn]]:
    for record, offset in records:
        if turns := fold.feed(record, offset):
            yield turns
    yield fold.finish()


def count(name: str, into: Counter[str]) -> None:
    """Count an unknown thing, within bounds: garbage can hold any number of names."""
    short = name[:60]
    into[short if short in into or len(into) < MAX_NAMES else "(others)"] += 1
