"""capture: a hook's pointer becomes the finished turns that the agent's own store holds."""

from __future__ import annotations

import dataclasses
import fnmatch
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from memsearch.config import project as projects
from memsearch.config import statedb
from memsearch.config.errors import ErrorClass, MemsearchError, passes
from memsearch.pipeline import messages, rules
from memsearch.pipeline.events import Event, EventType, turn_stream
from memsearch.pipeline.redact import reading as redacted_reading
from memsearch.pipeline.redact import redact, redact_turn
from memsearch.pipeline.retry import SETTLE_SECONDS
from memsearch.pipeline.stages.append import project_data
from memsearch.pipeline.summarizers.prompt import is_ours
from memsearch.pipeline.trivial import agent_files, is_trivial
from memsearch.pipeline.turn_codec import dump_turn
from memsearch.sources import registry
from memsearch.sources.base import Item, Pointer, Reading, Turn
from memsearch.sources.cleaning import clean
from memsearch.sources.tail import FOLLOWED, GREW, RESTS, settled
from memsearch.sources.window import with_meant

if TYPE_CHECKING:
    from memsearch.config.project import Project
    from memsearch.pipeline.engine import Engine
    from memsearch.pipeline.log import EventLog, Transaction

#: Events that say that the hooked turn has ended; an unnamed event is taken for one.
TURN_ENDS = frozenset({"", "Stop", "Interrupt", "agent_end", "session.idle"})
#: Of them, those after which the turn ended by itself: nobody interrupted it.
STOPS = frozenset({"", "Stop"})
#: Reasons to skip a turn that lie in the settings, not in the turn.
CAPTURE_OFF = "capture is off"
EXCLUDED = "project is excluded"
#: How long a turn may have run before memsearch was installed in the middle of it.
LONGEST_TURN = timedelta(days=1)
#: Later than any turn: only the one that is meant is read.
_NEVER = datetime(9000, 1, 1, tzinfo=UTC)
#: Characters of the last message by which it is known again in a transcript.
MESSAGE_PROBE_CHARS = 400


@dataclass(slots=True)
class Found:
    """What one look into an agent's store came to."""

    turns: list[Turn] = field(default_factory=list)
    path: str | None = None
    resume: int | None = None
    inode: int | None = None
    unknown: dict[str, int] = field(default_factory=dict)
    reason: str = ""
    #: The reading was bounded: the rest is read next, from where it ended.
    more: bool = False


def capture(engine: Engine, stream: str) -> None:
    """Capture the hooked turn and every finished one before it that was missed.

    Args:
        engine: The engine.
        stream: The hook's stream.
    """
    row = engine.row("capture", stream)
    if row is None:
        return
    with engine.failing("capture", row):
        event = engine.log.row("SELECT * FROM events WHERE id = ?", (row["event_id"],))
        if event is None:
            raise MemsearchError("the hook is not in the log", kind=ErrorClass.BUG)
        data = json.loads(event["data"])
        rules.check_capture(engine, row["event_id"])
        message = messages.take(engine.log, row["event_id"], engine.settings().redact)
        last_look = int(row["attempts"]) >= len(SETTLE_SECONDS)
        found = look(engine, data, message, last_look, datetime.fromisoformat(event["at"]))
        events = [event for turn in found.turns for event in decide(engine, data, turn)]
        with engine.commit(row) as tx:
            if tx is None:
                return
            captured = append_new(tx, events)
            if found.more:
                tx.add_task("capture", stream)
            else:
                # What the hook carried is in the turn by now.
                tx.drop_payload(row["event_id"])
            tx.append(
                Event(
                    stream,
                    EventType.HOOK_CAPTURED,
                    {
                        "platform": data["platform"],
                        "path": os.path.realpath(found.path) if found.path else None,
                        "inode": found.inode,
                        "resume": found.resume,
                        "captured": captured,
                        "more": found.more,
                        "unknown": found.unknown,
                        "reason": found.reason,
                    },
                )
            )


def append_new(tx: Transaction, events: Iterable[Event]) -> int:
    """Write the turns that are not known yet, and queue their summaries.

    A turn that the log knows in any state, forgotten or discarded ones too, is left alone.

    Returns:
        How many were captured (and not skipped).
    """
    captured = 0
    for event in events:
        if is_known(tx, event.stream, event.data):
            continue
        tx.append(event)
        if event.type is EventType.TURN_CAPTURED:
            captured += 1
            tx.add_task("summarize", event.stream)
    return captured


def is_known(log: Transaction | EventLog, stream: str, facts: Mapping[str, Any]) -> bool:
    """Whether the log knows a turn: by its stream, or a copy by when it was said.

    Args:
        log: Where to look.
        stream: The turn's.
        facts: ``platform``, ``at`` and ``copied``, as :func:`decide` gives them.
    """
    if log.row("SELECT 1 FROM turns WHERE stream = ?", (stream,)) is not None:
        return True
    sql = "SELECT 1 FROM turns WHERE platform = ? AND at = ?"
    values = (facts["platform"], facts["at"])
    return bool(facts.get("copied")) and log.row(sql, values) is not None


def moment(turn: Turn) -> str:
    """When a turn began, as the log has it."""
    return turn.at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def look(
    engine: Engine, data: Mapping[str, Any], message: str | None, last_look: bool, at: datetime
) -> Found:
    """Read what the hook points to.

    Args:
        engine: The engine.
        data: The data of ``HookReceived``.
        message: The agent's last message, where the hook had it.
        last_look: The transcript is not waited for any longer.
        at: When the hook came.

    Raises:
        MemsearchError: ``NOT_YET`` while the transcript does not hold the turn;
            ``BAD_FILE`` when it never did.
    """
    event = str(data.get("event", ""))
    ends = event in TURN_ENDS
    source = registry.get(data["platform"])
    if event == FOLLOWED:
        return Found(reason="the agent is followed from now on")
    if data.get("agent") and source.agent_is_subagent:
        return Found(reason="subagent")
    path = data.get("path") or source.locate(
        data.get("session", ""), data.get("env") or {}, data.get("agent", "")
    )
    if not path:
        return Found(reason="no transcript")  # a session that its agent does not keep
    pointer = Pointer(
        platform=data["platform"],
        session=data.get("session", ""),
        path=path,
        turn=data.get("turn") if ends else None,
        cwd=data.get("cwd"),
        event=event,
        extra=data.get("env") or {},
        # A file is looked at from where the last look ended: every turn since then is read.
        at=None if source.resumable else at,
    )
    message = clean(message) if message else message
    try:
        inode = os.stat(path).st_ino
        with redacted_reading(engine.settings().redact):
            reading = read(engine, pointer, inode)
            if ends and not source.resumable:
                pointer, reading = _named(engine, pointer, reading, message, last_look)
    except (OSError, MemsearchError) as error:
        missing = not os.path.exists(path)
        if missing and not ends:
            return Found(reason="no transcript")  # a session without a word has no file
        if missing and not last_look:
            raise MemsearchError(
                f"the transcript {path} is not there yet", kind=ErrorClass.NOT_YET
            ) from error
        if isinstance(error, MemsearchError):
            raise
        raise MemsearchError(
            f"the transcript {path} cannot be read: {error.strerror}",
            kind=ErrorClass.BUSY if passes(error) else ErrorClass.BAD_FILE,
            hint="put it back, then memsearch dead-letter replay",
        ) from error
    if reading.foreign:
        return Found(path=path, reason="not the user's conversation")
    turns = list(reading.turns)
    if event == RESTS:
        turns = [settled(turn) for turn in turns]
    if ends and not reading.more:
        pointer = _by_its_words(engine, pointer, turns, message, last_look)
        turns = settle(turns, pointer, message, last_look, known=_known(engine, pointer))
    return Found(
        turns=[turn for turn in turns if turn.state != "open"],
        path=path,
        resume=reading.resume if source.resumable else None,
        inode=inode,
        more=reading.more,
        unknown=dict(reading.unknown) | {f"line: {k}": v for k, v in reading.skipped.items()},
    )


def read(engine: Engine, pointer: Pointer, inode: int) -> Reading:
    """Read on from where the last look ended; from the tail where that does not hold the turn."""
    source = registry.get(pointer.platform)
    not_before = first_hook(engine, pointer.platform)
    if not source.resumable:
        return _read_session(engine, pointer, not_before)
    known = engine.log.row(
        "SELECT * FROM transcripts WHERE path = ?", (os.path.realpath(pointer.path),)
    )
    if known is not None and known["inode"] == inode:
        reading = source.read(
            pointer, start=known["resume"], not_before=not_before, is_ours=is_ours
        )
        if pointer.turn is None or hooked_turn(reading.turns, pointer) is not None:
            return reading
        if _known(engine, pointer):
            return reading
    return source.read(pointer, start=None, not_before=not_before, is_ours=is_ours)


def _read_session(engine: Engine, pointer: Pointer, not_before: datetime) -> Reading:
    """Read a session of a database that holds many, from the last turn that was captured of it.

    Before the first one the turn counts in which the session's first hook was sent: it began
    before memsearch heard of the session, maybe of the agent, and the hook of its end may have
    been lost, or come when more turns have ended.
    """
    source = registry.get(pointer.platform)
    last = _last_known(engine, pointer)
    reading = source.read(
        pointer, start=None, not_before=max(not_before, last or not_before), is_ours=is_ours
    )
    turns = list(reading.turns)
    if last is None and not reading.foreign:
        first = _first_of_session(engine, pointer, not_before)
        if first is not None:
            began = source.read(first, start=None, not_before=_NEVER, is_ours=is_ours)
            named = first.turn is None or began.find(first.turn) is not None
            if not named:
                first = dataclasses.replace(first, turn=None)
                began = source.read(first, start=None, not_before=_NEVER, is_ours=is_ours)
            turns = with_meant(turns, hooked_turn(began.turns, first))
    if reading.more:
        # A hooked turn beyond the end of this reading comes with the next one, in its order.
        turns = [turn for turn in turns if turn.position < reading.resume]
    return dataclasses.replace(reading, turns=tuple(turns))


def _first_of_session(engine: Engine, pointer: Pointer, heard: datetime) -> Pointer | None:
    """A session's first hook, where it may have come out of a turn that is older than the agent.

    Args:
        engine: The engine.
        pointer: A hook of the session.
        heard: When memsearch first heard of the agent.
    """
    if pointer.at is None or pointer.at > heard + LONGEST_TURN:
        return None
    row = engine.log.row(
        "SELECT at, data FROM events WHERE type = ? AND at <= ?"
        " AND json_extract(data, '$.platform') = ? AND json_extract(data, '$.session') = ?"
        " AND COALESCE(json_extract(data, '$.event'), '') NOT IN (?, ?) ORDER BY seq LIMIT 1",
        (
            EventType.HOOK_RECEIVED,
            statedb.utc_now((heard + LONGEST_TURN).timestamp()),
            pointer.platform,
            pointer.session,
            GREW,
            RESTS,
        ),
    )
    if row is None:
        return None
    turn = json.loads(row["data"]).get("turn")
    return dataclasses.replace(pointer, turn=turn, at=datetime.fromisoformat(row["at"]))


def _named(
    engine: Engine, pointer: Pointer, reading: Reading, message: str | None, last_look: bool
) -> tuple[Pointer, Reading]:
    """What a hook means whose turn's name a database does not hold, with what was read for it.

    OpenClaw names the run, which only an answer carries: a turn that was aborted before it got
    one cannot be found by it, nor can any turn of a release that does not write it.
    """
    named = pointer.turn is None or reading.find(pointer.turn) is not None
    if named or reading.more or reading.foreign or _known(engine, pointer):
        return pointer, reading
    nameless = dataclasses.replace(pointer, turn=None)
    other = read(engine, nameless, 0)
    turn = hooked_turn(other.turns, nameless)
    answered = turn is not None and turn.state != "open" and bool(message)
    if last_look or (answered and turn is not None and holds(turn, message or "")):
        return nameless, other
    return pointer, reading


def _by_its_words(
    engine: Engine, pointer: Pointer, turns: list[Turn], message: str | None, last_look: bool
) -> Pointer:
    """A hook without a turn's id that came when the next turn had begun: its words tell.

    An answer may be said twice, and the second time not be written yet. So a turn that is
    captured already is meant only when the one after it has been waited for.
    """
    hooked = hooked_turn(turns, pointer)
    if pointer.turn is not None or not message or hooked is None or hooked.state != "open":
        return pointer
    for turn in reversed(turns):
        named = dataclasses.replace(pointer, turn=turn.id)
        if turn.state != "open" and holds(turn, message):
            return named if last_look or not _known(engine, named) else pointer
    return pointer


def first_hook(engine: Engine, platform: str) -> datetime:
    """When memsearch first heard of an agent: what began before is left to ``backfill``."""

    def ask() -> datetime:
        at = engine.log.value("SELECT MIN(at) FROM hooks WHERE platform = ?", (platform,))
        return datetime.fromisoformat(at) if at else datetime.now(UTC)

    first: datetime = engine.part(("first hook", platform), ask)
    return first


def _last_known(engine: Engine, pointer: Pointer) -> datetime | None:
    """When the last turn began that was captured of a session."""
    at = engine.log.value(
        "SELECT MAX(at) FROM turns WHERE platform = ? AND session = ?",
        (pointer.platform, pointer.session),
    )
    return datetime.fromisoformat(at) if at else None


def _known(engine: Engine, pointer: Pointer) -> bool:
    return (
        pointer.turn is not None
        and engine.log.row(
            "SELECT 1 FROM turns WHERE stream = ?", (turn_stream(pointer.platform, pointer.turn),)
        )
        is not None
    )


def hooked_turn(turns: Iterable[Turn], pointer: Pointer) -> Turn | None:
    """The turn that the hook was about: by its id, else the last one that had begun by then."""
    last = meant = None
    for turn in turns:
        if pointer.means(turn):
            if pointer.turn is not None:
                return turn
            meant = turn
        last = turn
    return (meant or last) if pointer.turn is None else None


def settle(
    turns: list[Turn], pointer: Pointer, message: str | None, last_look: bool, known: bool
) -> list[Turn]:
    """See to it that the hooked turn is whole: waited for, or completed from the payload. Pure.

    Args:
        turns: As the transcript has them now.
        pointer: The hook.
        message: The agent's last words from the hook; they may not be in the file yet.
        last_look: No more waiting.
        known: The hooked turn has been captured before.

    Raises:
        MemsearchError: ``NOT_YET``, or ``BAD_FILE`` when it is the last look and the turn
            is not there.
    """
    turn = hooked_turn(turns, pointer)
    if turn is None:
        if known:
            return turns
        what = f"turn {pointer.turn}" if pointer.turn else "a turn"
        if last_look:
            raise MemsearchError(
                f"{pointer.path} does not hold {what}",
                kind=ErrorClass.BAD_FILE,
                hint="memsearch dead-letter replay looks again",
            )
        raise MemsearchError(f"{pointer.path} does not hold {what} yet", kind=ErrorClass.NOT_YET)
    # A private turn has no words, and gets none from the payload.
    whole = turn.private or (turn.state != "open" and (not message or holds(turn, message)))
    if whole or known:
        return turns
    if not last_look:
        raise MemsearchError(
            f"{pointer.path} does not hold the end of turn {turn.id} yet", kind=ErrorClass.NOT_YET
        )
    items = turn.items
    if message and not holds(turn, message):
        items = (*items, Item("assistant", message))
    completed = dataclasses.replace(turn, items=items)
    if turn.state == "open":
        # "Stop" says that it ended by itself; after other events its last step tells.
        by_itself = pointer.event in STOPS
        completed = (
            dataclasses.replace(completed, state="finished") if by_itself else settled(completed)
        )
    return [completed if each is turn else each for each in turns]


def holds(turn: Turn, message: str) -> bool:
    """Whether the agent's last message is among the turn's assistant texts."""
    probe = " ".join(message.split())[:MESSAGE_PROBE_CHARS]
    texts = [item.text for item in turn.items if item.kind == "assistant"]
    if not probe or probe in " ".join(" ".join(text.split()) for text in texts):
        return True
    # The message comes redacted, the transcript does not.
    return "[redacted:" in probe and probe in " ".join(
        " ".join(redact(text).text.split()) for text in texts
    )


def decide(engine: Engine, data: Mapping[str, Any], turn: Turn) -> list[Event]:
    """What becomes of a turn: captured, or skipped for a reason that is counted.

    Args:
        engine: The engine.
        data: What a hook said: ``cwd`` and ``env``, where the turn does not say it itself.
        turn: As its source read it.

    Returns:
        The event to write, the text redacted.
    """
    project = project_for(engine, turn.cwd, data.get("cwd"), data.get("env") or {})
    local = turn.at.astimezone()
    facts: dict[str, Any] = {
        "platform": turn.platform,
        "turn": turn.id,
        "session": turn.session,
        "project": project_data(project),
        "day": local.strftime("%Y-%m-%d"),
        "time": local.strftime("%H:%M"),
        "at": moment(turn),
        "position": turn.position,
        "path": next(iter(turn.anchor.values()), None),
    }
    if turn.copied:
        facts["copied"] = True
    stream = turn_stream(turn.platform, turn.id)
    rules.check(engine, "capture", project.root)
    settings = engine.settings(project.root)
    reason = ""
    if not settings.capture.enabled:
        reason = CAPTURE_OFF
    elif excluded(project.root, settings.capture.exclude):
        reason = EXCLUDED
    elif turn.private:
        reason = "private"
    else:
        reason = is_trivial(turn, agent_files(project.root)) or ""
    if reason:
        return [Event(stream, EventType.TURN_SKIPPED, facts | {"reason": reason})]
    clean, counts = redact_turn(turn, settings.redact)
    facts |= {
        "state": turn.state,
        "items": len(turn.items),
        "truncated": turn.truncated,
        "redacted": counts,
    }
    return [Event(stream, EventType.TURN_CAPTURED, facts, body=dump_turn(clean))]


def excluded(root: str, patterns: Iterable[str]) -> bool:
    """Whether a project is among those that are never captured (globs on its path)."""
    for pattern in patterns:
        pattern = os.path.expanduser(pattern).rstrip("/")
        if fnmatch.fnmatchcase(root, pattern) or root.startswith(pattern + "/"):
            return True
    return False


def project_for(
    engine: Engine, turn_cwd: str | None, hook_cwd: str | None, environ: Mapping[str, str]
) -> Project:
    """The project of a turn.

    The records' working directory wins, since that is where the turn ran; but a transcript
    may come from elsewhere (copied, or its folder moved), so a folder that does not exist
    gives way to the hook's.
    """
    candidates = [cwd for cwd in (turn_cwd, hook_cwd) if cwd]
    cwd = next((cwd for cwd in candidates if os.path.isdir(cwd)), None)
    if cwd is None:
        cwd = candidates[0] if candidates else engine.home.root
    settings = engine.settings()
    where = {name: environ[name] for name in ("MEMSEARCH_DIR", "HOME") if name in environ}
    where["MEMSEARCH_HOME"] = engine.home.root
    return projects.resolve(
        cwd,
        where,
        isolate_worktrees=settings.project.isolate_worktrees,
        collections={
            path: override.collection
            for path, override in settings.projects.items()
            if override.collection
        },
    )
