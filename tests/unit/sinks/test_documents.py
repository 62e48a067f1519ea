import hashlib
import os
import threading
from pathlib import Path

import pytest

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sinks import documents
from memsearch.sinks.documents import (
    is_document,
    kind_of,
    load_document,
    read_document,
    walk,
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.md", True),
        ("A.MD", True),
        ("a.markdown", True),
        ("/w/my app/笔记.md", True),
        (r"C:\w\a.md", True),
        ("2026-03-05 (conflicted copy).md", True),
        (".x.md.swp", False),
        (".x.md", False),
        ("x.md~", False),
        ("x.tmp", False),
        ("x.md.tmp", False),
        (".#x.md", False),
        ("#x.md#", False),
        ("~$x.md", False),
        ("4913", False),
        (".goutputstream-ABC123", False),
        ("a.txt", False),
        ("md", False),
        ("", False),
    ],
)
def test_is_document(name: str, expected: bool) -> None:
    assert is_document(name) is expected


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        (".memsearch/memory/2026-03-05.md", "entry"),
        (".memsearch/memory/2026-03-05.host.md", "entry"),
        (".memsearch/memory/MEMORY.md", "note"),
        (".memsearch/memory/digest-2026-03.md", "digest"),
        (".memsearch/memory/digest-2026-03.host.md", "digest"),
        (".memsearch/memory/digest-of-books.md", "note"),
        (".memsearch/archive/2026-03-05.md", "archive"),
        ("/w/.memsearch/archive/2026-03-05.md", "archive"),
        ("docs/archive/a.md", "note"),
        ("README.md", "note"),
    ],
)
def test_kind_of(source: str, kind: str) -> None:
    assert kind_of(source) == kind
    assert kind_of(source, archived=True) == "archive"


@pytest.mark.parametrize(
    ("data", "text", "damaged"),
    [
        (b"", "", False),
        ("a\n中文\n".encode(), "a\n中文\n", False),
        (b"\xef\xbb\xbf# A\n", "# A\n", False),
        (b"a\r\nb\r\n\r\nc", "a\nb\n\nc", False),
        (b"a\rb\n", "a\rb\n", False),
        (b"\xff\xfe ok\n", "\ufffd\ufffd ok\n", True),
        ("中".encode()[:2] + b"\nx", "\ufffd\nx", True),
        ("already \ufffd".encode(), "already \ufffd", False),
    ],
)
def test_read(tmp_path: Path, data: bytes, text: str, damaged: bool) -> None:
    path = tmp_path / "a 'b' 中.md"
    path.write_bytes(data)
    assert read_document(str(path)) == text
    document = load_document(str(path))
    assert (document.text, document.damaged) == (text, damaged)
    assert document.sha256 == hashlib.sha256(data).hexdigest()
    assert document.state.size == len(data)
    assert document.state.mtime_ns == path.stat().st_mtime_ns


def test_what_cannot_be_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "folder.md").mkdir()
    (tmp_path / "loop.md").symlink_to(tmp_path / "loop.md")
    for name in ("gone.md", "pipe.md", "folder.md", "loop.md", "folder.md/../gone/x.md"):
        path = str(tmp_path / name)
        with pytest.raises(MemsearchError) as caught:
            read_document(path)
        assert caught.value.kind is ErrorClass.BAD_FILE
        assert path in caught.value.message


def test_a_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_DOCUMENT_BYTES", 10)
    path = tmp_path / "a.md"
    path.write_bytes(b"x" * 10)
    assert read_document(str(path)) == "x" * 10
    path.write_bytes(b"x" * 11)
    with pytest.raises(MemsearchError) as caught:
        read_document(str(path))
    assert caught.value.kind is ErrorClass.BAD_FILE


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in (
        "a.md",
        "b/c 中.md",
        "b/x.md~",
        "b/.x.md.swp",
        "b/deep/er/d.markdown",
        "drafts/e.md",
        "b/drafts/f.md",
        ".memsearch/memory/2026-03-05.md",
        ".git/g.md",
        "node_modules/p/README.md",
        "notes.txt",
    ):
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, "utf-8")
    return tmp_path / "root"


def found(tree: Path, *paths: str, ignore: tuple[str, ...] = ()) -> list[str]:
    result = walk([str(tree / path) for path in paths], ignore)
    assert result.unreadable == ()
    return [os.path.relpath(path, tree) for path in result.files]


def test_walk(tree: Path) -> None:
    assert found(tree, "") == [
        "a.md",
        "b/c 中.md",
        "b/deep/er/d.markdown",
        "b/drafts/f.md",
        "drafts/e.md",
    ]
    assert found(tree, ".memsearch/memory") == [".memsearch/memory/2026-03-05.md"]
    assert found(tree, ".memsearch") == [".memsearch/memory/2026-03-05.md"]
    assert found(tree, "b/deep", "a.md", "a.md", "b/deep/er") == ["a.md", "b/deep/er/d.markdown"]
    assert found(tree) == []


@pytest.mark.parametrize(
    ("pattern", "gone"),
    [
        ("drafts", {"drafts/e.md", "b/drafts/f.md"}),
        ("drafts/", {"drafts/e.md", "b/drafts/f.md"}),
        ("b/drafts", {"b/drafts/f.md"}),
        ("*.markdown", {"b/deep/er/d.markdown"}),
        ("b/*", {"b/c 中.md", "b/deep/er/d.markdown", "b/drafts/f.md"}),
        ("c 中.md", {"b/c 中.md"}),
        ("B", set()),
    ],
)
def test_walk_leaves_out(tree: Path, pattern: str, gone: set[str]) -> None:
    assert set(found(tree, "")) - set(found(tree, "", ignore=(pattern,))) == gone


def test_walk_follows_no_links_below_a_root(tree: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("x")
    before = found(tree, "")
    (tree / "b" / "out").symlink_to(outside)
    (tree / "b" / "out.md").symlink_to(outside / "secret.md")
    (tree / "b" / "up").symlink_to(tree)
    (tree / "b" / "dead.md").symlink_to(tree / "nothing")
    assert found(tree, "") == before
    # A root that is a link itself was named.
    assert walk([str(tree / "b" / "out")]).files == (str(tree / "b" / "out" / "secret.md"),)


@pytest.mark.parametrize("name", ["gone.md", "gone", "notes.txt", "b/x.md~"])
def test_walk_refuses_what_is_no_document(tree: Path, name: str) -> None:
    with pytest.raises(MemsearchError) as caught:
        walk([str(tree / name)])
    assert caught.value.kind is ErrorClass.BAD_FILE
    assert name in caught.value.message


def test_a_folder_that_cannot_be_listed_is_told(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.scandir

    def scandir(path: str):  # type: ignore[no-untyped-def]
        if str(path).endswith("/b"):  # root may list everything, so the refusal is made here
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    result = walk([str(tree)])
    assert [os.path.relpath(path, tree) for path in result.files] == ["a.md", "drafts/e.md"]
    assert [error.kind for error in result.unreadable] == [ErrorClass.PERMISSION]
    assert not result.covers(str(tree / "b" / "c 中.md"))
    assert not result.covers(str(tree / "b" / "deep" / "er" / "d.markdown"))
    assert result.covers(str(tree / "a.md"))
    assert result.covers(str(tree / "bc.md"))


def test_a_name_that_is_not_utf8_is_told_and_keeps_nothing_else_back(tree: Path) -> None:
    """The log and the index hold paths as UTF-8 text."""
    bad = tree / os.fsdecode(b"caf\xe9.md")
    bad.write_text("x", "utf-8")
    folder = tree / os.fsdecode(b"d\xe9j\xe0")
    folder.mkdir()
    (folder / "g.md").write_text("x", "utf-8")
    result = walk([str(tree)])
    assert [os.path.relpath(path, tree) for path in result.files] == [
        *("a.md", "b/c 中.md", "b/deep/er/d.markdown", "b/drafts/f.md", "drafts/e.md")
    ]
    told = sorted(str(error) for error in result.unreadable)
    assert len(told) == 2
    assert r"caf\xe9.md: its name is not UTF-8" in told[0]
    assert r"d\xe9j\xe0: its name is not UTF-8" in told[1]
    assert not result.covers(str(folder / "g.md"))
    with pytest.raises(MemsearchError, match="not UTF-8") as caught:
        walk([str(bad)])
    assert caught.value.kind is ErrorClass.BAD_FILE


def test_files_that_come_and_go_are_no_error(tree: Path) -> None:
    """Somebody saves by renaming all the time."""
    stop = threading.Event()

    def save() -> None:
        while not stop.is_set():
            (tree / "b" / "new.tmp").write_text("x" * 1000)
            os.replace(tree / "b" / "new.tmp", tree / "b" / "new.md")
            os.makedirs(tree / "b" / "sub", exist_ok=True)
            os.rmdir(tree / "b" / "sub")

    saver = threading.Thread(target=save)
    saver.start()
    try:
        while not (tree / "b" / "new.md").exists():
            pass
        for _ in range(100):
            result = walk([str(tree)])
            assert result.unreadable == ()
            assert str(tree / "b" / "new.md") in result.files
            assert read_document(str(tree / "b" / "new.md")) == "x" * 1000
    finally:
        stop.set()
        saver.join()
