from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sources.base import Item, Turn
from memsearch.sources.render import confine, conversation_dict, render_conversation

TURN = Turn(
    platform="claude-code",
    id="t1",
    session="s1",
    at=datetime(2026, 3, 25, 23, 47, 1, tzinfo=UTC),
    cwd="/w/app",
    items=(
        Item("user", "fix it\n\nplease"),
        Item("tool", "pytest -k foo -x", name="Bash", output="1 failed", failed=True),
        Item("tool", '{"file_path": "/a"}', name="Read"),
        Item("assistant", "已修复 it"),
        Item("note", "The user interrupted this turn."),
    ),
    state="interrupted",
    anchor={"transcript": "/x/s1.jsonl"},
    truncated=12,
    aliases=("t1-alias",),
)


@pytest.fixture(autouse=True)
def shanghai(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_a_conversation_as_a_person_reads_it() -> None:
    other = replace(TURN, id="t2", items=(), private=True, truncated=0, state="finished")
    assert render_conversation([TURN, other], "t1") == (
        ">>> [2026-03-26 07:47:01] turn t1 (interrupted)\n"
        "User:\n"
        "    fix it\n"
        "\n"
        "    please\n"
        "Tool Bash (failed):\n"
        "    pytest -k foo -x\n"
        "  Output:\n"
        "    1 failed\n"
        "Tool Read:\n"
        '    {"file_path": "/a"}\n'
        "Claude Code:\n"
        "    已修复 it\n"
        "(The user interrupted this turn.)\n"
        "(12 characters of this turn are left out)\n"
        "\n"
        "[2026-03-26 07:47:01] turn t2 (finished)\n"
        "(private)\n"
    )


def test_an_alias_marks_its_turn() -> None:
    assert render_conversation([TURN], "t1-alias").startswith(">>> ")
    assert not render_conversation([TURN]).startswith(">>> ")
    assert render_conversation([]) == ""


def test_nothing_steers_the_terminal() -> None:
    turn = replace(TURN, items=(Item("assistant", "a\x1b[2J\x07b\r\nc\x9b1m\x00\td"),), truncated=0)
    text = render_conversation([turn])
    assert text.endswith("    a[2Jb\n    c1m\td\n")
    assert all(char.isprintable() or char in "\n\t" for char in text)


def test_an_agent_that_is_not_known_keeps_its_name() -> None:
    turn = replace(TURN, platform="other", items=(Item("assistant", "hi"),))
    assert "\nother:\n" in render_conversation([turn])


def test_a_conversation_as_json() -> None:
    value = json.loads(json.dumps(conversation_dict([TURN], "t1")))
    (turn,) = value["turns"]
    assert turn["at"] == "2026-03-25T23:47:01+00:00"
    assert (turn["turn"], turn["session"], turn["asked"], turn["state"]) == (
        "t1",
        "s1",
        True,
        "interrupted",
    )
    assert turn["items"][1] == {
        "kind": "tool",
        "text": "pytest -k foo -x",
        "name": "Bash",
        "output": "1 failed",
        "failed": True,
    }
    assert turn["items"][0] == {"kind": "user", "text": "fix it\n\nplease"}


# Where a transcript may be read from -------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "my home 家"
    projects = home / ".claude" / "projects" / "-w"
    projects.mkdir(parents=True)
    (projects / "s.jsonl").touch()
    (home / "secret.jsonl").touch()
    (projects / "out.jsonl").symlink_to(home / "secret.jsonl")
    (home / "in.jsonl").symlink_to(projects / "s.jsonl")
    (home / ".claude" / "projects-evil").mkdir()
    return home


@pytest.mark.parametrize(
    "path",
    [
        "~/.claude/projects/-w/s.jsonl",
        "~/.claude/projects/-w/../-w/s.jsonl",
        "~/.claude/projects/-w/gone.jsonl",
        "~/in.jsonl",
    ],
)
def test_paths_under_a_known_root(home: Path, path: str) -> None:
    name = "gone" if "gone" in path else "s"
    expected = str(home / ".claude" / "projects" / "-w" / f"{name}.jsonl")
    assert confine(path, {"HOME": str(home)}) == expected
    assert confine(path.replace("~", str(home)), {"HOME": str(home)}) == expected


@pytest.mark.parametrize(
    "path",
    [
        "~/secret.jsonl",
        "~/.claude/projects",
        "~/.claude/projects/",
        "~/.claude/projects/../../secret.jsonl",
        "~/.claude/projects/-w/out.jsonl",
        "~/.claude/projects-evil/s.jsonl",
        "/etc/passwd",
        "s.jsonl",
        "../s.jsonl",
        "~root/.claude/projects/s.jsonl",
        "",
        "~",
        "/x\x00y",
    ],
)
def test_paths_outside_are_refused(home: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home / ".claude" / "projects" / "-w")
    with pytest.raises(MemsearchError, match="no transcript of a known agent") as caught:
        confine(path, {"HOME": str(home)})
    assert caught.value.kind is ErrorClass.PERMISSION


def test_a_home_behind_a_link(home: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(home)
    expected = str(home / ".claude" / "projects" / "-w" / "s.jsonl")
    assert confine("~/.claude/projects/-w/s.jsonl", {"HOME": str(link)}) == expected


def test_roots_of_ones_own(home: Path) -> None:
    assert confine(str(home / "secret.jsonl"), {}, [str(home)]) == str(home / "secret.jsonl")
    with pytest.raises(MemsearchError, match="only under no folder"):
        confine(str(home / "secret.jsonl"), {}, [])
