"""Wherever one stands in a project, hook, command, skill and tool know the same memory."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from memsearch.config.project import resolve

COMMAND = [sys.executable, "-P", "-m", "memsearch._entry"]
NOTE = "The mail queue is a heap 堆"


def write_note(memory: Path) -> None:
    memory.mkdir(parents=True)
    (memory / "2026-03-05.md").write_text(
        f"# 2026-03-05\n\n### 10:00\n- {NOTE}\n", encoding="utf-8"
    )
    run = Path(os.environ["MEMSEARCH_HOME"]) / "run"
    run.mkdir(parents=True, exist_ok=True)
    (run / "trusted").write_text(f"{memory.resolve()}\n", encoding="utf-8")


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    """One repository, and the ways into it; one folder that is no repository."""
    project = tmp_path / "my 项目"
    deep = project / "src" / "deep"
    deep.mkdir(parents=True)
    (deep / "x").touch()
    git = ["git", "-c", "user.name=d", "-c", "user.email=d@example.com", "-C", str(project)]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], check=True)
    worktree = tmp_path / "tree"
    subprocess.run([*git, "worktree", "add", "-q", str(worktree)], check=True)
    (tmp_path / "link").symlink_to(deep)
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    return {
        "top": project,
        "subdirectory": deep,
        "symlink": tmp_path / "link",
        "worktree": worktree / "src",
        "outside git": outside / "deep",
    }


def run(words: list[str], cwd: Path, given: object = None, **environ: str) -> str:
    done = subprocess.run(
        [*COMMAND, *words],
        input=json.dumps(given) if given is not None else "",
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "PWD": str(cwd), **environ},
        check=True,
    )
    return done.stdout


def all_ways(cwd: Path, **environ: str) -> dict[str, str]:
    """What each way to the memory answers from a folder."""
    hook = {"session_id": "s", "cwd": str(cwd), "hook_event_name": "SessionStart"}
    prompt = {**hook, "prompt": "what is the mail queue?", "hook_event_name": "UserPromptSubmit"}
    asked = {"cwd": str(cwd), "arguments": {"query": "mail queue"}}
    elsewhere = Path("/")  # a hook's own folder need not be the project's
    return {
        "context": run(["context", "--platform", "codex"], elsewhere, hook, **environ),
        "hint": run(["hint", "--platform", "codex"], elsewhere, prompt, **environ),
        "search": run(["search", "mail queue"], cwd, **environ),
        "list": run(["list", "--full"], cwd, **environ),
        "tool": run(["tool", "memory_search"], elsewhere, asked, **environ),
    }


@pytest.mark.parametrize("name", ["top", "subdirectory", "symlink", "worktree", "outside git"])
def test_the_same_memory_from_everywhere(places: dict[str, Path], name: str) -> None:
    cwd = places[name]
    root = places["outside git"].parent if name == "outside git" else places["top"]
    write_note(root / ".memsearch" / "memory")
    found = all_ways(cwd)
    assert "heap" in json.loads(found["context"])["hookSpecificOutput"]["additionalContext"]
    assert "Memory available" in found["hint"]
    for way in ("search", "list", "tool"):
        assert NOTE in found[way], way
    # What a hook stores leads the worker to the same project.
    run(
        ["enqueue", "--platform", "codex"],
        Path("/"),
        {"session_id": "s", "cwd": str(cwd), "hook_event_name": "Stop"},
    )
    with closing(sqlite3.connect(Path(os.environ["MEMSEARCH_HOME"]) / "state.db")) as db:
        ((data,),) = db.execute("SELECT data FROM events").fetchall()
    stored = json.loads(data)["cwd"]
    assert resolve(stored, os.environ).memory_dir == str(root.resolve() / ".memsearch" / "memory")


def test_an_override_moves_all_of_them(places: dict[str, Path], tmp_path: Path) -> None:
    elsewhere = tmp_path / "else where"
    write_note(elsewhere / "memory")
    for answer in all_ways(places["subdirectory"], MEMSEARCH_DIR=str(elsewhere)).values():
        assert "heap" in answer or "Memory available" in answer
    run(
        ["enqueue", "--platform", "codex"],
        Path("/"),
        {"session_id": "s", "cwd": str(places["top"])},
        MEMSEARCH_DIR=str(elsewhere),
    )
    with closing(sqlite3.connect(Path(os.environ["MEMSEARCH_HOME"]) / "state.db")) as db:
        ((data,),) = db.execute("SELECT data FROM events").fetchall()
    assert json.loads(data)["env"]["MEMSEARCH_DIR"] == str(elsewhere)
