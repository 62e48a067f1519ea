"""Texts of finished work leave; facts, and what still waits, stay."""

import pytest
from builders import appended, captured, died, summarized, write

from memsearch.pipeline import retention

NOW = 1_800_000_000.0
DAY = 86_400.0


def texts(log) -> set[str]:
    return {
        row["stream"] + " " + row["type"]
        for row in log.rows(
            "SELECT e.stream, e.type FROM payloads AS p JOIN events AS e ON e.id = p.event_id"
        )
    }


def test_only_what_ended_long_ago_is_dropped_and_its_facts_stay(log):
    old, new = NOW - 40 * DAY, NOW - 10 * DAY
    write(log, captured("old", old), summarized("old", old), appended("old", old))
    write(log, captured("new", new), summarized("new", new), appended("new", new))
    write(log, captured("dead", old), died("dead", old))
    write(log, captured("open", old))
    write(log, captured("late", old), summarized("late", old), appended("late", new))
    events = log.value("SELECT COUNT(*) FROM events")
    assert retention.drop_old_texts(log, 30, NOW) == 2
    assert "turn:codex:old TurnCaptured" not in texts(log)
    assert {text.split()[0] for text in texts(log)} == {
        "turn:codex:new",
        "turn:codex:dead",
        "turn:codex:open",
        "turn:codex:late",
    }
    assert log.value("SELECT COUNT(*) FROM events") == events
    assert log.value("SELECT state FROM turns WHERE turn = 'old'") == "done"


def test_more_than_a_batch_is_dropped_whole(log, monkeypatch):
    monkeypatch.setattr(retention, "BATCH", 3)
    old = NOW - 40 * DAY
    for number in range(8):
        write(log, captured(str(number), old), appended(str(number), old))
    assert retention.drop_old_texts(log, 30, NOW) == 8
    assert texts(log) == set()


@pytest.mark.parametrize("days", [0, -1])
def test_zero_days_keep_everything(log, days):
    write(log, captured("old", 0.0), appended("old", 0.0))
    assert retention.drop_old_texts(log, days, NOW) == 0


def test_a_dropped_text_is_not_in_the_file_any_more(log, tmp_path):
    event = captured("old", NOW - 40 * DAY)
    object.__setattr__(event, "body", "MARKER-OF-THE-TEXT" * 50)
    write(log, event, appended("old", NOW - 40 * DAY))
    retention.drop_old_texts(log, 30, NOW)
    log.checkpoint()
    data = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    assert b"MARKER-OF-THE-TEXT" not in data
