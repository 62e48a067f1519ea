"""Compaction in one process: what is planned, and what a write at a bad moment changes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import Home
from memsearch.config.project import Project
from memsearch.pipeline import compact
from memsearch.pipeline.engine import Engine
from memsearch.pipeline.log import EventLog
from memsearch.sinks import digest

UNTIL = date(2026, 3, 1)


def journal(day: str, entries: int = 2) -> str:
    text = f"# {day}\n\n## Session 10:00\n\n"
    for number in range(entries):
        text += (
            f"### 10:{number:02d}\n<!-- session:s turn:t-{day}-{number}"
            f" transcript:~/.claude/projects/p/s.jsonl -->\n- Asked {number}\n\n"
        )
    return text


@pytest.fixture
def project(tmp_path: Path) -> Project:
    root = tmp_path / "p"
    memory = root / ".memsearch" / "memory"
    memory.mkdir(parents=True)
    return Project(str(root), str(memory), str(root))


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    home = Home(str(tmp_path / "home"))
    home.create()
    log = EventLog(home.state_db)
    made = Engine(home, {"MEMSEARCH_SUMMARIZE__PROVIDER": "extractive"}, log)
    yield made
    made.close()
    log.close()


def write(project: Project, name: str, text: str) -> Path:
    path = Path(project.memory_dir, name)
    path.write_text(text, "utf-8")
    return path


def run(engine: Engine, project: Project) -> dict[str, Any]:
    plan = compact.make_plan(engine, project, UNTIL)
    return compact.carry_out(engine, project, plan, cause="request")


def test_what_is_planned(engine: Engine, project: Project) -> None:
    for day in ("2026-01-30", "2026-02-01", "2026-03-01", "2026-03-02"):
        write(project, f"{day}.md", journal(day))
    write(project, "2026-02-02.host.md", journal("2026-02-02"))
    write(project, "2026-02-03.md", "# 2026-02-03\n\n")  # says nothing
    write(project, "MEMORY.md", "Mine\n")
    os.symlink(write(project, "else.md", "x"), Path(project.memory_dir, "2026-02-04.md"))
    os.mkfifo(Path(project.memory_dir, "2026-02-05.md"))
    badly = os.fsdecode(b"2026-02-06 (\xe9).md")
    write(project, badly, journal("2026-02-06"))
    plan = compact.make_plan(engine, project, UNTIL)
    assert {month: [file.name for file in files] for month, files in plan.months().items()} == {
        "2026-01": ["2026-01-30.md"],
        "2026-02": ["2026-02-01.md", "2026-02-02.host.md"],
        "2026-03": ["2026-03-01.md"],
    }
    assert {Path(item.path).name: item.why for item in plan.left} == {
        "2026-02-04.md": "it is a link",
        "2026-02-05.md": "it is no regular file",
        r"2026-02-06 (\xe9).md": "its name is not UTF-8",
    }
    run(engine, project)
    assert sorted(os.listdir(project.memory_dir)) == [
        "2026-02-03.md",
        "2026-02-04.md",
        "2026-02-05.md",
        badly,
        "2026-03-02.md",
        "MEMORY.md",
        "digest-2026-01.md",
        "digest-2026-02.md",
        "digest-2026-03.md",
        "else.md",
    ]


def test_a_write_at_the_last_moment_is_taken_back(
    engine: Engine, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(project, "2026-02-01.md", journal("2026-02-01"))
    other = write(project, "2026-02-02.md", journal("2026-02-02"))
    real = os.rename

    def rename(source: str, target: str) -> None:
        if source == str(path):
            with path.open("a", encoding="utf-8") as file:
                file.write("\nMine, just now\n")
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)
    done = run(engine, project)
    assert done["left"] == [{"path": str(path), "why": compact.CHANGED}]
    assert [item["journal"] for item in done["moved"]] == [str(other)]
    assert "Mine, just now" in path.read_text("utf-8")
    monkeypatch.undo()
    run(engine, project)
    text = Path(project.memory_dir, "digest-2026-02.md").read_text("utf-8")
    assert text.count("Asked 0") == 2
    assert text.count("Mine, just now") == 1


@pytest.mark.parametrize("loses", ["notes", "marks", "own"])
def test_a_digest_that_does_not_stand_for_all_moves_nothing(
    engine: Engine, project: Project, monkeypatch: pytest.MonkeyPatch, loses: str
) -> None:
    path = write(project, "2026-02-01.md", journal("2026-02-01") + "## Mine\n\nWord for word\n")
    real = digest.block_of

    def block_of(name: str, day: str, notes: Any, parts: Any) -> str:
        block = real(name, day, [] if loses == "notes" else notes, parts)
        if loses == "own":
            return block.replace("Word for word", "word")
        return block.replace("<!-- end of", "<!-- the end of") if loses == "marks" else block

    monkeypatch.setattr(digest, "block_of", block_of)
    with pytest.raises(MemsearchError, match="does not stand for") as caught:
        run(engine, project)
    assert caught.value.kind is ErrorClass.BAD_ANSWER
    assert path.exists()
    assert os.listdir(os.path.join(os.path.dirname(project.memory_dir), "archive")) == []


def test_a_digest_that_is_a_link_is_refused(engine: Engine, project: Project) -> None:
    path = write(project, "2026-02-01.md", journal("2026-02-01"))
    outside = Path(project.root, "outside.md")
    outside.write_text("mine", "utf-8")
    Path(project.memory_dir, "digest-2026-02.md").symlink_to(outside)
    with pytest.raises(MemsearchError, match="not a regular file"):
        run(engine, project)
    assert outside.read_text("utf-8") == "mine"
    assert path.exists()
