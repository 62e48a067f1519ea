"""Compaction: old journals become a digest for each month, and move to the archive.

The order makes it safe to kill at any moment: a month's digest is written whole, read again
and checked, and only then its journals are moved, each by one rename. Until then every journal
is where it was; from then on the digest stands for it. What was killed in between is taken up by
the next run, which knows by the marks in the digest what it need not add again, and by the log
what a model has answered already.

Models are asked before the lock on the journals is taken; under it everything is looked at once
more, and a journal that somebody has changed meanwhile is left for the next run.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import TEMP_PREFIX, sync_folder
from memsearch.config.project import Project, source_of
from memsearch.pipeline import rules
from memsearch.pipeline.budget import settle, today
from memsearch.pipeline.events import (
    Event,
    EventType,
    compact_stream,
    document_stream,
    turn_stream,
)
from memsearch.pipeline.redact import redact_text
from memsearch.pipeline.stages.append import document_changed, notes_hash
from memsearch.pipeline.summarizers import digests
from memsearch.pipeline.summarizers.calls import StoppedError
from memsearch.pipeline.summarizers.choose import summarizer_for, who
from memsearch.pipeline.summarizers.prompt import AGENT_NAMES
from memsearch.pipeline.turn_codec import dump_bullets, load_bullets
from memsearch.sinks import digest
from memsearch.sinks.digest import Part
from memsearch.sinks.documents import decode, digest_month, is_utf8, shown_path
from memsearch.sinks.journal import error_of, journal_lock
from memsearch.sinks.journal_format import JournalEntry, clean_bullet, journal_day

if TYPE_CHECKING:
    from memsearch.pipeline.engine import Engine
    from memsearch.pipeline.log import Transaction
    from memsearch.pipeline.types import Summarizer, Summary

#: How often a model is asked for one part before the run gives up, and the seconds before each
#: further try. The next run goes on where this one ended.
TRY_AFTER_SECONDS = (1.0, 5.0)
#: Longest wait in seconds that an endpoint may ask for within one run.
MAX_WAIT_SECONDS = 30.0
#: How often a digest is read again that somebody saves meanwhile.
MAX_CHANGED = 5
#: Mode of a new digest, before the umask: it is the project's file, like the journals.
FILE_MODE = 0o666

#: Why a journal stays that was written to between the first look and the move.
CHANGED = "somebody changed it meanwhile"

#: Failures that another try may mend.
_PASSING = frozenset(
    {
        ErrorClass.NETWORK,
        ErrorClass.TIMEOUT,
        ErrorClass.RATE_LIMIT,
        ErrorClass.SERVER,
        ErrorClass.BUSY,
        ErrorClass.BAD_ANSWER,
    }
)

#: Told how many journals are dealt with, of how many, and what is at hand.
Report = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class File:
    """A journal that is to go to the archive.

    Attributes:
        path: Where it is.
        day: ``YYYY-MM-DD``.
        sha256: Of its bytes.
        parts: All that it says.
        fresh: What of it no digest stands for yet.
    """

    path: str
    day: str
    sha256: str
    parts: tuple[Part, ...]
    fresh: tuple[Part, ...]

    @property
    def month(self) -> str:
        return self.day[:7]

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    def entries(self) -> list[Part]:
        """What may be shortened of what is fresh."""
        return [part for part in self.fresh if part.kind == "entry"]


@dataclass(frozen=True, slots=True)
class Left:
    """A journal that is old enough and stays, and why."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What a compaction would do: the journals by month, in their order, and what stays."""

    files: tuple[File, ...]
    left: tuple[Left, ...]

    def months(self) -> dict[str, list[File]]:
        found: dict[str, list[File]] = {}
        for file in self.files:
            found.setdefault(file.month, []).append(file)
        return found

    def facts(self, project: Project) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "months": [
                {
                    "month": month,
                    "digest": digest_path(project, month),
                    "journals": [file.path for file in files],
                    "entries": sum(part.kind == "entry" for f in files for part in f.fresh),
                    "own": sum(part.kind == "own" for f in files for part in f.fresh),
                }
                for month, files in self.months().items()
            ],
            "left": [{"path": item.path, "why": item.why} for item in self.left],
        }


def digest_path(project: Project, month: str) -> str:
    """Where a month's digest lies."""
    return os.path.join(project.memory_dir, digest.digest_name(month))


# ------------------------------------------------------------------------------ planning


def make_plan(engine: Engine, project: Project, until: date) -> Plan:
    """Look what there is to compact. Nothing is changed.

    Args:
        engine: The engine.
        project: Whose journals.
        until: The youngest day that is compacted.

    Raises:
        MemsearchError: A folder or a digest cannot be read.
    """
    files: list[File] = []
    left: list[Left] = []
    known: dict[str, set[str]] = {}
    for path in _journals(project.memory_dir):
        day = journal_day(path)
        if day is None or day > until:
            continue
        marks = known.get(day.isoformat()[:7])
        if marks is None:
            text = _text(_read(digest_path(project, day.isoformat()[:7])) or b"")
            marks = known[day.isoformat()[:7]] = set(digest.marks_in(text))
        found = _file(engine, project, path, day.isoformat(), marks)
        if isinstance(found, Left):
            left.append(found)
        elif found is not None:
            files.append(found)
            # What a copy of this file repeats is said once.
            marks.update(part.mark for part in found.fresh)
    files.sort(key=lambda file: (file.day, file.name))
    return Plan(tuple(files), tuple(left))


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise error_of(error, folder) from error


def _journals(folder: str) -> list[str]:
    # A day's own file comes before its copies, "2026-03-05 (conflicted copy).md".
    found = [name for name in _names(folder) if journal_day(name) is not None]
    return [os.path.join(folder, name) for name in sorted(found, key=lambda n: (n[:10], len(n), n))]


def _file(
    engine: Engine, project: Project, path: str, day: str, marks: set[str]
) -> File | Left | None:
    """A journal as it is now; None for one that says nothing."""
    if not is_utf8(path):
        return Left(shown_path(path), "its name is not UTF-8")
    if _on_their_way(engine, project, day):
        return Left(path, "turns of that day are still on their way")
    try:
        mode = os.lstat(path).st_mode
        if not stat.S_ISREG(mode):
            return Left(path, "it is a link" if stat.S_ISLNK(mode) else "it is no regular file")
        data = _read(path)
    except MemsearchError as error:
        return Left(path, error.message)
    except OSError as error:
        return Left(path, f"it cannot be read: {error.strerror}")
    if data is None:
        return None
    parts = digest.parts_of(_text(data), day, lambda entry: _is_edited(engine, entry))
    if not parts:
        return None
    fresh = tuple(part for part in parts if part.mark not in marks)
    return File(path, day, _sha256(data), parts, fresh)


def _on_their_way(engine: Engine, project: Project, day: str) -> bool:
    return bool(
        engine.log.value(
            "SELECT COUNT(*) FROM turns WHERE memory_dir = ? AND day = ? AND state = 'open'",
            (project.memory_dir, day),
        )
    )


def _is_edited(engine: Engine, entry: JournalEntry) -> bool:
    """Whether the log knows that an entry is no longer what was written."""
    assert entry.anchor is not None
    stream = turn_stream(entry.anchor.platform, entry.anchor.turn)
    row = engine.log.row(
        "SELECT data FROM events WHERE stream = ? AND type = ? ORDER BY seq DESC LIMIT 1",
        (stream, EventType.TURN_APPENDED.value),
    )
    written = json.loads(row["data"]).get("notes") if row is not None else None
    return bool(written) and written != notes_hash(entry.bullets)


# --------------------------------------------------------------------------- carrying out


def carry_out(
    engine: Engine,
    project: Project,
    plan: Plan,
    *,
    cause: str,
    report: Report = lambda done, total, what: None,  # noqa: ARG005
) -> dict[str, Any]:
    """Compact, month by month; each is done for good before the next begins.

    Args:
        engine: The engine of the process that holds the worker's lock.
        project: Whose journals.
        plan: From ``make_plan``.
        cause: ``request`` or ``schedule``, for the log.
        report: Told how far it is.

    Returns:
        ``moved`` (each with ``journal`` and ``archive``), ``digests``, ``entries``, ``left``.

    Raises:
        MemsearchError: ``BUDGET`` when the day's tokens are spent; ``RULES`` while the settings
            cannot be read; a model's failure, or what the disk refuses. The months before it
            are done, the journals of this one are where they were.
    """
    done: dict[str, Any] = {
        "digests": [],
        "moved": [],
        "entries": 0,
        "left": [{"path": item.path, "why": item.why} for item in plan.left],
    }
    if plan.files:
        # What is sent where, and what may not be, has to be known first.
        rules.check(engine, "summarize", project.root)
    total, ready = len(plan.files), 0
    for month, files in plan.months().items():
        notes: dict[str, list[str]] = {}
        for file in files:
            report(ready, total, file.name)
            notes[file.path] = _notes(engine, project, file)
            ready += 1
        moved = _commit(engine, project, month, files, notes, done["left"])
        _tell(engine, project, month, moved, cause)
        if moved:
            done["digests"].append(digest_path(project, month))
        done["moved"] += [{"journal": file.path, "archive": path} for file, path in moved]
        done["entries"] += sum(len(file.entries()) for file, _ in moved)
    report(total, total, "")
    return done


def failed(engine: Engine, project: Project, error: MemsearchError, cause: str) -> None:
    """Write a failed run down; what it spent is counted."""
    stream = compact_stream(project.collection)
    data: dict[str, Any] = {
        "project": project.root,
        "error_class": error.kind.value,
        "cause": cause,
    }
    if error.tokens:
        data["usage"] = _usage(project, error.provider or "compact", error.tokens, 0)
    with engine.log.transaction() as tx:
        settle(tx, stream)
        tx.append(Event(stream, EventType.COMPACT_FAILED, data, body=str(error)))


# ------------------------------------------------------------------------ asking a model


def _notes(engine: Engine, project: Project, file: File) -> list[str]:
    """What is said of a journal's entries, one line each."""
    entries = file.entries()
    if not entries:
        return []
    settings = engine.settings(project.root)
    common = Counter(part.platform for part in entries if part.platform in AGENT_NAMES)
    platform = common.most_common(1)[0][0] if common else next(iter(AGENT_NAMES))
    own = settings.summarize.for_platform(platform)
    summarizer = summarizer_for(engine.part, settings, platform, engine.home, engine.environ)

    def clean(text: str) -> str:
        return redact_text(text, settings.redact)

    # A person may have typed something into an entry that no machine has seen yet.
    safe = [
        Part(p.kind, p.mark, p.text, p.time, tuple(map(clean, p.bullets)), p.platform)
        for p in entries
    ]
    found: list[str] = []
    for group in digests.split(safe, own.max_input_chars):
        asked = who(summarizer, platform, own)
        answer = _answer(engine, project, file.day, group, summarizer, own, asked)
        found += digests.first_bullets(group) if answer is None else answer
    cleaned = [clean_bullet(clean(note)) for note in found]
    return [note for note in cleaned if note]


def _answer(
    engine: Engine,
    project: Project,
    day: str,
    group: Sequence[Part],
    summarizer: Summarizer,
    own: Any,
    provider: Hashable,
) -> list[str] | None:
    """A model's notes of a group of entries; None where no model is to be asked."""
    asked = digests.build(day, group, own.max_input_chars)
    stream = compact_stream(project.collection)
    part = hashlib.sha256(asked.whole.encode("utf-8", "replace")).hexdigest()[:16]
    earlier = engine.log.row(
        "SELECT p.body FROM events AS e JOIN payloads AS p ON p.event_id = e.id"
        " WHERE e.stream = ? AND e.type = ? AND json_extract(e.data, '$.part') = ?",
        (stream, EventType.DIGEST_SUMMARIZED.value, part),
    )
    if earlier is not None:
        return list(load_bullets(earlier["body"]))
    spent = 0
    for wait in (*TRY_AFTER_SECONDS, None):
        _reserve(engine, project, stream, summarizer.cost_of(asked), summarizer.provider)
        began = time.time()
        try:
            engine.pacing.check(provider)
            summary = summarizer.answer_to(
                asked,
                most=digests.most_notes(group),
                timeout=own.timeout_seconds,
                stop=engine.stop,
            )
        except MemsearchError as error:
            error.provider = summarizer.provider
            if error.is_try:
                engine.pacing.heard(provider, error, began)
            if error.kind is ErrorClass.BAD_REQUEST:
                error.kind = ErrorClass.REFUSED  # it was ours, not that of whoever called us
            spent += error.tokens
            error.tokens = spent
            pause = max(wait or 0.0, error.retry_after or 0.0)
            if wait is None or error.kind not in _PASSING or pause > MAX_WAIT_SECONDS:
                raise
            if isinstance(error, StoppedError) or engine.stop.wait(pause):
                raise
            continue
        engine.pacing.answered(provider)
        if summary is None:
            return None
        _settle(engine, project, stream, day, part, summary, spent)
        return list(summary.bullets)
    raise AssertionError


def _reserve(engine: Engine, project: Project, stream: str, tokens: int, provider: str) -> None:
    cap = engine.settings().budget.daily_tokens

    def ask() -> str:
        return engine.budget.reserve(stream, tokens, cap, project=project.root, provider=provider)

    verdict = engine.budget.reserve_in_turn((today(), stream), engine.stop, ask)
    if verdict == "wait":
        raise StoppedError("the compaction")
    if verdict == "paused":
        raise MemsearchError(
            f"the {cap} tokens of today are spent; the journals are where they were",
            kind=ErrorClass.BUDGET,
            hint="call compact again tomorrow, or raise budget.daily_tokens",
        )


def _settle(
    engine: Engine,
    project: Project,
    stream: str,
    day: str,
    part: str,
    summary: Summary,
    spent: int,
) -> None:
    with engine.log.transaction() as tx:
        settle(tx, stream)
        usage = _usage(project, summary.provider, summary.tokens_in + spent, summary.tokens_out)
        tx.append(
            Event(
                stream,
                EventType.DIGEST_SUMMARIZED,
                {
                    "project": project.root,
                    "day": day,
                    "part": part,
                    "provider": summary.provider,
                    "model": summary.model,
                    "usage": usage | {"estimated": summary.estimated},
                },
                body=dump_bullets(summary.bullets),
            )
        )


def _usage(project: Project, provider: str, tokens_in: int, tokens_out: int) -> dict[str, Any]:
    return {
        "day": today(),
        "project": project.root,
        "provider": provider,
        "tokens_in": tokens_in,
        "tokens_out": tokens_out,
    }


# ------------------------------------------------------------------------- on the disk


def _commit(
    engine: Engine,
    project: Project,
    month: str,
    files: Sequence[File],
    notes: dict[str, list[str]],
    left: list[dict[str, str]],
) -> list[tuple[File, str]]:
    """Write a month's digest, check it, move its journals; which ones, and where they are now."""
    path = digest_path(project, month)
    moved: list[tuple[File, str]] = []
    try:
        with journal_lock(project.memory_dir, engine.home.run):
            _clear_drafts(project.memory_dir)
            ready: list[tuple[File, str]] = []
            taken: set[str] = set()
            for file in files:
                why = _why_not(engine, project, file)
                if why:
                    left.append({"path": file.path, "why": why})
                    continue
                target = _free_name(project.archive_dir, file, taken)
                taken.add(target)
                ready.append((file, target))
            if not ready:
                return []
            _make_archive(project)
            _write_digest(path, month, ready, notes)
            _check(path, ready, notes)
            for file, target in ready:
                _move(file.path, target)
                if _sha256(_read(target) or b"") != file.sha256 and _taken_back(file.path, target):
                    left.append({"path": file.path, "why": CHANGED})
                    continue
                moved.append((file, target))
            sync_folder(project.memory_dir)
            sync_folder(project.archive_dir)
    except OSError as error:
        raise error_of(error, path) from error
    return moved


def _why_not(engine: Engine, project: Project, file: File) -> str:
    """Why a journal may not be moved now after all; empty when it may."""
    if _on_their_way(engine, project, file.day):
        return "turns of that day are still on their way"
    data = None if os.path.islink(file.path) else _read(file.path)
    if data is None or _sha256(data) != file.sha256:
        return CHANGED
    return ""


def _write_digest(
    path: str, month: str, ready: Sequence[tuple[File, str]], notes: dict[str, list[str]]
) -> None:
    """Add the blocks that the digest lacks, in one replacement of the file."""
    if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
        raise MemsearchError(
            f"{path} is not a regular file", kind=ErrorClass.BAD_FILE, hint="move it away"
        )
    for _ in range(MAX_CHANGED):
        old = _read(path)
        there = digest.marks_in(_text(old or b""))
        blocks = [
            digest.block_of(os.path.basename(target), file.day, notes[file.path], file.fresh)
            for file, target in ready
            if any(part.mark not in there for part in file.fresh)
        ]
        more = digest.addition(_text(old or b""), month, blocks)
        if not more or _replaced(path, old, (old or b"") + more.encode("utf-8", "replace")):
            return
    raise MemsearchError(
        f"{path} is saved again and again by somebody else",
        kind=ErrorClass.BUSY,
        hint="the journals are where they were; call compact again",
    )


def _check(path: str, ready: Sequence[tuple[File, str]], notes: dict[str, list[str]]) -> None:
    """Read the digest again: does it stand for every part of every journal?

    Raises:
        MemsearchError: ``BAD_ANSWER``; nothing was moved.
    """
    text = _text(_read(path) or b"")
    marks = digest.marks_in(text)
    noted = {
        mark
        for block in digest.blocks_in(text)
        if digest.notes_in(text, block)
        for mark in block.marks
    }
    for file, _ in ready:
        lacking = [part for part in file.parts if part.mark not in marks]
        lacking += [part for part in file.entries() if part.mark not in noted]
        lacking += [part for part in file.fresh if part.kind == "own" and part.text not in text]
        if lacking or (file.entries() and not notes[file.path]):
            raise MemsearchError(
                f"the digest {path} does not stand for all of {file.path}",
                kind=ErrorClass.BAD_ANSWER,
                hint="nothing was moved; call compact again",
            )


def _replaced(path: str, old: bytes | None, data: bytes) -> bool:
    """Put a whole new file in the place of the old one; False when that is no longer ``old``."""
    folder = os.path.dirname(path)
    draft = os.path.join(folder, f"{TEMP_PREFIX}{os.getpid()}-{os.urandom(6).hex()}.tmp")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    try:
        try:
            if old is not None:
                os.fchmod(descriptor, stat.S_IMODE(os.stat(path).st_mode))
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if _read(path) != old:
            return False
        os.replace(draft, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)
    sync_folder(folder)
    return True


def _clear_drafts(folder: str) -> None:
    """What a killed writer of ours left; the lock says that none writes now."""
    for name in os.listdir(folder):
        if name.startswith(TEMP_PREFIX) and name.endswith(".tmp"):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, name))


def _make_archive(project: Project) -> None:
    os.makedirs(project.archive_dir, exist_ok=True)
    sync_folder(os.path.dirname(project.archive_dir))
    _clear_drafts(project.archive_dir)


def _free_name(folder: str, file: File, taken: set[str]) -> str:
    """Where a journal goes: its name, or with a number where that is another file's.

    A copy of it that a killed run across file systems has left there is taken for it.
    """
    stem, ending = os.path.splitext(file.name)
    number = 1
    while True:
        name = file.name if number == 1 else f"{stem}.{number}{ending}"
        path = os.path.join(folder, name)
        if path not in taken:
            there = _read(path) if not os.path.islink(path) else b""
            if there is None or _sha256(there) == file.sha256:
                return path
        number += 1


def _move(path: str, target: str) -> None:
    """One rename; across file systems a whole copy first."""
    try:
        os.rename(path, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        data, mode = _read(path), stat.S_IMODE(os.stat(path).st_mode)
        if data is None or (_read(target) != data and not _replaced(target, None, data)):
            raise
        os.chmod(target, mode)
        if _read(path) == data:  # somebody may have saved it at this moment
            os.unlink(path)


def _taken_back(path: str, target: str) -> bool:
    """Undo a move, unless there is a new file in the old place."""
    try:
        os.link(target, path)  # a rename would replace what is there
    except OSError:
        return False
    os.unlink(target)
    return True


def _read(path: str) -> bytes | None:
    """A file's bytes; None where there is none.

    Raises:
        MemsearchError: It cannot be read.
    """
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise error_of(error, path) from error


def _text(data: bytes) -> str:
    return decode(data)[0]


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# --------------------------------------------------------------------------- in the log


def _tell(
    engine: Engine,
    project: Project,
    month: str,
    moved: Sequence[tuple[File, str]],
    cause: str,
) -> None:
    """Write down what moved, send it through the index, and drop the answers that were kept."""
    stream = compact_stream(project.collection)
    kept = engine.log.rows(
        "SELECT p.event_id FROM payloads AS p JOIN events AS e ON e.id = p.event_id"
        " WHERE e.stream = ? AND substr(json_extract(e.data, '$.day'), 1, 7) = ?",
        (stream, month),
    )
    with engine.log.transaction() as tx:
        tx.append(
            Event(
                stream,
                EventType.COMPACTED,
                {
                    "project": project.root,
                    "month": month,
                    "cause": cause,
                    "moved": [os.path.basename(target) for _, target in moved],
                    "entries": sum(len(file.entries()) for file, _ in moved),
                },
            )
        )
        for row in kept:
            tx.drop_payload(row["event_id"])
        if moved:
            _send(tx, project, digest_path(project, month))
        for file, target in moved:
            _send(tx, project, target)
            _send(tx, project, file.path)


def _send(tx: Transaction, project: Project, path: str) -> None:
    """A document on its way through the index; one that is gone only if it was known."""
    source = source_of(project, path)
    stream = document_stream(project.collection, source)
    if not os.path.exists(path) and not tx.row(
        "SELECT 1 FROM documents WHERE stream = ? AND state <> 'removed'", (stream,)
    ):
        return
    tx.append(document_changed(project, source, path, "compact"))
    tx.add_task("chunk", stream)


# -------------------------------------------------------------------------- forgetting


@dataclass(frozen=True, slots=True)
class Said:
    """What a digest says of one journal: 1-based lines, inclusive, of its notes."""

    digest: str
    name: str
    lines: tuple[int, ...]


def said_of(project: Project, days: Iterable[str], has_text: Callable[[str], bool]) -> list[Said]:
    """The blocks of a project's digests that are about some days, or whose notes say something.

    Args:
        project: Whose digests.
        days: ``YYYY-MM-DD``.
        has_text: Whether a note says it.

    Raises:
        MemsearchError: A digest cannot be read.
    """
    wanted = set(days)
    found = []
    for name in _names(project.memory_dir):
        if not digest_month(name):
            continue
        path = os.path.join(project.memory_dir, name)
        text = (_read(path) or b"").decode("utf-8", "replace")
        lines = text.split("\n")
        for block in digest.blocks_in(text):
            notes = [n for n in range(block.start, block.end) if lines[n].startswith("- ")]
            about = str(journal_day(block.name)) in wanted
            if about or any(has_text(lines[n]) for n in notes):
                found.append(Said(path, block.name, tuple(n + 1 for n in notes)))
    return found


def say_anew(engine: Engine, project: Project, path: str, names: Iterable[str]) -> None:
    """Replace blocks of a digest by what the archive holds now; no model is asked.

    A block whose journal is gone, or says nothing any more, goes. For ``forget``, which has cut
    the archive before; the caller holds the journals' lock.

    Raises:
        MemsearchError: ``BUSY`` when somebody saves the digest again and again.
    """
    wanted = set(names)
    for _ in range(MAX_CHANGED):
        old = _read(path)
        if old is None:
            return
        text = old.decode("utf-8", "replace")
        gone = [block for block in digest.blocks_in(text) if block.name in wanted]
        left = digest.without_blocks(text, gone)
        blocks = [
            block for name in sorted(wanted) if (block := _plain_block(engine, project, name))
        ]
        month = digest_month(path)
        new = left + digest.addition(left, month, blocks)
        if _replaced(path, old, new.encode("utf-8", "replace")):
            return
    raise MemsearchError(f"{path} is saved again and again by somebody else", kind=ErrorClass.BUSY)


def _plain_block(engine: Engine, project: Project, name: str) -> str:
    data = _read(os.path.join(project.archive_dir, name))
    day = journal_day(name)
    if data is None or day is None:
        return ""
    parts = digest.parts_of(_text(data), day.isoformat(), lambda entry: _is_edited(engine, entry))
    entries = [part for part in parts if part.kind == "entry"]
    settings = engine.settings(project.root)
    notes = [
        clean_bullet(redact_text(note, settings.redact)) for note in digests.first_bullets(entries)
    ]
    return digest.block_of(name, day.isoformat(), notes, parts) if parts else ""
