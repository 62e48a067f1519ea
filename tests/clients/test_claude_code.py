"""The real Claude Code with memsearch in it: captured, injected, recalled, taken out again."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from urllib.parse import unquote

import pytest
from machine import Machine, copy_of_the_repository, snapshot

pytestmark = pytest.mark.client


def say(machine: Machine, words: str, *options: str, cwd: Path | None = None) -> str:
    return machine.agent("claude-code", "-p", "--model", "sonnet", *options, words, cwd=cwd).stdout


def recall(machine: Machine, skill: str, launcher: Path, question: str) -> str:
    """Let the model call the skill, whose subagent runs the search that it describes."""
    command = f'sh "{launcher}" search {shlex.quote(question)} --top-k 3'
    call = {"skill": skill, "args": f"<<SH: {command}>>"}
    return say(machine, f"[[CALL: Skill {json.dumps(call, ensure_ascii=False)}]]")


def test_two_turns_a_new_session_recall_and_out_again(claude: Machine) -> None:
    settings = claude.root / ".claude"
    before = snapshot(settings)
    claude.memsearch("install", "claude-code")
    installed = snapshot(settings)
    claude.memsearch("install", "claude-code")
    assert snapshot(settings) == installed

    say(claude, "我们决定把缓存换成 LMDB，因为 Redis 太重。[[SAY: 好的，已经记下：缓存用 LMDB。]]")
    say(claude, "Please list the project's files [[SH: echo tool-output-42]]", "--continue")
    claude.drain()

    assert (claude.root / "foreign.log").read_text().split() == ["stop", "stop"]
    assert "LMDB" in claude.journal()
    assert "echo tool-output-42" in claude.journal()
    first, second = claude.anchors()
    assert first["session"] == second["session"]
    assert first["turn"] != second["turn"]
    transcript = claude.root / unquote(first["transcript"]).removeprefix("~/")
    records = [json.loads(line) for line in transcript.read_text("utf-8").splitlines()]
    prompts = {record.get("promptId") for record in records} - {None}
    assert {first["turn"], second["turn"]} <= prompts

    # A new session, from a subdirectory: the model sees what was noted.
    claude.model.clear()
    deep = claude.project / "src" / "deep"
    deep.mkdir(parents=True)
    say(claude, "What did we decide about the cache?", cwd=deep)
    (asked,) = [r for r in claude.model.requests if "decide about the cache" in r.text]
    assert "<memsearch-memory>" in asked.text
    assert "缓存换成 LMDB" in asked.text
    assert "[memsearch] Memory available" in asked.text

    # What was injected is not stored as anybody's words.
    claude.drain()
    assert "memsearch-memory" not in claude.journal()
    assert "Memory available" not in claude.journal()

    # The skill finds what another agent noted, and nobody is asked for a permission.
    claude.note("2026-03-05", "rollout:~/.codex/sessions/x.jsonl", "The mail queue is a heap 堆")
    launcher = claude.home / "agents" / "memsearch.sh"
    claude.model.clear()
    recall(claude, "memory-recall", launcher, "mail queue 堆")
    claude.assert_recalled("The mail queue is a heap")
    assert "requires approval" not in claude.model.everything()

    # A command that is more than ours is asked about, which -p answers with no.
    claude.model.clear()
    trap = claude.root / "trap"
    say(claude, f'[[SH: sh "{launcher}" search x; touch {shlex.quote(str(trap))}]]')
    assert not trap.exists()

    # The words behind the entry.
    (found, *_) = claude.search("缓存 LMDB")
    shown = claude.memsearch("transcript", found["chunk_hash"]).stdout
    assert "我们决定把缓存换成 LMDB，因为 Redis 太重。" in shown

    claude.memsearch("uninstall", "claude-code")
    after = snapshot(settings)
    assert {path: after[path] for path in before} == before
    assert not (settings / "skills").exists()


def test_the_plugin_of_the_repository(claude: Machine) -> None:
    checkout = copy_of_the_repository(claude.root / "check out")
    claude.agent("claude-code", "plugin", "validate", str(checkout))
    claude.agent("claude-code", "plugin", "marketplace", "add", str(checkout))
    claude.agent("claude-code", "plugin", "install", "memsearch@memsearch")
    claude.note_command(checkout)

    say(claude, "为什么选择 Rust？[[SAY: 因为要避免数据竞争。]]")
    claude.drain()
    assert "为什么选择 Rust" in claude.journal()

    claude.model.clear()
    say(claude, "Continue with what we talked about")
    assert "为什么选择 Rust" in claude.model.everything()

    claude.model.clear()
    recall(
        claude,
        "memsearch:memory-recall",
        checkout / "hooks" / "assets" / "memsearch.sh",
        "为什么 Rust",
    )
    claude.assert_recalled("数据竞争")
    assert "requires approval" not in claude.model.everything()
