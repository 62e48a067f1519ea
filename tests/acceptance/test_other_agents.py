"""Codex, OpenCode and OpenClaw the whole way: hook, worker, journal, recall, transcript."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from stub_llm import StubLLM
from world import Session, World

DATA = Path(__file__).parents[1] / "data"
THREAD = "01a22b43-0ea2-7e42-8e28-62b7de868997"


def hook(world: World, platform: str, **payload: Any) -> None:
    payload = {"cwd": str(world.project), **payload}
    done = world.run("enqueue", "--platform", platform, stdin=json.dumps(payload))
    assert (done.stdout, done.stderr) == ("{}\n", "")


def codex(world: World, thread: str = THREAD, upto: int | None = None) -> Path:
    """A recorded rollout, or its first records, in the world's project."""
    (source,) = (DATA / "codex" / "sessions").rglob(f"*{thread}.jsonl")
    target = world.root / ".codex" / source.relative_to(DATA / "codex")
    target.parent.mkdir(parents=True, exist_ok=True)
    text = source.read_text("utf-8").replace(
        '"cwd":"/home/dev/demo"', '"cwd":' + json.dumps(str(world.project))
    )
    target.write_text("".join(text.splitlines(keepends=True)[:upto]), encoding="utf-8")
    return target


def opencode(world: World) -> Path:
    path = world.root / ".local" / "share" / "opencode" / "opencode.db"
    path.parent.mkdir(parents=True)
    shutil.copy(DATA / "opencode" / "opencode.db", path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE session SET directory = ?", (str(world.project),))
    return path


def older_opencode(world: World) -> Path:
    """What OpenCode 1.0.98 keeps: files, of which the folder is the transcript."""
    folder = world.root / ".local" / "share" / "opencode"
    shutil.copytree(DATA / "opencode" / "1.0.98" / "storage", folder / "storage")
    for path in (folder / "storage" / "session").rglob("*.json"):
        record = json.loads(path.read_text("utf-8")) | {"directory": str(world.project)}
        path.write_text(json.dumps(record), encoding="utf-8")
    return folder


def openclaw(world: World, agent: str = "main") -> Path:
    path = world.root / ".openclaw" / "agents" / agent / "agent" / "openclaw-agent.sqlite"
    path.parent.mkdir(parents=True)
    shutil.copy(DATA / "openclaw" / "openclaw-agent.sqlite", path)
    return path


def test_codex_with_and_without_a_turn_id(world: World) -> None:
    rollout = codex(world)
    stop = {
        "session_id": THREAD,
        "transcript_path": str(rollout),
        "hook_event_name": "Stop",
    }
    # T15: without an id the last turn is meant.
    hook(world, "codex", **stop, last_assistant_message="Stub answer to: Only chat please")
    hook(world, "codex", **stop, turn_id="01a22b43-4f95-7553-830b-c4385fc1dcdc")
    assert world.drain()["captured"] == 2
    assert sorted(world.entries()) == [
        "01a22b43-4f95-7553-830b-c4385fc1dcdc",
        "01a22b43-51d4-7aa3-9e3a-732e14cb8f95",
    ]
    assert " rollout:~/.codex/sessions/" in world.journal()
    hit = world.search("big file", "--platform", "codex")[0]
    assert "cat big.txt" in world.run("transcript", hit["chunk_hash"]).stdout


def test_what_waits_for_one_agent_s_provider_holds_up_no_other_agent(
    world: World, session: Session
) -> None:
    with StubLLM(default="429:25") as limited:
        world.settings |= {
            "MEMSEARCH_SUMMARIZE__PLATFORMS__CLAUDE_CODE__PROVIDER": "openai",
            "MEMSEARCH_SUMMARIZE__PLATFORMS__CLAUDE_CODE__BASE_URL": limited.openai_url,
            "MEMSEARCH_SUMMARIZE__PLATFORMS__CLAUDE_CODE__MODEL": "stub",
        }
        for number in range(24):
            turn = session.turn(f"Look into topic {number}", f"Done {number}")
            world.hook(session.payload(turn=turn))
        last = "01a22b43-4f95-7553-830b-c4385fc1dcdc"
        stop = {"transcript_path": str(codex(world)), "hook_event_name": "Stop"}
        hook(world, "codex", session_id=THREAD, turn_id=last, **stop)
        worker = world.start("workers", "--foreground")
        try:
            world.wait_for(lambda: world.memory.exists() and world.entries() == [last])
        finally:
            worker.terminate()
            worker.wait(20)
        assert world.status()["turns"]["open"] == 24
        assert limited.calls("chat") <= 8


def test_codex_at_its_stop_the_task_is_not_complete_yet(world: World) -> None:
    rollout = codex(world, upto=92)  # the answer is there, task_complete is not
    payload = {"session_id": THREAD, "transcript_path": str(rollout), "hook_event_name": "Stop"}
    turn = "01a22b43-51d4-7aa3-9e3a-732e14cb8f95"
    hook(world, "codex", **payload, turn_id=turn)
    world.drain("--wait")
    assert world.entries() == [turn]
    assert "Only chat please" in world.journal()


def test_codex_interrupted_and_not_kept(world: World) -> None:
    thread = "01a22b44-070b-7b70-8513-cbd65ddc4702"
    rollout = codex(world, thread)
    hook(
        world,
        "codex",
        session_id=thread,
        turn_id="01a22b44-0726-7841-8886-02c1cf0213e9",
        transcript_path=str(rollout),
        hook_event_name="Interrupt",
    )
    # codex exec --ephemeral keeps nothing, and says so.
    hook(world, "codex", session_id="gone", transcript_path=None, hook_event_name="Stop")
    counts = world.drain()
    assert (counts["captured"], counts["dead"], counts["waiting"]) == (1, 0, 0)
    assert "interrupted" in world.journal().lower()


def test_codex_subagents_are_nobodys(world: World) -> None:
    thread = "01a22b43-5b1d-7492-99d0-0ee6f2af77af"
    rollout = codex(world, thread)
    payload = {"session_id": "01a22b43-5a6b-7802-bcbd-a531f0f38ef2"}
    hook(world, "codex", **payload, transcript_path=str(rollout), hook_event_name="Stop")
    hook(
        world,
        "codex",
        **payload,
        transcript_path=str(rollout),
        agent_id=thread,
        hook_event_name="SubagentStop",
    )
    counts = world.drain()
    assert (counts["captured"], counts["dead"], counts["waiting"]) == (0, 0, 0)


@pytest.mark.parametrize("named", [True, False])
def test_opencode(world: World, named: bool) -> None:
    path = opencode(world)
    session, turn = "ses_dd4ba111bffeJllQLL2etORGke", "msg_22b465b03001dOEhlYxr87eLeD"
    payload = {"session_id": session, "hook_event_name": "session.idle"}
    hook(world, "opencode", **payload, turn_id=turn, **({"db_path": str(path)} if named else {}))
    hook(
        world,
        "opencode",
        session_id="ses_dd4b89c94ffeByjMquOiM9ZKvp",  # a subagent's
        hook_event_name="session.idle",
    )
    counts = world.drain()
    assert (counts["captured"], counts["dead"], counts["waiting"]) == (1, 0, 0)
    assert world.entries() == [turn]
    assert " db:~/.local/share/opencode/opencode.db " in world.journal()
    hit = world.search("big file")[0]
    assert hit["platform"] == "opencode"
    shown = world.run("transcript", hit["chunk_hash"], "--context", "1").stdout
    assert "请运行命令" in shown
    assert "cat big.txt" in shown
    assert os.listdir(path.parent) == ["opencode.db"]


def test_openclaw_by_agent_session_and_run(world: World) -> None:
    path = openclaw(world, "helper")
    common = {"agent_id": "helper", "hook_event_name": "agent_end"}
    hook(world, "openclaw", **common, session_id="00b3eab3-8cdb-44ad-a090-da5d6b512639")
    hook(world, "openclaw", **common, session_id="agent:main:gw1")
    hook(
        world,
        "openclaw",
        **common,
        session_id="00b3eab3-8cdb-44ad-a090-da5d6b512639",
        turn_id="e46ffe39-ae33-4d9c-ac65-1f568041dd6e",  # the run's id
    )
    counts = world.drain()
    assert (counts["dead"], counts["waiting"]) == (0, 0)
    rows = world.sql("SELECT turn FROM turns ORDER BY at")
    assert [turn for (turn,) in rows] == [
        "4f4b421f-3279-46a6-a3c2-b5d14b6cbb8f",
        "c08c6031-9dfc-44b5-9d64-051ec948b1f7",
        "099dc57e-f859-49f1-8605-2ec3d93e0c5e",
    ]
    assert f" db:~/{path.relative_to(world.root)} " in world.journal()


def test_opencode_before_its_database(world: World) -> None:
    older_opencode(world)
    session = {"session_id": "ses_dd2aeb974ffeRopNqtwsTxNz62", "hook_event_name": "session.idle"}
    turns = ["msg_22d5146be001XIbxHADeeGKfsM", "msg_22d5152e00010MBpPtc2bfITBC"]
    hook(world, "opencode", **session, turn_id=turns[1])
    assert world.drain()["captured"] >= 1
    world.run("backfill", "--platform", "opencode", "--yes")
    world.drain()
    assert sorted(world.entries()) == turns
    assert " db:~/.local/share/opencode -->" in world.journal()
    hit = world.search("LMDB", "--platform", "opencode")[0]
    shown = world.run("transcript", hit["chunk_hash"]).stdout
    assert "我们决定把缓存换成 LMDB，因为 Redis 太重。" in shown
