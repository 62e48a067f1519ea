"""Following the agents' conversations without hooks: real files, real databases, a real log."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memsearch.config import statedb
from memsearch.config.paths import Home
from memsearch.pipeline.engine import Engine
from memsearch.pipeline.log import EventLog
from memsearch.pipeline.stages.capture import capture
from memsearch.sources.tail import QUIET_SECONDS, has_plugin
from memsearch.workers.tailing import PATIENCE_SECONDS, Follower

DATA = Path(__file__).parents[1] / "data"


class Machine:
    """A home, its log, and agents' folders in which tests write as agents do."""

    def __init__(self, root: Path, log: EventLog, **settings: str) -> None:
        self.root = root
        self.project = root / "app"
        self.project.mkdir(exist_ok=True)
        environ = {"HOME": str(root), **settings}
        self.engine = Engine(Home(str(root / "memory home")), environ, log)
        self.follower = Follower(self.engine)

    def look(self) -> list[tuple[str, str]]:
        """One look; the (platform, event) of the hooks it made, which are captured at once."""
        self.follower._due = 0.0
        self.follower.look()
        made = []
        for row in self.engine.log.rows("SELECT * FROM hooks WHERE state = 'open'"):
            event = self.engine.log.row("SELECT * FROM events WHERE id = ?", (row["event_id"],))
            assert event is not None
            made.append((row["platform"], json.loads(event["data"])["event"]))
            capture(self.engine, row["stream"])
        left = self.engine.log.rows("SELECT stream, error FROM hooks WHERE state <> 'done'")
        assert [tuple(row) for row in left] == []
        return made

    def turns(self) -> list[str]:
        rows = self.engine.log.rows("SELECT turn FROM turns ORDER BY at, turn")
        return [row["turn"] for row in rows]

    def state(self, turn: str) -> str:
        rows = self.engine.log.rows("SELECT data FROM events WHERE type = 'TurnCaptured'")
        return str(next(d["state"] for d in (json.loads(r[0]) for r in rows) if d["turn"] == turn))

    # Agents

    def claude(self, session: str, *records: dict[str, Any], ago: float = 5.0) -> Path:
        path = self.root / ".claude" / "projects" / "-app" / f"{session}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            for record in records:
                stamp = {"cwd": str(self.project), "timestamp": time.time()}
                file.write(json.dumps(stamp | record) + "\n")
        os.utime(path, (time.time() - ago,) * 2)
        return path


def ask(turn: str, words: str = "Why does the build fail here?") -> dict[str, Any]:
    return {"type": "user", "uuid": f"u-{turn}", "promptId": turn, "message": {"content": words}}


def answer(turn: str, stop: str | None = "end_turn") -> dict[str, Any]:
    content = [{"type": "text", "text": f"Because of {turn}."}]
    message = {"id": f"m-{turn}", "content": content, "stop_reason": stop}
    return {"type": "assistant", "uuid": f"a-{turn}", "message": message}


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    (tmp_path / "memory home").mkdir()
    opened = EventLog(str(tmp_path / "memory home" / "state.db"))
    yield opened
    opened.close()


@pytest.fixture
def machine(tmp_path: Path, log: EventLog) -> Iterator[Machine]:
    made = Machine(tmp_path, log, MEMSEARCH_CAPTURE__TAIL="true")
    yield made
    made.engine.close()


def test_nothing_is_followed_unless_it_is_asked_for(tmp_path: Path, log: EventLog) -> None:
    machine = Machine(tmp_path, log)
    machine.claude("s1", ask("t1"), answer("t1"))
    assert machine.look() == []
    machine.engine.close()


def test_what_was_there_before_is_left_to_backfill(machine: Machine) -> None:
    machine.claude("old", ask("t0"), answer("t0"), ago=1_000)
    first = machine.look()
    assert sorted(first) == [
        (name, "TailStarted") for name in ("claude-code", "codex", "openclaw", "opencode")
    ]
    assert machine.look() == []
    assert machine.turns() == []


def test_a_turn_is_captured_once_it_pauses(machine: Machine) -> None:
    machine.look()
    machine.follower._platforms["claude-code"].since -= timedelta(seconds=10)
    machine.claude("s1", ask("t1"), answer("t1"), ago=0)
    assert machine.look() == []  # it may still be written
    machine.claude("s1", ago=3)
    assert machine.look() == [("claude-code", "Tail")]
    assert machine.turns() == ["t1"]
    assert machine.look() == []
    machine.claude("s1", ask("t2"), ago=3)
    assert machine.look() == [("claude-code", "Tail")]
    assert machine.turns() == ["t1"]
    machine.claude("s1", answer("t2"), ask("t3"), answer("t3", None), ago=2.5)
    machine.look()
    assert machine.turns() == ["t1", "t2"]


def test_a_turn_that_was_killed_is_captured_when_the_conversation_rests(
    machine: Machine,
) -> None:
    machine.look()
    machine.follower._platforms["claude-code"].since -= timedelta(seconds=2_000)
    machine.claude("s1", ask("t1"), answer("t1", "tool_use"), ago=100)
    machine.claude("s2", ask("t2"), ago=100)
    machine.claude("s3", ask("t3"), answer("t3"), ago=100)
    machine.look()
    assert machine.turns() == ["t3"]
    for session in ("s1", "s2", "s3"):
        machine.claude(session, ago=QUIET_SECONDS + 5)
    assert machine.look() == [("claude-code", "Tail")] * 3
    assert machine.look() == [("claude-code", "Rest")] * 2
    assert machine.turns() == ["t1", "t2", "t3"]
    assert (machine.state("t1"), machine.state("t2")) == ("finished", "interrupted")
    assert machine.look() == []


def test_one_that_never_pauses_is_looked_at_all_the_same(machine: Machine) -> None:
    machine.look()
    path = machine.claude("s1", ask("t1"), answer("t1"), ask("t2"), ago=-1)
    assert machine.look() == []
    growing = machine.follower._platforms["claude-code"].growing
    growing[(str(path), "s1")] -= PATIENCE_SECONDS
    machine.claude("s1", answer("t2", "tool_use"), ago=-1)
    assert machine.look() == [("claude-code", "Tail")]
    assert machine.turns() == ["t1"]


def test_codex_is_followed_and_a_subagent_is_not(machine: Machine) -> None:
    machine.look()
    shutil.copytree(DATA / "codex" / "sessions", machine.root / ".codex" / "sessions")
    for path in (machine.root / ".codex").rglob("*.jsonl"):
        os.utime(path, (time.time() + 1, time.time() - 3))
    machine.follower._platforms["codex"].since -= timedelta(seconds=10)
    assert machine.look() == [("codex", "Tail")] * 9
    # Turns from before are left to backfill, but for the last one of each conversation.
    assert len(machine.turns()) == 8


def plugin(root: Path, agent: str) -> None:
    if agent == "opencode":
        folder = root / ".config" / "opencode" / "plugin"
        folder.mkdir(parents=True)
        (folder / "memsearch.ts").write_text("", encoding="utf-8")
    else:
        folder = root / ".openclaw"
        folder.mkdir(exist_ok=True)
        config = {"plugins": {"entries": {"memsearch": {"enabled": True}}}}
        (folder / "openclaw.json").write_text(json.dumps(config), encoding="utf-8")


@pytest.mark.parametrize("agent", ["opencode", "openclaw"])
def test_p5_a_database_is_polled_while_our_plugin_is_installed(
    agent: str, tmp_path: Path, log: EventLog
) -> None:
    machine = Machine(tmp_path, log)
    assert not has_plugin(agent, machine.engine.environ)
    plugin(tmp_path, agent)
    assert has_plugin(agent, machine.engine.environ)
    assert machine.look() == [(agent, "TailStarted")]
    now = int(time.time() * 1000) - 3_000
    if agent == "opencode":
        path = tmp_path / ".local" / "share" / "opencode" / "opencode.db"
        path.parent.mkdir(parents=True)
        shutil.copy(DATA / "opencode" / "opencode.db", path)
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("UPDATE session SET time_updated = ? WHERE id LIKE '%LQll%'", (now,))
        expected = "msg_22b466f85001vEfnLmrGGYJYrS"
    else:
        path = tmp_path / ".openclaw" / "agents" / "main" / "agent" / "openclaw-agent.sqlite"
        path.parent.mkdir(parents=True)
        with closing(sqlite3.connect(path)) as db, db:
            recorded = DATA / "openclaw" / "openclaw-agent.sqlite"
            db.execute("ATTACH ? AS recorded", (str(recorded),))
            for name in ("session_nodes", "session_windows", "transcript_events"):
                db.execute(f"CREATE TABLE {name} AS SELECT * FROM recorded.{name}")
            db.execute(
                "UPDATE session_windows SET transcript_updated_at = ?"
                " WHERE session_key = 'agent:main:dev1'",
                (now,),
            )
        expected = "c08c6031-9dfc-44b5-9d64-051ec948b1f7"
    machine.follower._platforms[agent].since -= timedelta(seconds=10)
    assert machine.look() == [(agent, "Tail")]
    assert machine.turns() == [expected]
    # Several followers of one store: each turn is captured once all the same.
    for _ in range(2):
        other = Machine(tmp_path, log)
        other.look()
        assert other.turns() == [expected]
        other.engine.close()
    machine.engine.close()


@pytest.mark.parametrize(
    "place",
    [
        "app/.opencode/plugin/memsearch.js",
        "app/.opencode/plugins/memsearch.ts",
        "app/opencode.json",
        "app/.opencode/opencode.jsonc",
        ".opencode/plugin/memsearch.js",
        "own config/plugin/memsearch.js",
        "own.json",
        "nowhere",
        "app/mentioned only",
        "other/opencode.json",
    ],
)
def test_opencode_is_polled_wherever_the_plugin_is_named(
    place: str, tmp_path: Path, log: EventLog
) -> None:
    machine = Machine(tmp_path, log)
    (machine.project / ".git").mkdir()
    deep = machine.project / "src" / "deep"
    deep.mkdir(parents=True)
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    named = '{ "plugin": [ "a", // ours\n "file:///x/memsearch.js" ] }'
    path.write_text(named if "json" in path.suffix else "", encoding="utf-8")
    if place == "app/mentioned only":
        only = '{"plugin": [], "instructions": ["/w/memsearch/AGENTS.md"]}'
        (machine.project / "opencode.json").write_text(only, encoding="utf-8")
    env = {"OPENCODE_CONFIG": str(tmp_path / "own.json")}
    env["OPENCODE_CONFIG_DIR"] = str(tmp_path / "own config")
    # What the plugin itself sent says where it is.
    data = {"platform": "opencode", "session": "s", "cwd": str(deep), "event": "session.idle"}
    with log.transaction() as tx:
        hook = {"id": statedb.new_id(), "at": statedb.utc_now(), "message": None}
        tx.insert_hook(hook | {"data": data | {"env": env}})
    expected = place not in ("nowhere", "app/mentioned only", "other/opencode.json")
    assert machine.follower._is_followed("opencode") is expected
    assert not machine.follower._is_followed("openclaw")
    machine.engine.close()


def test_a_schema_that_is_not_known_is_said_once(machine: Machine) -> None:
    said: list[str] = []
    machine.engine.note = lambda event, **facts: said.append(f"{event} {facts.get('error')}")
    path = machine.root / ".local" / "share" / "opencode" / "opencode.db"
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE unheard_of(id)")
    machine.look()
    machine.look()
    (line,) = [each for each in said if each.startswith("agent_unreadable")]
    assert "unheard_of" in line
