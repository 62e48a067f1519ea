"""The real OpenClaw with memsearch in it: plugin, tools, and out again."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pytest
from machine import Machine

pytestmark = pytest.mark.client


def say(machine: Machine, words: str, session: str) -> str:
    key = f"agent:main:{session}"
    options = ("--local", "--agent", "main", "--session-key", key, "--message", words)
    return machine.agent("openclaw", "agent", *options).stdout


def config(machine: Machine) -> Path:
    return machine.root / ".openclaw" / "openclaw.json"


def test_out_again_without_a_run_is_byte_for_byte(openclaw: Machine) -> None:
    before = config(openclaw).read_bytes()
    openclaw.memsearch("install", "openclaw")
    installed = config(openclaw).read_bytes()
    openclaw.memsearch("install", "openclaw")
    assert config(openclaw).read_bytes() == installed != before
    assert b"// mine" in installed
    openclaw.memsearch("uninstall", "openclaw")
    assert config(openclaw).read_bytes() == before
    assert not (openclaw.home / "agents").exists()


def test_two_turns_a_new_session_recall_and_out_again(openclaw: Machine) -> None:
    openclaw.memsearch("install", "openclaw")
    say(openclaw, "我们决定把缓存换成 LMDB，因为 Redis 太重。[[SAY: 好的，缓存用 LMDB。]]", "one")
    # The first turn of all was sent before memsearch could know of OpenClaw: it is captured
    # as the last one of its session, which it has to be still.
    openclaw.drain()
    say(openclaw, "Please list the files [[SH: echo tool-output-42]]", "one")
    openclaw.drain()

    assert "LMDB" in openclaw.journal()
    assert "echo tool-output-42" in openclaw.journal()
    first, second = openclaw.anchors()
    assert first["session"] == second["session"]
    assert first["turn"] != second["turn"]
    assert (openclaw.root / unquote(first["db"]).removeprefix("~/")).is_file()

    openclaw.model.clear()
    say(openclaw, "What did we decide about the cache?", "two")
    asked = openclaw.model.requests[-1].text
    assert "<memsearch-memory>" in asked
    assert "缓存换成 LMDB" in asked
    assert "[memsearch] Memory available" in asked
    openclaw.drain()
    assert "memsearch-memory" not in openclaw.journal()

    openclaw.note("2026-03-05", "rollout:~/.codex/sessions/x.jsonl", "The mail queue is a heap 堆")
    openclaw.model.clear()
    # OpenClaw keeps most tools behind a search of its own, and calls them by name.
    arguments = '{"id": "memory_search", "args": {"query": "mail queue 堆", "top_k": 3}}'
    say(openclaw, f"[[CALL: tool_call {arguments}]]", "two")
    openclaw.assert_recalled("The mail queue is a heap")

    (found, *_) = openclaw.search("缓存 LMDB")
    shown = openclaw.memsearch("transcript", found["chunk_hash"]).stdout
    assert "我们决定把缓存换成 LMDB，因为 Redis 太重。" in shown

    # OpenClaw writes its configuration anew when it likes: then our part alone goes.
    openclaw.memsearch("uninstall", "openclaw")
    left = config(openclaw).read_text("utf-8")
    assert "memsearch" not in left
    assert "stub-token" in left
