"""A small world for acceptance tests: a home, a project, an agent that writes a transcript.

Everything runs as a user's machine runs it: the installed command in subprocesses, real
SQLite, real Milvus Lite, the real model. Only the language model is a stub, on a socket.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import time
import uuid
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

#: The command as an agent's hook runs it. -P: the tests' working folder holds a folder that
#: is called memsearch.
COMMAND = [sys.executable, "-P", "-m", "memsearch._entry"]
#: Seconds that any one command may take before a test gives up on it.
PATIENCE = 120

#: Variables of the tester's own shell that must not reach the commands.
_FOREIGN = re.compile(r"MEMSEARCH_|CLAUDE|CODEX|OPENAI_|ANTHROPIC_|OPENCODE|OPENCLAW")


@dataclass
class World:
    """One user's machine.

    Attributes:
        root: Where everything lies; its name holds a space, quotes and Chinese.
        models: A folder with the converted model, shared by all worlds.
    """

    root: Path
    models: Path
    settings: dict[str, str] = field(default_factory=dict)
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.home = self.root / "home .memsearch"
        self.project = self.root / 'my "proj\'ect" 项目'
        self.project.mkdir(parents=True)
        subprocess.run(["git", "init", "-q", str(self.project)], check=True)
        self.home.mkdir(mode=0o700)
        (self.home / "models").symlink_to(self.models)
        self.agent = self.root / "claude"

    @property
    def environ(self) -> dict[str, str]:
        """The environment of a command."""
        kept = {name: value for name, value in os.environ.items() if not _FOREIGN.match(name)}
        return kept | {
            "HOME": str(self.root),
            "CLAUDE_CONFIG_DIR": str(self.agent),
            "MEMSEARCH_HOME": str(self.home),
            "MEMSEARCH_WORKERS__AUTOSTART": "false",
            "MEMSEARCH_SUMMARIZE__PROVIDER": "extractive",
            "TZ": "UTC",
            **self.settings,
        }

    def run(
        self,
        *arguments: str,
        stdin: str | bytes = "",
        cwd: Path | None = None,
        check: int | None = 0,
        **environ: str,
    ) -> subprocess.CompletedProcess[str]:
        """Run the command in the project; ``check`` is the exit code that is expected."""
        data = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(
            [*COMMAND, *arguments],
            input=data,
            capture_output=True,
            cwd=cwd or self.project,
            env=self.environ | environ,
            timeout=PATIENCE,
            check=False,
        )
        text = subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )
        if check is not None:
            assert text.returncode == check, f"{arguments}: {text.stdout}\n{text.stderr}"
        return text

    def start(self, *arguments: str, **environ: str) -> subprocess.Popen[bytes]:
        """Start the command and leave it running."""
        started = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=self.project,
            env=self.environ | environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.started.append(started)
        return started

    def hook(self, payload: dict[str, Any], **options: Any) -> subprocess.CompletedProcess[str]:
        """A hook of Claude Code with its JSON."""
        text = json.dumps(payload, ensure_ascii=False)
        return self.run("enqueue", "--platform", "claude-code", stdin=text, **options)

    def drain(self, *options: str, check: int | None = 0, **environ: str) -> dict[str, Any]:
        """Work what is due; the summary."""
        done = self.run("workers", "--drain", "--json", *options, check=check, **environ)
        counts: dict[str, Any] = json.loads(done.stdout)
        return counts

    def status(self) -> dict[str, Any]:
        """What ``status --json`` says, whatever its exit code."""
        found: dict[str, Any] = json.loads(self.run("status", "--json", check=None).stdout)
        return found

    def search(self, *arguments: str, **options: Any) -> list[dict[str, Any]]:
        """The results of a search."""
        done = self.run("search", *arguments, "--json", **options)
        found = json.loads(done.stdout)
        return found["results"] if isinstance(found, dict) else found

    def stop(self) -> None:
        """End a worker that lives."""
        self.run("workers", "stop", check=None)
        for started in self.started:
            if started.poll() is None:
                started.terminate()
            started.wait(30)

    # -- what is there -------------------------------------------------------------------------

    @property
    def memory(self) -> Path:
        return self.project / ".memsearch" / "memory"

    def journal(self) -> str:
        """All journals of the project, oldest day first."""
        return "".join(path.read_text("utf-8") for path in sorted(self.memory.glob("*.md")))

    def entries(self) -> list[str]:
        """The turn ids of all entries, in the order of the files."""
        return re.findall(r"<!-- session:\S+ turn:(\S+) ", self.journal())

    def sql(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Rows of the home's database."""
        with closing(sqlite3.connect(self.home / "state.db", timeout=30)) as db:
            return db.execute(query, parameters).fetchall()

    def wait_for(self, done: Any, seconds: float = 60.0) -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + seconds
        while not self._is_so(done):
            assert time.monotonic() < deadline, "it did not come about"
            time.sleep(0.05)

    @staticmethod
    def _is_so(done: Any) -> bool:
        """Whether it is; a database whose tables are not made yet says nothing is so."""
        try:
            return bool(done())
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return False
            raise


class Session:
    """A conversation with Claude Code: it writes the transcript and knows its hooks' JSON."""

    def __init__(self, world: World, name: str = "", at: datetime | None = None) -> None:
        self.world = world
        self.id = name or str(uuid.uuid4())
        folder = world.agent / "projects" / "-home-dev-demo"
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{self.id}.jsonl"
        self.at = at or datetime.now(UTC)
        self._last: str | None = None

    def record(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Append one record to the transcript."""
        self.at += timedelta(seconds=1)
        record = {
            "parentUuid": self._last,
            "isSidechain": False,
            "type": kind,
            "uuid": str(uuid.uuid4()),
            "timestamp": self.at.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z",
            "cwd": str(self.world.project),
            "sessionId": self.id,
            "version": "2.1.332",
            **fields,
        }
        self._last = record["uuid"]
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
        return record

    def ask(self, words: str, turn: str = "") -> str:
        """The user's message; returns the turn's id."""
        turn = turn or str(uuid.uuid4())
        self.record("user", promptId=turn, message={"role": "user", "content": words})
        return turn

    def answer(self, words: str, *, stop: str | None = "end_turn") -> None:
        """The agent's words."""
        self._assistant([{"type": "text", "text": words}], stop)

    def tool(self, command: str, output: str, turn: str) -> None:
        """A shell command that the agent ran, and its output."""
        call = f"toolu_{uuid.uuid4().hex[:12]}"
        block = {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": command}}
        self._assistant([block], "tool_use")
        result = {"type": "tool_result", "tool_use_id": call, "content": output}
        self.record("user", promptId=turn, message={"role": "user", "content": [result]})

    def _assistant(self, content: list[dict[str, Any]], stop: str | None) -> None:
        self.record(
            "assistant",
            message={
                "id": f"msg_{uuid.uuid4().hex[:12]}",
                "type": "message",
                "role": "assistant",
                "model": "claude-sonnet-5-5",
                "content": content,
                "stop_reason": stop,
            },
        )

    def turn(self, words: str, reply: str, *, command: str = "", turn: str = "") -> str:
        """A whole turn."""
        turn = self.ask(words, turn)
        if command:
            self.tool(command, "ok", turn)
        self.answer(reply)
        return turn

    def payload(self, event: str = "Stop", turn: str = "", **fields: Any) -> dict[str, Any]:
        """A hook's JSON as Claude Code writes it."""
        payload = {
            "session_id": self.id,
            "transcript_path": str(self.path),
            "cwd": str(self.world.project),
            "hook_event_name": event,
            **fields,
        }
        if turn:
            payload["prompt_id"] = turn
        if event == "Stop":
            payload.setdefault("stop_hook_active", False)
        return payload
