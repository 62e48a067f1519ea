"""The real Codex with memsearch in it: hooks, skill, MCP in its sandboxes, and out again."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from machine import Machine, copy_of_the_repository, snapshot

pytestmark = pytest.mark.client

SANDBOXES = ("read-only", "workspace-write")


def say(machine: Machine, words: str, *options: str, cwd: Path | None = None) -> str:
    """One run of ``codex exec``. The trust that a user gives once is given by the flag."""
    trust = "--dangerously-bypass-hook-trust"
    return machine.agent("codex", "exec", *options, trust, words, cwd=cwd).stdout


def own(folder: Path) -> dict[str, str]:
    """What the user wrote; Codex keeps state of its own beside it."""
    names = ("hooks.json", "config.toml", "AGENTS.md")
    return {
        name: digest
        for name, digest in snapshot(folder).items()
        if name in names or name.startswith("skills/memory-recall")
    }


def recall_in_the_sandbox(machine: Machine) -> None:
    """Let the model search with the agent's own shell tool."""
    script = shlex.quote(str(machine.home / "agents" / "memsearch.sh"))
    for sandbox in SANDBOXES:
        machine.model.clear()
        say(machine, f"[[SH: {script} search 'mail queue 堆' --top-k 3]]", "-s", sandbox)
        machine.assert_recalled("The mail queue is a heap")


def test_two_turns_a_new_session_recall_and_out_again(codex: Machine) -> None:
    folder = codex.root / ".codex"
    before = own(folder)
    codex.memsearch("install", "codex")
    installed = own(folder)
    codex.memsearch("install", "codex")
    assert own(folder) == installed != before
    state = json.loads(codex.memsearch("doctor", "--json", check=False).stdout)
    assert state["agents"]["codex"]["trusted"] is False

    say(codex, "我们决定把缓存换成 LMDB，因为 Redis 太重。[[SAY: 好的，已经记下：缓存用 LMDB。]]")
    say(codex, "Please list the files [[SH: echo tool-output-42]]", "resume", "--last")
    codex.drain()

    assert (codex.root / "foreign.log").read_text().split() == ["stop", "stop"]
    assert "LMDB" in codex.journal()
    assert "echo tool-output-42" in codex.journal()
    first, second = codex.anchors()
    assert first["session"] == second["session"]
    assert first["turn"] != second["turn"]
    rollout = Path(first["rollout"].replace("~", str(codex.root), 1))
    text = rollout.read_text("utf-8")
    assert f'"turn_id":"{first["turn"]}"' in text
    assert f'"turn_id":"{second["turn"]}"' in text

    codex.model.clear()
    deep = codex.project / "src" / "deep"
    deep.mkdir(parents=True)
    say(codex, "What did we decide about the cache?", cwd=deep)
    asked = codex.model.requests[-1].text
    assert "<memsearch-memory>" in asked
    assert "缓存换成 LMDB" in asked
    assert "[memsearch] Memory available" in asked
    codex.drain()
    assert "memsearch-memory" not in codex.journal()

    codex.note("2026-03-05", "transcript:~/.claude/projects/x.jsonl", "The mail queue is a heap 堆")
    codex.memsearch("workers", "start")
    try:
        for sandbox in SANDBOXES:
            codex.model.clear()
            say(codex, '[[CALL: memory_search {"query": "mail queue 堆"}]]', "-s", sandbox)
            codex.assert_recalled("The mail queue is a heap")
        # Its sandbox refuses the socket and the index: the Markdown is read instead, whether
        # or not workers run.
        recall_in_the_sandbox(codex)
    finally:
        codex.memsearch("workers", "stop", check=False)
    recall_in_the_sandbox(codex)

    (found, *_) = codex.search("缓存 LMDB")
    shown = codex.memsearch("transcript", found["chunk_hash"]).stdout
    assert "我们决定把缓存换成 LMDB，因为 Redis 太重。" in shown

    codex.memsearch("uninstall", "codex")
    assert own(folder) == before


def test_the_plugin_of_the_repository(codex: Machine) -> None:
    checkout = copy_of_the_repository(codex.root / "check out")
    codex.agent("codex", "plugin", "marketplace", "add", str(checkout))
    codex.agent("codex", "plugin", "add", "memsearch@memsearch")
    codex.note_command(checkout)

    say(codex, "为什么选择 Rust？[[SAY: 因为要避免数据竞争。]]")
    codex.drain()
    assert "为什么选择 Rust" in codex.journal()

    codex.model.clear()
    say(codex, "Continue with what we talked about")
    assert "为什么选择 Rust" in codex.model.everything()

    codex.model.clear()
    say(codex, '[[CALL: memory_search {"query": "数据竞争"}]]', "-s", "read-only")
    codex.assert_recalled("因为要避免数据竞争")
