"""The script that finds memsearch for an agent, in a real shell."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from memsearch import __version__

ROOT = Path(__file__).resolve().parent.parent.parent.parent
LAUNCHER = ROOT / "hooks" / "assets" / "memsearch.sh"
OURS = '#!/bin/sh\n# from memsearch._entry import main\nprintf \'%s|\' "$0" "$@"\n'
NAMESAKE = "#!/bin/sh\n# from memsearch.cli import main\necho namesake\nexit 2\n"


class User:
    """A home folder and a script in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "it's .memsearch"
        self.script = self.home / "agents" / "memsearch.sh"
        self.script.parent.mkdir(parents=True)
        shutil.copy(LAUNCHER, self.script)
        self.path = folder / "bin"
        self.path.mkdir()

    def program(self, path: Path, text: str = OURS) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
        return path

    def run(
        self, *words: str, script: Path | None = None, given: str = "{}", **environ: str
    ) -> str:
        done = subprocess.run(
            ["/bin/sh", script or self.script, *words],
            input=given,
            capture_output=True,
            text=True,
            env={"HOME": str(self.folder), "PATH": f"{self.path}:/usr/bin:/bin", **environ},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path / "me 'x' 我")


def test_the_noted_command_comes_first(user: User) -> None:
    noted = user.program(user.folder / "venv x" / "memsearch")
    user.program(user.path / "memsearch")
    (user.home / "agents" / "command").write_text(f"{noted}\n", encoding="utf-8")
    assert user.run("search", "a b", "项;$(x)") == f"{noted}|search|a b|项;$(x)|"


def test_a_noted_command_that_is_gone_is_looked_for(user: User) -> None:
    (user.home / "agents" / "command").write_text("/gone/memsearch\n", encoding="utf-8")
    found = user.program(user.path / "memsearch")
    assert user.run("hint") == f"{found}|hint|"


@pytest.mark.parametrize("place", [".local/bin/memsearch", "it's .memsearch/venv/bin/memsearch"])
def test_a_namesake_on_the_path_is_passed_over(user: User, place: str) -> None:
    user.program(user.path / "memsearch", NAMESAKE)
    found = user.program(user.folder / place)
    assert user.run("enqueue") == f"{found}|enqueue|"


@pytest.mark.parametrize("command", ["enqueue", "hint", "permit"])
def test_nothing_to_run_fails_no_hook(user: User, command: str) -> None:
    user.program(user.path / "memsearch", NAMESAKE)
    assert user.run(command, "--platform", "codex") == "{}\n"
    assert user.run(command, "--format", "text") == ""


def test_a_session_is_told_that_nothing_is_installed(user: User) -> None:
    assert "not installed" in json.loads(user.run("context"))["systemMessage"]


def test_our_own_summariser_is_not_even_looked_for(user: User) -> None:
    user.program(user.path / "memsearch")
    assert user.run("enqueue", MEMSEARCH_INTERNAL="1") == "{}\n"
    assert user.run("context", "--format", "text", MEMSEARCH_DISABLE="1") == ""


def test_without_arguments_and_an_event_it_runs_nothing(user: User) -> None:
    user.program(user.path / "memsearch")
    assert user.run() == "{}\n"
    assert user.run(given="") == "{}\n"


@pytest.mark.parametrize("event", ["SessionStart", "UserPromptSubmit", "PreToolUse", "Stop"])
def test_a_release_that_passes_over_arguments_is_served_by_the_event(
    user: User, event: str
) -> None:
    """What the list of the plugin's file would have said, from the hook's input."""
    user.program(user.path / "memsearch", OURS + "cat\n")
    listed = json.loads((ROOT / "hooks/assets/claude-code/hooks.json").read_text())["hooks"]
    (hook,) = listed[event][0]["hooks"]
    words = "|".join(hook["args"])
    text = '50 % \\ "hook_event_name":"PreToolUse" \n `x` $(x) 项目 ' + "x" * 300_000
    given = json.dumps({"prompt": text, "hook_event_name": event}, separators=(",", ":"))
    assert user.run(given=given) == f"{user.path / 'memsearch'}|{words}|{given}"
    assert user.run(given=given, MEMSEARCH_INTERNAL="1") == "{}\n"


def test_before_the_set_up_hooks_run_from_the_checkout(user: User) -> None:
    """With Python alone: none of the dependencies, no site-packages."""
    user.program(
        user.path / "python3", f'#!/bin/sh\nexec "{os.path.realpath("/usr/bin/python3")}" "$@"\n'
    )
    payload = {"session_id": "s", "transcript_path": "/s.jsonl", "hook_event_name": "Stop"}
    done = subprocess.run(
        ["/bin/sh", LAUNCHER, "enqueue", "--platform", "claude-code"],
        input=json.dumps(payload),
        capture_output=True,
        text=True,
        env={"HOME": str(user.folder), "PATH": "/usr/bin:/bin", "MEMSEARCH_HOME": str(user.home)},
        check=False,
    )
    if not (user.home / "state.db").exists():
        pytest.skip(f"the system has no Python 3.11 of its own: {done.stderr}")
    assert (done.returncode, done.stdout) == (0, "{}\n")
    with closing(sqlite3.connect(user.home / "state.db")) as db:
        assert db.execute("SELECT type FROM events").fetchall() == [("HookReceived",)]
    assert not (ROOT / "hooks" / "assets" / "__pycache__").exists()


@pytest.mark.parametrize(
    ("stamp", "command", "renewed"),
    [
        (__version__, "context", False),
        ("0.0.1", "context", True),
        (None, "context", True),
        ("0.0.1", "enqueue", False),
        ("0.0.1", "search", False),
    ],
)
def test_an_updated_plugin_is_seen_at_the_start_of_a_session(
    user: User, stamp: str | None, command: str, renewed: bool
) -> None:
    log = user.folder / "log"
    venv = user.home / "venv"
    found = user.program(venv / "bin" / "memsearch")
    user.program(venv / "bin" / "python", f'#!/bin/sh\necho "$@" >>"{log}"\necho noise\n')
    (user.home / "agents" / "command").write_text(f"{found}\n", encoding="utf-8")
    if stamp is not None:
        (venv / "version").write_text(f"{stamp}\n", encoding="utf-8")
    said = user.run(command, "x", script=LAUNCHER, MEMSEARCH_HOME=str(user.home))
    assert said == f"{found}|{command}|x|"
    expected = f"-I -B {ROOT}/hooks/assets/bootstrap.py --renew\n" if renewed else ""
    assert (log.read_text() if log.exists() else "") == expected


def test_what_a_person_installed_is_not_made_anew(user: User) -> None:
    found = user.program(user.folder / "own" / "bin" / "memsearch")
    (user.home / "agents" / "command").write_text(f"{found}\n", encoding="utf-8")
    said = user.run("context", script=LAUNCHER, MEMSEARCH_HOME=str(user.home))
    assert said == f"{found}|context|"
    assert not (user.home / "run").exists()
