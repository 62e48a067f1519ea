"""One user's machine with real agents on it, a stub in the place of every model."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from model import Model

#: Seconds that one command may take.
PATIENCE = 180
COMMAND = [sys.executable, "-P", "-m", "memsearch._entry"]


@dataclass
class Machine:
    """A home folder whose name holds a space and Chinese, with a project in it.

    Attributes:
        root: The user's home folder.
        model: The stub.
        models: A folder with memsearch's own converted model.
        programs: Agent → the argument list that runs it.
        paths: Folders at the front of the PATH (a Node of its own).
    """

    root: Path
    model: Model
    models: Path
    programs: dict[str, list[str]] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.home = self.root / ".memsearch"
        self.project = self.root / "my 项目"
        self.project.mkdir(parents=True)
        git = ["git", "-c", "user.name=dev", "-c", "user.email=dev@example.com"]
        subprocess.run([*git, "init", "-q", "-b", "main", "."], cwd=self.project, check=True)
        (self.project / "README.md").write_text("# demo\n", encoding="utf-8")
        subprocess.run(["git", "add", "."], cwd=self.project, check=True)
        subprocess.run([*git, "commit", "-qm", "start"], cwd=self.project, check=True)
        self.home.mkdir(mode=0o700)
        (self.home / "models").symlink_to(self.models)
        # In the file, since an agent hands few variables to what it starts.
        config = self.home / "config.toml"
        config.write_text("[workers]\nautostart = false\n", encoding="utf-8")
        config.chmod(0o600)
        self.settings: dict[str, str] = {}

    @property
    def environ(self) -> dict[str, str]:
        """A clean environment: nothing of the tester's, no way out to the network."""
        own = {
            "PATH": os.pathsep.join([*self.paths, "/usr/local/bin", "/usr/bin", "/bin"]),
            "HOME": str(self.root),
            "TERM": "dumb",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "NO_COLOR": "1",
            "MEMSEARCH_SUMMARIZE__PROVIDER": "extractive",
        }
        # Where the package is run from without being installed.
        if "PYTHONPATH" in os.environ:
            own["PYTHONPATH"] = os.environ["PYTHONPATH"]
        return own | self.settings

    def agent(
        self, name: str, *arguments: str, stdin: str = "", cwd: Path | None = None, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """Run an agent; it has to succeed."""
        return self._run([*self.programs[name], *arguments], stdin, cwd, environ)

    def on_path(self, agent: str, name: str) -> None:
        """Put an agent's program on the PATH, as its user has it."""
        folder = self.root / "bin"
        folder.mkdir(exist_ok=True)
        words = " ".join(shlex.quote(word) for word in self.programs[agent])
        (folder / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
        (folder / name).chmod(0o755)
        if str(folder) not in self.paths:
            self.paths.append(str(folder))

    def memsearch(
        self,
        *arguments: str,
        stdin: str = "",
        cwd: Path | None = None,
        check: bool = True,
        **environ: str,
    ) -> subprocess.CompletedProcess[str]:
        """Run memsearch."""
        return self._run([*COMMAND, *arguments], stdin, cwd, environ, check=check)

    def _run(
        self,
        argv: list[str],
        stdin: str,
        cwd: Path | None,
        environ: dict[str, str],
        *,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            argv,
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            cwd=cwd or self.project,
            env=self.environ | environ,
            timeout=PATIENCE,
            check=False,
        )
        if check:
            assert done.returncode == 0, f"{argv}\n{done.stdout}\n{done.stderr}"
        return done

    def drain(self) -> None:
        """Work everything that is due."""
        self.memsearch("workers", "--drain")

    def wait_for_hooks(self, number: int) -> None:
        """Until so many hooks have been received; the last may still be on their way."""
        deadline = time.monotonic() + PATIENCE
        while True:
            status = json.loads(self.memsearch("status", "--json", check=False).stdout)
            if sum(status["hooks"].values()) >= number:
                return
            assert time.monotonic() < deadline, status
            time.sleep(0.2)

    @contextlib.contextmanager
    def worker(self) -> Iterator[None]:
        """A worker at hand: what ends is captured at once, and a tool loads no model."""
        self.memsearch("workers", "start")
        try:
            yield
        finally:
            self.memsearch("workers", "stop", check=False)

    def settle(self, *words: str) -> None:
        """Until a worker has captured turns with these words, and all that there is to do."""
        deadline = time.monotonic() + PATIENCE
        while True:
            status = json.loads(self.memsearch("status", "--json", check=False).stdout)
            open_ones = [*status["hooks"], *status["turns"]].count("open")
            behind = sum(each["not_indexed"] for each in status["documents"])
            if not open_ones and not behind and all(map(self.times_asked, words)):
                return
            assert time.monotonic() < deadline, (status, self.journal())
            time.sleep(0.2)

    def times_asked(self, words: str) -> int:
        """In how many entries of the journal the user said something."""
        return len(
            re.findall(f"^- (?:User asked: |用户提出：){re.escape(words)}", self.journal(), re.M)
        )

    def search(self, *arguments: str, cwd: Path | None = None) -> list[dict[str, Any]]:
        """The results of a search."""
        found = json.loads(self.memsearch("search", *arguments, "--json", cwd=cwd).stdout)
        return list(found)

    @property
    def memory(self) -> Path:
        """The folder of the journals."""
        return self.project / ".memsearch" / "memory"

    def journal(self) -> str:
        """All journals."""
        return "".join(path.read_text("utf-8") for path in sorted(self.memory.glob("*.md")))

    def anchors(self) -> list[dict[str, str]]:
        """The anchors of all entries, in order."""
        return [
            dict(pair.split(":", 1) for pair in found.split())
            for found in re.findall(r"<!-- (session:.*?) -->", self.journal())
        ]

    def assert_recalled(self, text: str) -> None:
        """A model was given a text as the answer of a search, and not unasked."""
        if not self.recalled(text):
            asked = self.model.requests
            shown = [request.text[-3_000:] for request in asked]
            raise AssertionError(f"{text!r} is in none of {len(asked)} requests: {shown}")

    def recalled(self, text: str) -> bool:
        """Whether a model was given a text as the answer of a search."""
        marks = ("Found in the memory of earlier sessions", text)
        return any(all(mark in each.text for mark in marks) for each in self.model.requests)

    def note(self, day: str, platform_key: str, text: str) -> None:
        """An entry that another agent made, with its anchor."""
        self.memory.mkdir(parents=True, exist_ok=True)
        with (self.memory / f"{day}.md").open("a", encoding="utf-8") as file:
            file.write(
                f"# {day}\n\n## Session 09:00\n\n### 09:00\n"
                f"<!-- session:other turn:other-1 {platform_key} -->\n- {text}\n"
            )

    def note_command(self, checkout: Path) -> None:
        """What the set-up of a plugin leaves: memsearch is on no PATH, a note names it."""
        agents = self.home / "agents"
        agents.mkdir()
        words = " ".join(shlex.quote(word) for word in COMMAND)
        path = shlex.quote(self.environ.get("PYTHONPATH", ""))
        script = agents / "memsearch"
        script.write_text(f'#!/bin/sh\nPYTHONPATH={path} exec {words} "$@"\n', encoding="utf-8")
        script.chmod(0o755)
        (agents / "command").write_text(f"{script}\n", encoding="utf-8")
        shutil.copy(checkout / "hooks" / "assets" / "memsearch.sh", agents)


def copy_of_the_repository(folder: Path) -> Path:
    """This checkout's files as a clone has them."""
    root = Path(__file__).resolve().parent.parent.parent
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (root / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, folder / name)
    return folder


def snapshot(folder: Path) -> dict[str, str]:
    """Every file below a folder, by its content."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }
