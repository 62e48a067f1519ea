"""Claude Code and Codex: what a turn is, once each, wherever and however a session goes on."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import with_claude, with_codex
from machine import COMMAND, PATIENCE, Machine
from model import Model
from places import PLACES, assert_filed, make_places

pytestmark = pytest.mark.client

WITH = {"claude-code": with_claude, "codex": with_codex}
#: Agent → how a subagent is started, whose model gets words of its own.
SUBAGENT = {
    "claude-code": (
        'Agent {"description": "look", "prompt": "The words of a subagent <<SAY: seen>>",'
        ' "subagent_type": "general-purpose"}'
    ),
    "codex": 'spawn_agent {"message": "The words of a subagent <<SAY: seen>>"}',
}


class Session:
    """One agent on a machine, spoken to without a terminal.

    Attributes:
        id: The session that is gone on with; empty for a new one.
    """

    def __init__(self, machine: Machine, agent: str) -> None:
        self.machine = machine
        self.agent = agent
        self.id = ""

    def arguments(self, words: str, *options: str, fork: bool = False) -> list[str]:
        if self.agent == "codex":
            how = [*(["fork" if fork else "resume", self.id] if self.id else [])]
            return ["exec", "--dangerously-bypass-hook-trust", *how, *options, words]
        how = [*(["--resume", self.id] if self.id else []), *(["--fork-session"] if fork else [])]
        return ["-p", "--model", "sonnet", *how, *options, words]

    def say(
        self, words: str, *options: str, fork: bool = False, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        return self.machine.agent(self.agent, *self.arguments(words, *options, fork=fork), cwd=cwd)

    def interrupt(self, words: str) -> None:
        """Say something, and press Ctrl-C before the model has answered."""
        model = self.machine.model
        model.holding.clear()
        model.release.clear()
        process = subprocess.Popen(
            [*self.machine.programs[self.agent], *self.arguments(f"{words} [[HOLD: late]]")],
            cwd=self.machine.project,
            env=self.machine.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            assert model.holding.wait(PATIENCE)
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE)
        finally:
            model.release.set()
            if process.poll() is None:
                process.kill()
                process.wait()

    def compact(self) -> None:
        """Let the agent make a summary of the session and go on from it."""
        if self.agent == "claude-code":
            self.say("/compact")
        else:
            self.say("Mention the assembler", "-c", "model_auto_compact_token_limit=50")

    def transcripts(self) -> list[Path]:
        """The files of the conversations, those of subagents apart."""
        place = {"claude-code": ".claude/projects", "codex": ".codex/sessions"}[self.agent]
        found = sorted((self.machine.root / place).rglob("*.jsonl"))
        return [path for path in found if "subagents" not in path.parts]

    def find_id(self) -> None:
        """Go on with the one session that there is."""
        (path,) = self.transcripts()
        first = json.loads(path.read_text("utf-8").splitlines()[0])
        self.id = first["sessionId"] if self.agent == "claude-code" else first["payload"]["id"]


@pytest.fixture(scope="module", params=sorted(WITH))
def session(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    models_dir: Path,
    program: Callable[[str], str],
) -> Iterator[Session]:
    """An agent with memsearch in it, for all tests of this file."""
    with Model() as model:
        machine = Machine(tmp_path_factory.mktemp("turns") / "me 我", model, models_dir)
        WITH[request.param](machine, program)
        machine.memsearch("install", request.param)
        yield Session(machine, request.param)


def turns(machine: Machine) -> dict[str, int]:
    found: dict[str, int] = json.loads(machine.memsearch("status", "--json", check=False).stdout)[
        "turns"
    ]
    return found


def test_a_turn_is_one_however_the_session_goes_on(session: Session) -> None:
    machine = session.machine
    session.say("Mention the cache")
    session.find_id()
    session.interrupt("Mention the throughput")
    session.say("Mention the scheduler")
    session.say("Mention the parser", fork=True)
    session.say(f"Mention a helper [[CALL: {SUBAGENT[session.agent]}]]")
    session.compact()
    session.say("Mention the linker")
    if session.agent == "claude-code":
        # The copies of what was said before the fork are in the other file.
        texts = [path.read_text("utf-8") for path in session.transcripts()]
        assert ["Mention the cache" in text for text in texts] == [True, True]
    asked = ["cache", "throughput", "scheduler", "parser", "linker"]
    asked += ["assembler"] if session.agent == "codex" else []
    machine.drain()
    machine.memsearch("backfill", "--platform", session.agent, "--yes")
    machine.drain()
    journal = machine.journal()
    assert {word: machine.times_asked(f"Mention the {word}") for word in asked} == dict.fromkeys(
        asked, 1
    )
    assert machine.times_asked("Mention a helper") == 1
    assert turns(machine) == {"done": len(asked) + 1}
    assert len(machine.anchors()) == len({anchor["turn"] for anchor in machine.anchors()})
    interrupted = journal.split("- User asked: Mention the throughput")[1].split("###")[0]
    assert "interrupted" in interrupted
    assert journal.count("interrupted") == interrupted.count("interrupted")
    # Nor are a subagent's task and the words of a compaction the user's.
    assert "- User asked: The words of a subagent" not in journal
    assert "being continued from a previous" not in journal
    (forked,) = (each for each in machine.anchors() if each["session"] != session.id)
    entry = journal.split("- User asked: Mention the parser")[0].rsplit("###")[-1]
    assert f"turn:{forked['turn']} " in entry


def test_the_same_project_from_everywhere(session: Session) -> None:
    """A turn is filed, and a note found by command line, skill and MCP, by the project alone."""
    machine, session.id = session.machine, ""
    make_places(machine)
    machine.note("2026-03-05", "rollout:~/x.jsonl", "The mail queue is a heap 堆")
    options: list[str] = []
    if session.agent == "claude-code":
        server = {"command": COMMAND[0], "args": [*COMMAND[1:], "mcp"]}
        options = ["--mcp-config", json.dumps({"mcpServers": {"memsearch": server}})]
        options += ["--allowedTools=mcp__memsearch__memory_search"]
        machine.settings["ENABLE_TOOL_SEARCH"] = "false"
    else:
        options = ["-s", "read-only", "--skip-git-repo-check"]
    machine.memsearch("workers", "start")
    try:
        for name, place in PLACES.items():
            recall_from(session, name, machine.root / place, options)
    finally:
        machine.memsearch("workers", "stop", check=False)
    machine.drain()
    assert_filed(machine, "Mention the place {}")


def recall_from(session: Session, name: str, folder: Path, options: list[str]) -> None:
    """Look for the note by command line, skill and MCP; it is found from inside alone."""
    machine = session.machine
    found = machine.search("mail queue 堆", cwd=folder)
    assert any("heap" in item["content"] for item in found) is (name != "outside"), name
    script = shlex.quote(str(machine.home / "agents" / "memsearch.sh"))
    for words in (
        f"Mention the place {name} [[SH: sh {script} search 'mail queue 堆' --top-k 3]]",
        '[[CALL: memory_search {"query": "mail queue 堆"}]]',
    ):
        machine.model.clear()
        done = session.say(words, *options, cwd=folder)
        assert "the tool has answered" in done.stdout
        if name == "outside":
            assert "The mail queue is a heap" not in machine.model.everything()
        else:
            machine.assert_recalled("The mail queue is a heap")


def test_a_run_that_ends_at_once_loses_nothing(session: Session) -> None:
    """With workers that hooks start: nobody drains, and the agent is gone."""
    machine, session.id = session.machine, ""
    config = machine.home / "config.toml"
    config.write_text("", encoding="utf-8")
    words = [f"Mention the run {number}" for number in range(3)]
    try:
        for each in words:
            session.say(each)
        deadline = time.monotonic() + PATIENCE
        while any(machine.times_asked(each) == 0 for each in words):
            assert time.monotonic() < deadline, machine.journal()
            time.sleep(0.1)
    finally:
        config.write_text("[workers]\nautostart = false\n", encoding="utf-8")
        machine.memsearch("workers", "stop", check=False)
    machine.drain()
    assert [machine.times_asked(each) for each in words] == [1, 1, 1]
    assert "dead" not in turns(machine)
