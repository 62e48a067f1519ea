"""A plugin on a machine without memsearch: hooks at once, the set-up behind, nothing lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest
from machine import Machine, copy_of_the_repository

pytestmark = pytest.mark.client

#: Seconds that pip may take to build and install the package alone.
SET_UP_SECONDS = 240


def records(path: Path, cwd: Path) -> None:
    """One turn as Claude Code writes it."""
    base = {"isSidechain": False, "cwd": str(cwd), "sessionId": path.stem, "version": "2.1.332"}
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    asked = {
        **base,
        "type": "user",
        "uuid": "u1",
        "parentUuid": None,
        "timestamp": now,
        "promptId": "p1",
        "message": {"role": "user", "content": "为什么选择 Rust 来写存储引擎？"},
    }
    answered = {
        **base,
        "type": "assistant",
        "uuid": "a1",
        "parentUuid": "u1",
        "timestamp": now,
        "message": {
            "id": "m1",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet",
            "content": [{"type": "text", "text": "因为要避免数据竞争，而且没有垃圾回收的停顿。"}],
            "stop_reason": "end_turn",
        },
    }
    path.parent.mkdir(parents=True)
    lines = [json.dumps(record, ensure_ascii=False) for record in (asked, answered)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


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
    records(transcript, machine.project)

    def hook(event: str, *words: str) -> dict[str, object]:
        payload = {
            "session_id": "s1",
            "transcript_path": str(transcript),
            "cwd": str(machine.project),
            "hook_event_name": event,
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
    while not command.exists():
        if (machine.home / "run" / "setup.json").exists():
            text = log.read_text("utf-8")
            if "No matching distribution" in text or "Connection" in text:
                pytest.skip("PyPI does not answer")
            pytest.fail(text)
        assert time.monotonic() < deadline, log.read_text("utf-8")
        time.sleep(0.2)
    try:
        while "Rust" not in machine.journal():
            assert time.monotonic() < deadline, log.read_text("utf-8")
            time.sleep(0.2)
        second = hook("SessionStart", "context", "--enqueue")
        assert "systemMessage" not in second
        assert "为什么选择 Rust" in json.dumps(second, ensure_ascii=False)
    finally:
        subprocess.run(
            ["sh", script, "workers", "stop"], env=environ, capture_output=True, check=False
        )
    assert "build" not in os.listdir(checkout)
