"""How far the index lags behind the Markdown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memsearch.config.project import Project
from memsearch.recall.freshness import Freshness, check, merge
from memsearch.recall.logview import Document, LogView, Waiting

AT = "2026-03-05T10:00:00.000Z"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    root = tmp_path.resolve()
    memory = root / ".memsearch" / "memory"
    memory.mkdir(parents=True)
    return Project(str(root), str(memory), str(root), "c1")


def write(project: Project, name: str, text: str = "# x\n\ntext\n", mtime: int = 1_000) -> str:
    path = os.path.join(project.memory_dir, name)
    Path(path).write_text(text, encoding="utf-8")
    os.utime(path, ns=(mtime * 10**9, mtime * 10**9))
    return path


def known(project: Project, path: str, state: str = "done", **changed: object) -> Document:
    status = os.stat(path)
    source = os.path.relpath(path, project.base)
    return Document(source, path, state, AT, (status.st_mtime_ns, status.st_size), "m")


def log(*documents: Document, **waiting: int) -> LogView:
    turns = {"c1": Waiting(**waiting)} if waiting else {}  # type: ignore[arg-type]
    return LogView((), {"c1": documents}, turns)


def test_all_indexed(project: Project) -> None:
    path = write(project, "a.md")
    state = check(project, log(known(project, path)), [(path, False)])
    assert state == Freshness()
    assert not state.stale


def test_what_the_log_does_not_know_newest_first(project: Project) -> None:
    old = write(project, "old.md", mtime=1_000)
    new = write(project, "new.md", mtime=2_000)
    state = check(project, LogView(), [(old, False), (new, False)])
    assert [item.path for item in state.unindexed] == [new, old]
    assert (state.documents, state.since) == (2, "1970-01-01T00:16:40.000Z")
    assert state.unindexed[0].source == ".memsearch/memory/new.md"


@pytest.mark.parametrize("change", ["text", "mtime"])
def test_a_changed_file(project: Project, change: str) -> None:
    path = write(project, "a.md")
    document = known(project, path)
    if change == "text":
        write(project, "a.md", "# x\n\nlonger text\n")
    else:
        write(project, "a.md", mtime=1_001)
    state = check(project, log(document), [(path, False)])
    assert [item.path for item in state.unindexed] == [path]
    assert state.stale


def test_a_document_that_is_indexed_again_needs_no_scan(project: Project) -> None:
    path = write(project, "a.md")
    state = check(project, log(known(project, path, "open")), [(path, False)])
    assert (state.documents, state.renewing, state.unindexed, state.since) == (1, 1, (), AT)


def test_documents_elsewhere_are_those_that_the_log_knows(project: Project) -> None:
    path = os.path.join(project.root, "docs.md")
    Path(path).write_text("# docs\n\ntext\n", encoding="utf-8")
    document = known(project, path)
    assert check(project, log(document), []) == Freshness()
    Path(path).write_text("# docs\n\nother text\n", encoding="utf-8")
    assert [item.source for item in check(project, log(document), []).unindexed] == ["docs.md"]


def test_a_file_that_is_gone(project: Project) -> None:
    path = write(project, "a.md")
    document = known(project, path)
    os.unlink(path)
    state = check(project, log(document), [(path, False)])
    assert state.gone == {".memsearch/memory/a.md"}
    assert state.unindexed == ()


def test_waiting_turns_and_dead_ones(project: Project) -> None:
    path = write(project, "a.md")
    document = known(project, path, "dead")
    view = LogView((), {"c1": (document,)}, {"c1": Waiting(3, 2, 0, AT)}, (4, None))
    state = check(project, view, [(path, False)])
    assert (state.turns, state.dead, state.hooks, state.since) == (3, 3, 4, AT)
    assert state.as_dict() == {
        "stale": True,
        "turns": 3,
        "hooks": 4,
        "dead": 3,
        "documents": 1,
        "renewing": 0,
        "since": AT,
    }
    # An index that was made anew may have gone on without it: its text is read.
    assert [item.path for item in state.unindexed] == [path]


def test_empty_files_do_not_count(project: Project) -> None:
    path = write(project, "a.md", "")
    assert check(project, LogView(), [(path, False)]) == Freshness()


def test_several_projects_together(project: Project) -> None:
    one = Freshness(turns=1, hooks=2, documents=1, since="2026-03-05", gone=frozenset({"a"}))
    two = Freshness(turns=2, hooks=2, dead=1, since="2026-03-04", gone=frozenset({"b"}))
    both = merge([one, two])
    assert (both.turns, both.hooks, both.dead, both.documents) == (3, 2, 1, 1)
    assert both.since == "2026-03-04"
    assert both.gone == frozenset({"a", "b"})
    assert merge([]) == Freshness()
