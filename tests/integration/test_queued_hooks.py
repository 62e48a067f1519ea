"""Hooks of one session that queue up before a worker runs: every turn that ended, once each."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memsearch.config import statedb
from memsearch.config.paths import Home
from memsearch.pipeline.engine import Engine
from memsearch.pipeline.log import EventLog
from memsearch.pipeline.retry import SETTLE_SECONDS
from memsearch.pipeline.stages.capture import capture

#: When the first turn begins; all other times are seconds after it.
BEGIN = datetime(2026, 3, 5, 9, 0, tzinfo=UTC)
SESSION = "ses-1"


def stamp(second: float) -> int:
    """A moment as both agents write it: milliseconds since the epoch."""
    return int((BEGIN + timedelta(seconds=second)).timestamp() * 1000)


class OpenClaw:
    """OpenClaw's database of one agent, written turn by turn."""

    platform = "openclaw"
    ends = "agent_end"

    def __init__(self, root: Path, project: Path) -> None:
        self.path = root / ".openclaw" / "agents" / "main" / "agent" / "openclaw-agent.sqlite"
        self.path.parent.mkdir(parents=True)
        self.seq = 0
        with closing(sqlite3.connect(self.path)) as db, db:
            db.execute(
                "CREATE TABLE transcript_events"
                "(session_id TEXT, seq INTEGER, event_json TEXT, event_zstd BLOB, created_at)"
            )
        self.put({"type": "session", "id": SESSION, "cwd": str(project)}, 0)

    def put(self, event: dict[str, Any], second: float) -> None:
        with closing(sqlite3.connect(self.path)) as db, db:
            db.execute(
                "INSERT INTO transcript_events VALUES (?, ?, ?, NULL, ?)",
                (SESSION, self.seq, json.dumps(event), stamp(second)),
            )
        self.seq += 1

    def ask(self, turn: str, second: float, words: str = "") -> None:
        message = {
            "role": "user",
            "content": words or f"Why does step {turn} fail on the build machine?",
            "timestamp": stamp(second),
            # Not the run's id: OpenClaw's command line makes one of its own.
            "idempotencyKey": f"key-{turn}:user",
        }
        self.put({"type": "message", "id": turn, "message": message}, second)

    def answer(self, turn: str, second: float) -> None:
        message = {
            "role": "assistant",
            "content": [{"type": "text", "text": words_of(turn)}],
            "stopReason": "stop",
            "timestamp": stamp(second),
            "__openclaw": {"runId": self.name(turn)},
        }
        self.put({"type": "message", "id": f"a-{turn}", "message": message}, second)

    def name(self, turn: str) -> str:
        """How its plugin names a turn."""
        return f"run-{turn}"


class OpenCode:
    """OpenCode's database, written turn by turn."""

    platform = "opencode"
    ends = "session.idle"

    def __init__(self, root: Path, project: Path) -> None:
        self.path = root / ".local" / "share" / "opencode" / "opencode.db"
        self.path.parent.mkdir(parents=True)
        with closing(sqlite3.connect(self.path)) as db, db:
            db.execute("CREATE TABLE session(id, parent_id, directory, time_created, time_updated)")
            db.execute("CREATE TABLE message(id, session_id, time_created, data)")
            db.execute("CREATE TABLE part(id, message_id, session_id, data)")
            made = (SESSION, str(project), stamp(-1_000_000))
            db.execute("INSERT INTO session VALUES (?, NULL, ?, ?, 0)", made)

    def put(self, name: str, data: dict[str, Any], text: str, second: float) -> None:
        data["time"] = {"created": stamp(second)} | data.get("time", {})
        part = json.dumps({"type": "text", "text": text})
        with closing(sqlite3.connect(self.path)) as db, db:
            row = (name, SESSION, stamp(second), json.dumps(data))
            db.execute("INSERT INTO message VALUES (?, ?, ?, ?)", row)
            db.execute("INSERT INTO part VALUES (?, ?, ?, ?)", (f"p-{name}", name, SESSION, part))

    def ask(self, turn: str, second: float, words: str = "") -> None:
        words = words or f"Why does step {turn} fail on the build machine?"
        self.put(turn, {"role": "user"}, words, second)

    def answer(self, turn: str, second: float) -> None:
        done = {"time": {"completed": stamp(second)}, "finish": "stop"}
        data = {"role": "assistant", "parentID": turn, **done}
        self.put(f"a-{turn}", data, words_of(turn), second)

    def name(self, turn: str) -> str:
        """How its plugin names a turn."""
        return turn


def words_of(turn: str) -> str:
    """The agent's answer in a turn."""
    return f"Step {turn} fails because its cache is stale."


class Machine:
    """A home with a log, and one agent on it."""

    def __init__(self, root: Path, agent: Callable[[Path, Path], OpenClaw | OpenCode]) -> None:
        (root / "memory home").mkdir()
        project = root / "app"
        project.mkdir()
        self.log = EventLog(str(root / "memory home" / "state.db"))
        self.engine = Engine(Home(str(root / "memory home")), {"HOME": str(root)}, self.log)
        self.agent = agent(root, project)

    def turn(self, name: str, begins: float, ends: float) -> None:
        self.agent.ask(name, begins)
        self.agent.answer(name, ends)

    def hook(self, event: str, second: float, turn: str = "", message: str = "") -> str:
        """A hook as ``enqueue`` writes it; its stream."""
        data: dict[str, object] = {"platform": self.agent.platform, "session": SESSION}
        data |= {"event": event, "path": str(self.agent.path), "env": {}}
        if turn:
            data["turn"] = self.agent.name(turn)
        at = (BEGIN + timedelta(seconds=second)).timestamp()
        record = {"id": statedb.new_id(), "at": statedb.utc_now(at), "data": data}
        with self.log.transaction() as tx:
            tx.insert_hook(record | {"message": message or None})
        return f"hook:{record['id']}"

    def end(self, second: float, turn: str = "", message: str = "") -> str:
        return self.hook(self.agent.ends, second, turn, message)

    def capture(self, stream: str) -> None:
        """A worker's looks, without the waits between them."""
        for _ in range(len(SETTLE_SECONDS) + 20):
            self.look(stream)
            row = self.log.row("SELECT state, error FROM hooks WHERE stream = ?", (stream,))
            assert row is not None
            if row["state"] != "open":
                break
        assert (row["state"], row["error"]) == ("done", None)

    def look(self, stream: str) -> None:
        """One of them."""
        with self.log.transaction() as tx:
            tx.execute("UPDATE hooks SET due = NULL WHERE stream = ?", (stream,))
        capture(self.engine, stream)

    def turns(self) -> list[str]:
        """Every captured turn, as often as it was captured."""
        rows = self.log.rows("SELECT data FROM events WHERE type = 'TurnCaptured' ORDER BY seq")
        return [json.loads(row["data"])["turn"] for row in rows]

    def state(self, turn: str) -> str:
        rows = self.log.rows("SELECT data FROM events WHERE type = 'TurnCaptured'")
        facts = [json.loads(row["data"]) for row in rows]
        return next(str(each["state"]) for each in facts if each["turn"] == turn)

    def close(self) -> None:
        self.engine.close()
        self.log.close()


@pytest.fixture(params=[OpenClaw, OpenCode], ids=["openclaw", "opencode"])
def machine(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Machine]:
    made = Machine(tmp_path, request.param)
    yield made
    made.close()


NAMES = ["t1", "t2", "t3"]


@pytest.mark.parametrize("order", ["0123", "3210", "1302", "2031"])
@pytest.mark.parametrize("names", ["named", "by their words", "nameless"])
def test_each_turn_is_captured_once_whatever_waits_and_in_any_order(
    machine: Machine, order: str, names: str
) -> None:
    # The first turn begins before memsearch has heard of the agent: its own first hook comes
    # when it is already under way.
    hooks = []
    for number, name in enumerate(NAMES):
        machine.turn(name, number * 100, number * 100 + 40)
        if number == 0:
            hooks.append(machine.hook("SessionStart", 10, name if names == "named" else ""))
        message = words_of(name) if names == "by their words" else ""
        hooks.append(machine.end(number * 100 + 41, name if names == "named" else "", message))
    for index in order:
        machine.capture(hooks[int(index)])
    assert sorted(machine.turns()) == NAMES


@pytest.mark.parametrize("lost", [{"t1"}, {"t1", "t2"}, {"t2"}, {"t1", "t2", "t3"}])
def test_a_turn_whose_own_hook_was_lost_is_captured_with_another(
    machine: Machine, lost: set[str]
) -> None:
    for number, name in enumerate(NAMES):
        machine.turn(name, number * 100, number * 100 + 40)
    hooks = [machine.hook("SessionStart", 10)]
    hooks += [
        machine.end(number * 100 + 41, name)
        for number, name in enumerate(NAMES)
        if name not in lost
    ]
    for stream in reversed(hooks):
        machine.capture(stream)
    assert sorted(machine.turns()) == NAMES


def test_what_was_said_before_is_left_to_backfill(machine: Machine) -> None:
    machine.turn("old-1", -90_000, -89_990)
    machine.turn("old-2", -500, -490)
    machine.turn("t1", 0, 40)
    machine.turn("t2", 100, 140)
    hooks = [machine.hook("SessionStart", 10), machine.end(41, "t1"), machine.end(141, "t2")]
    for stream in hooks:
        machine.capture(stream)
    assert machine.turns() == ["t1", "t2"]


def test_a_turn_that_runs_is_not_taken_for_the_one_that_ended(machine: Machine) -> None:
    # A worker looks when the next turn has begun already, and its message lies in the store
    # from before the hook was written.
    machine.turn("t1", 0, 40)
    machine.agent.ask("t2", 40.5)
    machine.capture(machine.end(41, "t1", words_of("t1")))
    assert machine.turns() == ["t1"]
    machine.agent.answer("t2", 300)
    machine.capture(machine.end(301, "t2", words_of("t2")))
    assert machine.turns() == ["t1", "t2"]
    assert machine.state("t2") == "finished"


@pytest.mark.parametrize("said_before", [False, True])
def test_a_hook_without_a_name_is_known_by_its_words(machine: Machine, said_before: bool) -> None:
    if said_before:
        machine.turn("t0", -100, -60)
        machine.capture(machine.hook("SessionStart", -90))
        words = words_of("t0")  # the agent says the same again, and is not done writing it
        machine.agent.ask("t1", 0)
        stream = machine.end(41, "", words)
        machine.look(stream)
        assert machine.turns() == ["t0"]
        machine.agent.answer("t1", 40)
        machine.capture(stream)
        assert machine.turns() == ["t0", "t1"]
        return
    first = machine.hook("SessionStart", -10)
    machine.turn("t1", 0, 40)
    machine.agent.ask("t2", 40.5)
    for stream in (machine.end(41, "", words_of("t1")), first):
        machine.capture(stream)
    machine.capture(machine.end(42, "", words_of("t1")))
    assert machine.turns() == ["t1"]


def test_a_turn_that_was_aborted_without_an_answer(machine: Machine) -> None:
    machine.turn("t1", 0, 40)
    machine.capture(machine.end(41, "t1"))
    machine.agent.ask("t2", 100)
    machine.capture(machine.end(110, "t2"))
    machine.turn("t3", 200, 240)
    machine.capture(machine.end(241, "t3"))
    assert machine.turns() == NAMES
    assert [machine.state(name) for name in NAMES] == ["finished", "interrupted", "finished"]


def test_nothing_is_left_out_when_one_look_cannot_hold_it_all(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"memsearch.sources.{machine.agent.platform}.MAX_READING_CHARS", 5_000)
    machine.capture(machine.hook("SessionStart", -10))
    names = [f"t{number:02}" for number in range(20)]
    for number, name in enumerate(names):
        machine.turn(name, number * 100, number * 100 + 40)
    hooks = [machine.end(number * 100 + 41, name) for number, name in enumerate(names)]
    machine.capture(hooks[-1])
    assert machine.turns() == names
    for stream in hooks:
        machine.capture(stream)
    assert machine.turns() == names


def test_a_fork_whose_original_is_gone_brings_only_what_is_not_known(tmp_path: Path) -> None:
    machine = Machine(tmp_path, OpenCode)
    machine.capture(machine.hook("SessionStart", -10))
    machine.turn("t1", 0, 40)
    machine.capture(machine.end(41, "t1"))
    machine.turn("t2", 100, 140)  # nobody told of it before it was deleted
    with closing(sqlite3.connect(machine.agent.path)) as db, db:
        for table in ("message", "part"):
            db.execute(f"UPDATE {table} SET session_id = 'ses-fork', id = 'copy-' || id")
        db.execute("UPDATE part SET message_id = 'copy-' || message_id")
        parent = '"parentID": "'
        sql = "UPDATE message SET data = replace(data, ?, ?)"
        db.execute(sql, (parent, f"{parent}copy-"))
        db.execute("UPDATE session SET id = 'ses-fork', time_created = ?", (stamp(200),))
    data = {"platform": "opencode", "session": "ses-fork", "event": "session.idle"}
    for _ in range(2):
        with machine.log.transaction() as tx:
            hook = {"id": statedb.new_id(), "at": statedb.utc_now(), "message": None}
            tx.insert_hook(hook | {"data": data | {"path": str(machine.agent.path), "env": {}}})
        machine.capture(f"hook:{hook['id']}")
    assert machine.turns() == ["t1", "copy-t2"]
    machine.close()
