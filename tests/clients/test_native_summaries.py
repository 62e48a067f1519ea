"""The agents' own command lines as summarisers, with memsearch installed in them: no trace."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from machine import Machine

pytestmark = pytest.mark.client

#: Agent → its program, how one turn is had of it, and the folder of its store.
AGENTS = {
    "claude-code": ("claude", ["-p", "--model", "sonnet"], ".claude"),
    "codex": ("codex", ["exec", "--dangerously-bypass-hook-trust"], ".codex"),
    "opencode": ("opencode", ["run"], ".local/share/opencode"),
    "openclaw": (
        "openclaw",
        ["agent", "--local", "--agent", "main", "--session-key", "agent:main:one", "--message"],
        ".openclaw",
    ),
}
FIXTURES = {"claude-code": "claude"}
WORDS = "我们决定把缓存换成 LMDB，因为 Redis 太重。[[SAY: 好的，缓存用 LMDB。]]"
#: Tables that hold conversations.
TABLES = {
    *("message", "part", "session"),
    *("transcript_events", "session_windows", "session_nodes"),
    *("threads", "thread_turns", "thread_items", "thread_history_projection_state"),
}


def count(folder: Path) -> dict[str, int]:
    """Transcripts and their lines, rows of databases: everything that a session leaves."""
    found: dict[str, int] = {}
    for path in sorted(folder.rglob("*.jsonl")):
        found[str(path)] = len(path.read_bytes().splitlines())
    for path in sorted([*folder.rglob("*.db"), *folder.rglob("*.sqlite")]):
        with closing(sqlite3.connect(path)) as db:
            names = {row[0] for row in db.execute("SELECT name FROM sqlite_master")}
            for name in sorted(names & TABLES):
                number = db.execute(f"SELECT COUNT(*) FROM {name}").fetchone()[0]
                found[f"{path}:{name}"] = number
    return found


def received(machine: Machine) -> int:
    """How many hooks memsearch has got so far."""
    status = json.loads(machine.memsearch("status", "--json", check=False).stdout)
    return sum(status["hooks"].values())


def sessions(machine: Machine) -> set[str]:
    """The conversations of which memsearch has heard in any way."""
    sql = "SELECT DISTINCT json_extract(data, '$.session') FROM events WHERE type = 'HookReceived'"
    with closing(sqlite3.connect(machine.home / "state.db")) as db:
        return {session for (session,) in db.execute(sql) if session}


@pytest.mark.parametrize("name", AGENTS)
def test_a_summary_leaves_no_trace(name: str, request: pytest.FixtureRequest) -> None:
    machine: Machine = request.getfixturevalue(FIXTURES.get(name, name))
    program, options, folder = AGENTS[name]
    machine.on_path(name, program)
    machine.settings["MEMSEARCH_SUMMARIZE__PROVIDER"] = "native"
    machine.memsearch("install", name)
    if name == "opencode":
        machine.agent(name, *options, stdin=WORDS)
    else:
        machine.agent(name, *options, WORDS)
    before = count(machine.root / folder)
    assert before
    hooks = received(machine)
    machine.model.clear()
    machine.model.always = "- 用户决定把缓存换成 LMDB\n- STUB-SUMMARY 已记下"
    machine.drain()
    assert "STUB-SUMMARY" in machine.journal()
    assert len(machine.anchors()) == 1
    assert count(machine.root / folder) == before
    # One call, in which no tool and nothing that was injected stood, and no hook ran for it.
    (asked,) = machine.model.requests
    assert not asked.body.get("tools")
    assert "memsearch-memory" not in asked.text
    if name in ("claude-code", "codex"):
        assert received(machine) == hooks > 0
    machine.drain()
    # A worker that starts may look at the user's own conversation again, where it polls.
    assert len(sessions(machine)) == 1
    status = json.loads(machine.memsearch("status", "--json", check=False).stdout)
    assert status["turns"] == {"done": 1}
    assert not list((machine.home / "spool").glob("*"))
