"""What doctor finds, in a real process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

COMMAND = [sys.executable, "-P", "-m", "memsearch._entry"]


class Machine:
    """A home folder with stand-ins for the agents' programs."""

    def __init__(self, folder: Path) -> None:
        self.user = folder / "user"
        self.home = folder / "home"
        self.path = folder / "bin"
        self.path.mkdir(parents=True)
        self.user.mkdir()

    def program(self, name: str, text: str) -> None:
        (self.path / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (self.path / name).chmod(0o755)

    def run(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        own = {"HOME": str(self.user), "MEMSEARCH_HOME": str(self.home)}
        return subprocess.run(
            [*COMMAND, *words],
            capture_output=True,
            text=True,
            env={**os.environ, **own, "PATH": f"{self.path}:/usr/bin:/bin", **environ},
            check=False,
        )

    def doctor(self, **environ: str) -> tuple[int, dict[str, Any]]:
        done = self.run("doctor", "--json", **environ)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def check(found: dict[str, Any], name: str) -> dict[str, str]:
    return next(item for item in found["checks"] if item["name"] == name)


def test_a_new_machine_has_no_faults(machine: Machine) -> None:
    code, found = machine.doctor()
    assert (code, found["ok"]) == (0, True)
    assert check(found, "home")["state"] == "note"
    assert not any(agent["found"] for agent in found["agents"].values())
    assert not machine.home.exists()


def test_an_agent_from_found_to_installed(machine: Machine) -> None:
    machine.program("claude", '[ "$MEMSEARCH_INTERNAL" = 1 ] && echo "2.1.332 (Claude Code)"')
    agent = machine.doctor()[1]["agents"]["claude-code"]
    assert (agent["found"], agent["version"]) == (True, "2.1.332 (Claude Code)")
    assert agent["next_step"] == "memsearch install claude-code"
    assert machine.run("install", "--all").returncode == 0
    code, found = machine.doctor()
    agent = found["agents"]["claude-code"]
    assert (code, agent["installed"], agent["faults"]) == (0, True, [])
    assert "first turn" in agent["next_step"]
    os.unlink(machine.home / "agents" / "memsearch.sh")
    code, found = machine.doctor()
    (fault,) = found["agents"]["claude-code"]["faults"]
    assert (code, fault["next_step"]) == (1, "memsearch install claude-code")


def test_the_namesake_is_named(machine: Machine) -> None:
    machine.program("memsearch", "# from memsearch.cli import main")
    code, found = machine.doctor()
    assert (code, check(found, "command")["state"]) == (1, "fault")
    settings = machine.user / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"enabledPlugins": {"memsearch@memsearch-plugins": true}}')
    (fault,) = machine.doctor()[1]["agents"]["claude-code"]["faults"]
    assert fault["next_step"] == "claude plugin uninstall memsearch@memsearch-plugins"


def test_faults_of_the_home_say_what_to_do(machine: Machine) -> None:
    machine.home.mkdir(mode=0o755)
    machine.home.chmod(0o755)
    (machine.home / "config.toml").write_text("[serch]\n")
    (machine.home / "state.db").write_bytes(b"no database " * 100)
    code, found = machine.doctor(MEMSEARCH_EMBEDDING__PROVIDER="openai")
    assert code == 1
    assert check(found, "home")["next_step"] == "memsearch doctor --fix"
    assert "serch" in check(found, "configuration")["text"]
    assert check(found, "log")["state"] == "fault"
    shown = machine.run("doctor").stdout
    assert "FAIL home" in shown
    assert "→ memsearch doctor --fix" in shown


def test_a_home_that_cannot_be_made_is_a_fault(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    done = machine.run("doctor", MEMSEARCH_HOME=str(tmp_path / "link"))
    assert done.returncode == 1
    assert "FAIL home" in done.stdout
    assert "link is no folder" in done.stdout


def test_status_tells_that_nothing_can_be_stored(machine: Machine) -> None:
    machine.home.write_text("no folder")
    done = machine.run("status", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["state"]) == (1, "degraded")
    assert "is no folder" in found["reasons"][0]


def test_a_set_up_that_failed_is_told(machine: Machine) -> None:
    (machine.home / "run").mkdir(parents=True)
    state = machine.home / "run" / "setup.json"
    state.write_text(json.dumps({"failed_at": 1.0, "error": "no space left"}), encoding="utf-8")
    code, found = machine.doctor()
    told = check(found, "set-up")
    assert (code, told["state"]) == (1, "fault")
    assert "no space left" in told["text"]
    assert "setup.log" in told["next_step"]


def test_an_agent_with_a_broken_configuration_is_a_fault_of_its_own(machine: Machine) -> None:
    (machine.user / ".openclaw").mkdir()
    (machine.user / ".openclaw" / "openclaw.json").write_text("{")
    code, found = machine.doctor()
    assert code == 1
    assert found["agents"]["openclaw"]["faults"]
    assert found["agents"]["codex"]["faults"] == []


def test_mistakes_of_install_end_with_2(machine: Machine) -> None:
    for words in (("install",), ("install", "vim"), ("install", "--all", "codex")):
        done = machine.run(*words)
        assert done.returncode == 2, words
        assert "claude-code" in done.stderr
    done = machine.run("install", "--all")
    assert done.returncode == 2
    assert "none of the agents" in done.stderr


def test_a_home_that_cannot_be_made_is_told(machine: Machine) -> None:
    done = machine.run("install", "codex", MEMSEARCH_HOME="/proc/nothing/home")
    assert done.returncode == 1
    assert "/proc/nothing/home cannot be made" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (machine.user / ".codex").exists()


def test_a_dry_run_shows_and_changes_nothing(machine: Machine) -> None:
    done = machine.run("install", "codex", "--dry-run")
    assert "+[mcp_servers.memsearch]" in done.stdout
    assert not (machine.user / ".codex").exists()
    assert not machine.home.exists()
