"""What each event adds up to, one by one; ``test_log`` holds a rebuild to the same."""

from typing import Any

import pytest
from builders import PROJECT, captured, died, failed, stream, write

from memsearch.pipeline.events import Event, EventType
from memsearch.pipeline.log import EventLog
from memsearch.pipeline.projections import table_of

DOC = "doc:c/notes.md"
HOOK = "hook:" + "1" * 32
USAGE = {"day": "2026-03-03", "project": "/w", "provider": "openai", "tokens_in": 7}


def changed(**more: Any) -> Event:
    facts = {"collection": "c", "source": "notes.md", "path": "/w/notes.md", "project": PROJECT}
    return Event(DOC, EventType.DOCUMENT_CHANGED, facts | more)


def document(log: EventLog, kind: EventType, **facts: Any) -> Event:
    """An event about the document's present change."""
    change = log.value("SELECT change FROM documents WHERE stream = ?", (DOC,))
    return Event(DOC, kind, {"change": change} | facts)


def row(log: EventLog, of: str, *columns: str) -> tuple[Any, ...]:
    found = log.row(f"SELECT * FROM {table_of(of)} WHERE stream = ?", (of,))
    assert found is not None
    return tuple(found[name] for name in columns)


def test_a_hook_is_done_once_all_of_its_transcript_is_read(log):
    with log.transaction() as tx:
        tx.insert_hook({"id": "1" * 32, "at": "2026-03-03T10:00:00Z", "data": {"platform": "x"}})
    read = {"platform": "codex", "path": "/t", "inode": 5, "resume": 90}
    write(log, Event(HOOK, EventType.HOOK_CAPTURED, read | {"more": True}))
    assert row(log, HOOK, "state", "stage") == ("open", "capture")
    write(log, Event(HOOK, EventType.HOOK_CAPTURED, read | {"resume": 120}))
    assert row(log, HOOK, "state", "stage") == ("done", "done")
    assert log.value("SELECT resume FROM transcripts WHERE path = '/t'") == 120
    assert log.value("SELECT succeeded FROM progress WHERE stage = 'capture'")


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], ("open", "summarize", 0, None, None)),
        ([failed("a", 9.0, "server", 2, 77.0)], ("open", "summarize", 2, "server", "it broke")),
        ([died("a", 9.0, "refused")], ("dead", "summarize", 5, "refused", "it broke")),
        (
            [died("a", 9.0), Event(stream("a"), EventType.REPLAYED, {})],
            ("open", "summarize", 0, None, None),
        ),
        (
            [died("a", 9.0), Event(stream("a"), EventType.DISCARDED, {})],
            ("discarded", "summarize", 5, "server", "it broke"),
        ),
        (
            [failed("a", 9.0), Event(stream("a"), EventType.TURN_SUMMARIZED, {}, body="[]")],
            ("open", "append", 0, None, None),
        ),
        (
            [failed("a", 9.0), Event(stream("a"), EventType.TURN_APPENDED, {})],
            ("done", "done", 0, None, None),
        ),
        (
            [failed("a", 9.0), Event(stream("a"), EventType.TURN_FORGOTTEN, {})],
            ("forgotten", "done", 1, None, None),
        ),
        (
            [failed("a", 9.0), Event(stream("a"), EventType.BUDGET_PAUSED, {"due": 99.0})],
            ("open", "summarize", 1, "budget", None),
        ),
    ],
)
def test_a_turn(log, events, expected):
    write(log, captured("a"), *events)
    columns = ("state", "stage", "attempts", "error_class", "error")
    assert row(log, stream("a"), *columns) == expected


@pytest.mark.parametrize(
    ("event", "due"),
    [
        (failed("a", 9.0, due=77.0), 77.0),
        (Event(stream("a"), EventType.BUDGET_PAUSED, {"due": 99.0}), 99.0),
        (died("a", 9.0), None),
        (Event(stream("a"), EventType.DISCARDED, {}), None),
        (Event(stream("a"), EventType.REPLAYED, {}), None),
    ],
)
def test_when_a_turn_is_due(log, event, due):
    write(log, captured("a"), failed("a", 5.0, due=50.0), event)
    assert row(log, stream("a"), "due") == (due,)


def test_a_project_is_known_by_a_turn_that_goes_into_it(log):
    skipped = {"platform": "codex", "turn": "s", "session": "s", "project": PROJECT}
    write(log, Event(stream("s"), EventType.TURN_SKIPPED, skipped | {"reason": "private"}))
    assert row(log, stream("s"), "state", "reason") == ("skipped", "private")
    assert log.value("SELECT COUNT(*) FROM projects") == 0
    write(log, captured("a"))
    assert log.value("SELECT root FROM projects") == "/w"


def test_a_turn_that_was_never_captured_is_forgotten_too(log):
    write(log, Event(stream("new"), EventType.TURN_FORGOTTEN, {"session": "s"}))
    assert row(log, stream("new"), "state", "turn", "session") == ("forgotten", "new", "s")


def test_a_document_goes_through_its_stages(log):
    write(log, changed())
    assert row(log, DOC, "state", "stage", "project") == ("open", "chunk", "/w")
    assert log.value("SELECT memory_dir FROM projects") == PROJECT["memory_dir"]
    told = {"mtime_ns": 5, "size": 6, "hash": "h", "chunks": 3}
    write(log, document(log, EventType.DOCUMENT_CHUNKED, **told))
    assert row(log, DOC, "stage", "hash", "chunks") == ("embed", "h", 3)
    write(log, document(log, EventType.DOCUMENT_EMBEDDED, usage=USAGE))
    assert row(log, DOC, "state", "stage") == ("open", "upsert")
    write(log, document(log, EventType.DOCUMENT_INDEXED, **told, identity="m/1"))
    columns = ("state", "stage", "indexed_hash", "indexed_size", "identity")
    assert row(log, DOC, *columns) == ("done", "done", "h", 6, "m/1")
    stages = {each["stage"] for each in log.rows("SELECT stage FROM progress")}
    assert stages == {"chunk", "embed", "upsert"}
    assert log.value("SELECT tokens_in FROM usage") == 7
    # Gone: nothing of it is said to be in the index.
    write(log, changed())
    write(log, document(log, EventType.DOCUMENT_REMOVED))
    columns = ("state", "stage", "indexed_hash", "indexed_at", "chunks")
    assert row(log, DOC, *columns) == ("removed", "done", None, None, 0)


def test_work_for_an_older_change_says_nothing(log):
    write(log, changed())
    old = document(log, EventType.DOCUMENT_CHUNKED, hash="old", chunks=1)
    write(log, changed(), old)
    assert row(log, DOC, "stage", "hash") == ("chunk", None)


def test_force_takes_away_what_is_said_of_the_index(log):
    write(log, changed())
    write(log, document(log, EventType.DOCUMENT_INDEXED, hash="h", identity="m/1"))
    write(log, changed())
    assert row(log, DOC, "indexed_hash", "identity") == ("h", "m/1")
    write(log, changed(force=True))
    assert row(log, DOC, "indexed_hash", "identity") == (None, None)


def test_a_document_that_waits_for_its_cost_says_so(log):
    write(log, changed())
    write(log, Event(DOC, EventType.BUDGET_PAUSED, {"stage": "embed", "reason": "cost"}))
    assert row(log, DOC, "state", "error_class", "due") == ("open", "cost", None)


def test_tokens_add_up_by_day_project_and_provider(log):
    spent = Event(stream("a"), EventType.TURN_SUMMARIZED, {"usage": USAGE}, body="[]")
    guessed = USAGE | {"tokens_in": 5, "tokens_out": 2, "estimated": True}
    data = {"stage": "summarize", "error_class": "server", "attempt": 1, "usage": guessed}
    write(log, captured("a"), Event(stream("a"), EventType.STAGE_FAILED, data, body="x"), spent)
    for kind in (EventType.DIGEST_SUMMARIZED, EventType.COMPACT_FAILED):
        write(log, Event("compact:c", kind, {"usage": USAGE | {"provider": "native"}}))
    found = log.rows("SELECT * FROM usage ORDER BY provider")
    columns = ("provider", "calls", "tokens_in", "tokens_out", "estimated")
    assert [tuple(each[name] for name in columns) for each in found] == [
        ("native", 2, 14, 0, 0),
        ("openai", 2, 12, 2, 1),
    ]


def test_a_success_clears_the_stage_s_error(log):
    write(log, captured("a"), failed("a", 9.0))
    assert log.value("SELECT error FROM progress WHERE stage = 'summarize'") == "it broke"
    write(log, Event(stream("a"), EventType.TURN_SUMMARIZED, {}, body="[]"))
    assert log.value("SELECT error FROM progress WHERE stage = 'summarize'") is None
    write(log, Event("compact:c", EventType.COMPACTED, {}))
    assert log.value("SELECT succeeded FROM progress WHERE stage = 'compact'")
