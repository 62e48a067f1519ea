"""A plugin on a machine without memsearch: hooks at once, the set-up behind, nothing lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from machine import Machine, copy_of_the_repository

from memsearch import __version__

pytestmark = pytest.mark.client

#: The version that the plugin is updated to.
NEXT_VERSION = "99.0.0"
#: Seconds that pip may take to build and install the package alone.
SET_UP_SECONDS = 240


def records(path: Path, cwd: Path, key: str, question: str, answer: str) -> None:
    """One turn as Claude Code writes it."""
    base = {"isSidechain": False, "cwd": str(cwd), "sessionId": path.stem, "version": "2.1.332"}
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    asked = {
        **base,
        "type": "user",
        "uuid": f"u{key}",
        "parentUuid": None,
        "timestamp": now,
        "promptId": f"p{key}",
        "message": {"role": "user", "content": question},
    }
    answered = {
        **base,
        "type": "assistant",
        "uuid": f"a{key}",
        "parentUuid": f"u{key}",
        "timestamp": now,
        "message": {
            "id": f"m{key}",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet",
            "content": [{"type": "text", "text": answer}],
            "stop_reason": "end_turn",
        },
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(record, ensure_ascii=False) for record in (asked, answered)]
    with path.open("a", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def test_what_happens_before_the_set_up_is_remembered_after_it(machine: Machine) -> None:
    checkout = copy_of_the_repository(machine.root / "plugin x")
    script = checkout / "hooks" / "assets" / "memsearch.sh"
    path = machine.root / "bin"
    path.mkdir()
    python = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    (path / "python3").symlink_to(python)
    environ = {
        "HOME": str(machine.root),
        "PATH": f"{path}:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "MEMSEARCH_SUMMARIZE__PROVIDER": "extractive",
        # The dependencies are those of this run: only the package itself is built.
        "PIP_NO_DEPS": "1",
        "PYTHONPATH": sysconfig.get_path("purelib"),
        **{name: value for name, value in os.environ.items() if name.startswith("PIP_")},
    }
    transcript = machine.root / ".claude" / "projects" / "-x" / "s1.jsonl"
    answer = "因为要避免数据竞争，而且没有垃圾回收的停顿。"
    records(transcript, machine.project, "1", "为什么选择 Rust 来写存储引擎？", answer)

    def hook(event: str, *words: str) -> dict[str, object]:
        payload = {
            "session_id": "s1",
            "transcript_path": str(transcript),
            "cwd": str(machine.project),
            "hook_event_name": event,
            "prompt": "What did we decide about the storage engine?",
        }
        done = subprocess.run(
            ["sh", script, *words, "--platform", "claude-code"],
            input=json.dumps(payload),
            capture_output=True,
            text=True,
            env=environ,
            check=True,
        )
        found: dict[str, object] = json.loads(done.stdout)
        return found

    started = time.monotonic()
    first = hook("SessionStart", "context", "--enqueue")
    assert "being set up in the background" in str(first["systemMessage"])
    assert time.monotonic() - started < 10
    assert hook("Stop", "enqueue") == {}

    log = machine.home / "logs" / "setup.log"
    command = machine.home / "agents" / "command"
    deadline = time.monotonic() + SET_UP_SECONDS

    def wait(done: Callable[[], bool]) -> None:
        while not done():
            if (machine.home / "run" / "setup.json").exists():
                text = log.read_text("utf-8")
                if "No matching distribution" in text or "Connection" in text:
                    pytest.skip("PyPI does not answer")
                pytest.fail(text)
            assert time.monotonic() < deadline, log.read_text("utf-8")
            time.sleep(0.1)

    def worker() -> str:
        return (machine.home / "run" / "worker.lock").read_text("utf-8").strip()

    wait(command.exists)
    try:
        wait(lambda: "Rust" in machine.journal())
        second = hook("SessionStart", "context", "--enqueue")
        assert "systemMessage" not in second
        assert "为什么选择 Rust" in json.dumps(second, ensure_ascii=False)

        # The plugin is updated: the next session renews what runs, beside the one in use.
        old, (first,) = worker(), os.listdir(machine.home / "venvs")
        source = checkout / "memsearch" / "__init__.py"
        text = source.read_text("utf-8").replace(__version__, NEXT_VERSION)
        source.write_text(text, encoding="utf-8")
        deadline = time.monotonic() + SET_UP_SECONDS
        hook("SessionStart", "context", "--enqueue")
        stamp = machine.home / "venv" / "version"
        while stamp.read_text("utf-8").strip() != NEXT_VERSION:
            answered = hook("UserPromptSubmit", "hint")
            assert "Memory available" in json.dumps(answered)
            wait(lambda: True)
        wait(lambda: worker() not in ("", old))
        records(transcript, machine.project, "2", "缓存换成什么？", "换成 LMDB，因为 Redis 太重。")
        hook("Stop", "enqueue")
        wait(lambda: "LMDB" in machine.journal())
        said = subprocess.run(
            ["sh", script, "--version"], env=environ, capture_output=True, text=True, check=True
        )
        assert NEXT_VERSION in said.stdout
        # What still runs from the first one has its files.
        assert first in os.listdir(machine.home / "venvs")
        log_before = log.read_text("utf-8")
        hook("SessionStart", "context", "--enqueue")
        assert log.read_text("utf-8") == log_before
    finally:
        subprocess.run(
            ["sh", script, "workers", "stop"], env=environ, capture_output=True, check=False
        )
    assert "build" not in os.listdir(checkout)
