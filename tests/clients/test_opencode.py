"""The real OpenCode with memsearch in it: plugin, tools, and out again."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pytest
from machine import Machine, snapshot

pytestmark = pytest.mark.client


def say(machine: Machine, words: str, *options: str, cwd: Path | None = None) -> str:
    return machine.agent("opencode", "run", *options, stdin=words, cwd=cwd).stdout


def own(folder: Path) -> dict[str, str]:
    """What a user or an installer wrote; OpenCode fetches packages of its own beside it."""
    names = ("opencode.json", "plugin/", "skill/", "memsearch/")
    return {name: value for name, value in snapshot(folder).items() if name.startswith(names)}


def test_two_turns_a_new_session_recall_and_out_again(opencode: Machine) -> None:
    folder = opencode.root / ".config" / "opencode"
    before = own(folder)
    opencode.memsearch("install", "opencode")
    installed = own(folder)
    opencode.memsearch("install", "opencode")
    assert own(folder) == installed != before

    say(
        opencode, "我们决定把缓存换成 LMDB，因为 Redis 太重。[[SAY: 好的，已经记下：缓存用 LMDB。]]"
    )
    say(opencode, "Please list the files [[SH: echo tool-output-42]]", "-c")
    opencode.drain()

    assert "LMDB" in opencode.journal()
    assert "echo tool-output-42" in opencode.journal()
    first, second = opencode.anchors()
    assert first["session"] == second["session"]
    assert first["turn"] != second["turn"]
    assert first["turn"].startswith("msg_")
    assert (opencode.root / unquote(first["db"]).removeprefix("~/")).is_file()

    opencode.model.clear()
    deep = opencode.project / "src" / "deep"
    deep.mkdir(parents=True)
    say(opencode, "What did we decide about the cache?", cwd=deep)
    asked = [r.text for r in opencode.model.requests if "title generator" not in r.text]
    assert "<memsearch-memory>" in asked[-1]
    assert "缓存换成 LMDB" in asked[-1]
    assert "[memsearch] Memory available" in asked[-1]
    opencode.drain()
    assert "memsearch-memory" not in opencode.journal()

    opencode.note("2026-03-05", "rollout:~/.codex/sessions/x.jsonl", "The mail queue is a heap 堆")
    opencode.model.clear()
    say(opencode, '[[CALL: memory_search {"query": "mail queue 堆", "top_k": 3}]]')
    opencode.assert_recalled("The mail queue is a heap")

    (found, *_) = opencode.search("缓存 LMDB")
    shown = opencode.memsearch("transcript", found["chunk_hash"]).stdout
    assert "我们决定把缓存换成 LMDB，因为 Redis 太重。" in shown

    opencode.memsearch("uninstall", "opencode")
    assert own(folder) == before
