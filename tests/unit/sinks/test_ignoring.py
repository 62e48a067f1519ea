"""Which files below a folder are left out, as git would have it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from memsearch.sinks.documents import walk
from memsearch.sinks.ignoring import Rules


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in (
        *("a.md", "docs/b.md", "docs/old/c.md", "docs/old/keep.md", "build/d.md", "x/build/e.md"),
        *("node_modules/f.md", ".hidden/g.md", "docs/.obsidian/h.md", "docs/drafts/i.md"),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x", "utf-8")
    return tmp_path


def names(root: Path, **how: object) -> set[str]:
    found = walk([str(root)], **how)  # type: ignore[arg-type]
    return {str(Path(path).relative_to(root)) for path in found.files}


ALL = {
    *("a.md", "docs/b.md", "docs/old/c.md", "docs/old/keep.md", "build/d.md", "x/build/e.md"),
    "docs/drafts/i.md",
}


@pytest.mark.parametrize(
    ("lines", "gone"),
    [
        ("", set()),
        ("# a comment\n\n", set()),
        ("build/\n", {"build/d.md", "x/build/e.md"}),
        ("/build/\n", {"build/d.md"}),
        ("docs/old/*\n!docs/old/keep.md\n", {"docs/old/c.md"}),
        ("docs/old/\n!docs/old/keep.md\n", {"docs/old/c.md", "docs/old/keep.md"}),
        ("**/drafts\n", {"docs/drafts/i.md"}),
        ("*.md\n!a.md\n", ALL - {"a.md"}),
        ("[\n!\nbuild\n", {"build/d.md", "x/build/e.md"}),
        ("[z-a].md\nbuild\n", {"build/d.md", "x/build/e.md"}),
    ],
)
def test_patterns_and_ignore_files_say_the_same(tree: Path, lines: str, gone: set[str]) -> None:
    assert names(tree) == ALL
    assert names(tree, exclude=lines.splitlines()) == ALL - gone
    (tree / ".memsearchignore").write_text(lines, "utf-8")
    assert names(tree) == ALL - gone
    (tree / ".memsearchignore").rename(tree / ".gitignore")
    assert names(tree) == ALL
    assert names(tree, ignore_files=[".gitignore"]) == ALL - gone
    git = shutil.which("git")
    if git and "[" not in lines:
        subprocess.run([git, "init", "-q", str(tree)], check=True)
        listed = subprocess.run(
            [git, "ls-files", "-co", "--exclude-standard", "*.md"],
            cwd=tree,
            capture_output=True,
            check=True,
            text=True,
        ).stdout.split()
        assert ALL.intersection(listed) == ALL - gone


def test_a_bracket_in_a_set_is_taken_without_a_word(
    tree: Path, recwarn: pytest.WarningsRecorder
) -> None:
    """``re`` warns of what may be a nested set one day; a pattern is no Python."""
    (tree / "[x].md").write_text("x", "utf-8")
    (tree / ".memsearchignore").write_text("[[]*\n[&&a].md\n", "utf-8")
    assert names(tree) == ALL - {"a.md"}
    assert not recwarn.list


@pytest.mark.parametrize(
    ("pattern", "left"),
    [
        ("*a" * 30 + "*b.md", {"a" * 120 + ".md"}),
        ("**/a/" * 30 + "b.md", {"a" * 120 + ".md"}),
        ("!" + "*a" * 30 + "*b.md", {"a" * 120 + ".md", "a" * 120 + "b.md"}),
    ],
)
def test_a_pattern_of_many_stars_takes_no_time(
    tmp_path: Path, pattern: str, left: set[str]
) -> None:
    """One of a cloned repository would hold up the worker for ever."""
    deep = tmp_path / "/".join(["a"] * 60)
    deep.mkdir(parents=True)
    (deep / "b.md").write_text("x", "utf-8")
    for name in ("a" * 120 + ".md", "a" * 120 + "b.md"):
        (tmp_path / name).write_text("x", "utf-8")
    (tmp_path / ".memsearchignore").write_text(pattern, "utf-8")
    found = names(tmp_path)
    assert found >= left
    if not pattern.startswith("!"):
        assert len(found) < 3


def test_the_nearest_ignore_file_decides(tree: Path) -> None:
    (tree / ".gitignore").write_text("*.md\n", "utf-8")
    (tree / "docs" / ".gitignore").write_text("!b.md\n", "utf-8")
    assert names(tree, ignore_files=[".gitignore"]) == {"docs/b.md"}


def test_ignore_files_above_count_up_to_the_ceiling(tree: Path) -> None:
    (tree / ".gitignore").write_text("/docs/old/\n", "utf-8")
    docs = tree / "docs"
    how = {"ignore_files": [".gitignore"]}
    assert "old/c.md" in names(docs, **how)
    assert "old/c.md" not in names(docs, **how, ceiling=str(tree))
    assert "old/c.md" not in names(docs, exclude=["/docs/old"], ceiling=str(tree))
    # What is named by its path is indexed whatever the patterns say.
    named = str(docs / "old" / "c.md")
    assert walk([named], **how, ceiling=str(tree)).files == (named,)  # type: ignore[arg-type]


def test_covers_is_what_a_walk_finds(tree: Path) -> None:
    (tree / ".memsearchignore").write_text("drafts\n/docs/old/*\n!keep.md\n", "utf-8")
    rules = Rules(str(tree))
    found = names(tree)
    for path in tree.rglob("*.md"):
        assert rules.covers(str(path)) == (str(path.relative_to(tree)) in found), path
    assert not rules.covers(str(tree.parent / "else.md"))
    assert rules.excludes(str(tree / "docs" / "drafts" / "i.md"))
    assert not rules.excludes(str(tree / ".hidden" / "g.md"))


def test_links_do_not_lead_a_walk_round_in_circles(tree: Path) -> None:
    (tree / "docs" / "loop").symlink_to(tree)
    (tree / "self").symlink_to("self")
    assert names(tree) == ALL
