import itertools
import random
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sinks.chunker import (
    MAX_CONTENT_BYTES,
    Piece,
    chunk_document,
    embedding_text,
    pieces,
    sections,
)
from memsearch.sinks.ids import chunk_hash, content_hash
from memsearch.sinks.types import Chunk


def cut(text: str, limit: int = 1500, overlap: int = 2) -> list[str]:
    return [
        c.content for c in chunk_document(text, "a.md", max_chunk_size=limit, overlap_lines=overlap)
    ]


def squeezed(text: str) -> str:
    return "".join(text.split())


def han(count: int) -> str:
    """Han characters without any break, none of them twice in twenty thousand."""
    return "".join(chr(0x4E00 + n % 20_000) for n in range(count))


# -- sections and fields -----------------------------------------------------------------

NOTES = """\
---
tags: [a, b]
---

Before the first heading.

# Title

## Empty

### 安装

Run `make`.

```sh
# not a heading
make
```

## Only a comment

<!-- nothing to see -->
"""


def test_sections_become_chunks() -> None:
    chunks = chunk_document(NOTES, "docs/a.md")
    assert [(c.heading, c.heading_level, c.start_line, c.end_line) for c in chunks] == [
        ("", 0, 1, 5),
        ("安装", 3, 11, 18),
    ]
    assert chunks[1].content == "### 安装\n\nRun `make`.\n\n```sh\n# not a heading\nmake\n```"
    for chunk in chunks:
        assert chunk.source == "docs/a.md"
        assert chunk.content_hash == content_hash(chunk.content)
        assert (chunk.kind, chunk.day, chunk.platform, chunk.session, chunk.turn) == (
            "note", 0, "", "", "",
        )  # fmt: skip


JOURNAL = """\
# 2026-03-05

## Session 14:47

### 14:47
<!-- session:s1 turn:t1 transcript:~/.claude/projects/x/s1.jsonl -->
- a
- b

### 14:50
<!-- session:s1 turn:t2 rollout:~/.codex/sessions/r.jsonl -->
- c

## Mine

- d
"""


@pytest.mark.parametrize(
    ("source", "archived", "kind", "day"),
    [
        (".memsearch/memory/2026-03-05.md", False, "entry", 20260305),
        (".memsearch/memory/2026-03-05 (conflicted copy).md", False, "entry", 20260305),
        (".memsearch/archive/2026-03-05.md", False, "archive", 20260305),
        ("/elsewhere/2026-03-05.md", True, "archive", 20260305),
        (".memsearch/memory/digest-2026-03.md", False, "digest", 0),
        ("docs/journal.md", False, "note", 0),
    ],
)
def test_a_journal_s_entries(source: str, archived: bool, kind: str, day: int) -> None:
    chunks = chunk_document(JOURNAL, source, archived=archived)
    assert [(c.heading, c.start_line, c.end_line) for c in chunks] == [
        ("14:47", 5, 8),
        ("14:50", 10, 12),
        ("Mine", 14, 16),
    ]
    assert {(c.kind, c.day) for c in chunks} == {(kind, day)}
    anchors = [(c.platform, c.session, c.turn) for c in chunks]
    if day:
        assert anchors == [("claude-code", "s1", "t1"), ("codex", "s1", "t2"), ("", "", "")]
    else:
        assert set(anchors) == {("", "", "")}


def test_all_pieces_of_an_entry_name_its_turn() -> None:
    text = JOURNAL.replace("- a\n", "- " + "".join(f"Story {n}. " for n in range(300)) + "\n")
    chunks = chunk_document(text, "2026-03-05.md", max_chunk_size=500)
    assert len([c for c in chunks if c.turn == "t1"]) > 5
    assert len([c for c in chunks if c.turn == "t2"]) == 1


def test_an_appended_entry_leaves_the_other_chunks_as_they_are() -> None:
    """The last entry's chunk must not change when something follows it."""
    before = chunk_document(JOURNAL, "2026-03-05.md")
    more = JOURNAL + "\n## Session 15:00\n\n### 15:00\n<!-- session:s2 turn:t3 -->\n- e\n"
    after = chunk_document(more, "2026-03-05.md")
    assert after[: len(before)] == before
    assert [chunk_hash(c, "m") for c in before] == [chunk_hash(c, "m") for c in after][:-1]


def test_a_line_at_the_top_changes_no_content() -> None:
    before = [c.content_hash for c in chunk_document(JOURNAL, "2026-03-05.md")]
    after = [c.content_hash for c in chunk_document("a line\n" + JOURNAL, "2026-03-05.md")]
    assert after[1:] == before


def test_what_is_embedded_has_no_comments() -> None:
    content = chunk_document(JOURNAL, "2026-03-05.md")[0].content
    assert embedding_text(content) == "### 14:47\n\n- a\n- b"
    assert embedding_text("<!-- x -->") == "<!-- x -->"  # an embedder needs some text


def test_long_fields_are_cut_at_a_character() -> None:
    (chunk,) = chunk_document("# " + "标" * 1000 + "\nx", "a.md", max_chunk_size=5000)
    assert chunk.heading == "标" * 341
    with pytest.raises(MemsearchError) as caught:
        chunk_document("x", "路" * 350 + ".md")
    assert caught.value.kind is ErrorClass.BAD_FILE
    assert chunk_document("x", "路" * 340 + ".md")


def test_bytes_are_limited_too() -> None:
    text = han(50_000)
    chunks = chunk_document(text, "a.md", max_chunk_size=100_000)
    assert [len(c.content.encode()) for c in chunks] == [65535, 65535, 150_000 - 2 * 65535]
    assert "".join(c.content for c in chunks) == text


def test_equal_pieces_of_one_line_are_kept_once() -> None:
    chunks = chunk_document("x" * 6000, "a.md", max_chunk_size=1500)
    assert [c.content for c in chunks] == ["x" * 1500]
    # Different lines, different chunks.
    chunks = chunk_document("\n".join(["x" * 1500] * 4), "a.md", max_chunk_size=1500)
    assert [c.start_line for c in chunks] == [1, 2, 3, 4]


def test_lone_surrogates_do_not_stop_it() -> None:
    (chunk,) = chunk_document("a \ud800 b", "x\udcff.md")
    assert chunk.content == "a ? b"
    assert chunk.source == "x\ufffd.md"
    in_c_locale = "笔记.md".encode().decode("ascii", "surrogateescape")
    assert chunk_document("x", in_c_locale)[0].source == "笔记.md"


@pytest.mark.parametrize("text", ["", "\n\n", "# A", "# A\n\n## B\n", "<!-- x -->", " \t\r\n"])
def test_nothing_to_index(text: str) -> None:
    assert chunk_document(text, "a.md") == []


# -- where a long section is cut ---------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        # at a paragraph rather than at a later line
        ("a" * 60 + "\n\n" + "b\n" * 9 + "c" * 60, 100, ["a" * 60, "b\n" * 9 + "c" * 60]),
        # at a line rather than at a later sentence
        ("a" * 60 + "\nB c. " + "d" * 60, 100, ["a" * 60, "B c. " + "d" * 60]),
        # at a sentence
        ("One two three. Five six. Eight", 26, ["One two three. Five six.", "Eight"]),
        ("He said “Stop now!” Then he went", 26, ["He said “Stop now!”", "Then he went"]),
        ("今天修复了备份脚本。明天处理数据库", 12, ["今天修复了备份脚本。", "明天处理数据库"]),
        ("他说：“今天修好了！”然后就走了", 14, ["他说：“今天修好了！”", "然后就走了"]),
        # between words
        ("alpha beta gamma delta", 12, ["alpha beta", "gamma delta"]),
        ("alpha beta gamma delta", 10, ["alpha beta", "gamma", "delta"]),
        # between Han characters, but not before a mark, nor after an opening one
        ("一二三四五六七八九十", 4, ["一二三四", "五六七八", "九十"]),
        ("一二三四，五六七八", 4, ["一二三", "四，五六", "七八"]),
        ("一二三（四五六七八", 4, ["一二三", "（四五六", "七八"]),
        ("中文and英文words混排", 5, ["中文and", "英文", "words", "混排"]),
        # nothing better: hard, after punctuation if there is some in the second half
        ("abcdefghij", 4, ["abcd", "efgh", "ij"]),
        ("abc,def,ghi,jkl", 6, ["abc,", "def,", "ghi,", "jkl"]),
        # an accent stays with its letter, a joined emoji stays whole
        ("abe\u0301cd", 3, ["ab", "e\u0301c", "d"]),
        ("ab👩\u200d💻cd", 4, ["ab", "👩\u200d💻c", "d"]),
        # blanks are no text
        ("a" + " " * 50 + "b", 10, ["a", "b"]),
        ("a" + "\n" * 500 + "b", 10, ["a", "b"]),
        ("    indented code line\n" * 3, 25, ["    indented code line"] * 3),
    ],
)  # fmt: skip
def test_places(text: str, limit: int, expected: list[str]) -> None:
    assert cut(text, limit, 0) == expected


def test_no_cut_inside_urls_mails_and_versions() -> None:
    random.seed(7)
    urls = [f"https://host{n}.example.com/a.b/c?d={n}.5&e=x,y;z#v1.{n}.0" for n in range(80)]
    words = [*urls, "v1.2.3", "me.and@you.example.org", "e.g.", "10.0.0.1:8080", "Fine!"]
    random.shuffle(words)
    text = " ".join(words)
    contents = cut(text, 300, 2)
    assert len(contents) > 10
    assert [word for content in contents for word in content.split()] == words


def test_no_cut_inside_a_url_that_holds_han() -> None:
    url = "https://zh.wikipedia.org/wiki/" + "备份" * 10
    text = "参考资料在这里" * 5 + url + "，其余的内容见下文" * 10
    for limit in range(60, 90):
        assert any(url in content for content in cut(text, limit, 0))


def test_long_lines_and_han_without_breaks() -> None:
    words = " ".join(f"word{n}" for n in range(900))
    assert len(words) > 6000
    text = f"short\nlines\n{words}\n{han(4000)}\nend"
    contents = cut(text, overlap=0)
    assert all(len(content) <= 1500 for content in contents)
    assert squeezed("".join(contents)) == squeezed(text)
    assert {word for content in contents for word in content.split()} >= set(words.split())


# -- overlap -----------------------------------------------------------------------------


def lines_of(count: int, width: int = 20) -> str:
    return "\n".join(f"line {n:03} ".ljust(width - 1, "x") for n in range(count))


def test_two_lines_are_repeated() -> None:
    contents = [content.split("\n") for content in cut(lines_of(40), 205)]
    assert len(contents) > 3
    for before, after in itertools.pairwise(contents):
        assert before[-2:] == after[:2]
    assert cut(lines_of(40), 205, 0) != cut(lines_of(40), 205, 2)


@pytest.mark.parametrize("overlap", [0, 1, 2, 50])
def test_the_overlap_is_bounded(overlap: int) -> None:
    text = lines_of(200, 30)
    found = pieces(text, 0, len(text), 300, overlap)
    assert all(piece.start - piece.overlap <= 300 // 5 for piece in found)
    # 60 characters hold two lines of 30 at most.
    assert {text[p.overlap : p.start].count("\n") for p in found[1:]} == {min(overlap, 2)}


def test_a_cut_inside_a_line_repeats_nothing() -> None:
    text = " ".join(f"This is sentence {n} of a hundred." for n in range(100))
    assert squeezed("".join(cut(text, 300, 2))) == squeezed(text)


def test_the_overlap_is_given_up_for_a_word() -> None:
    text = "a\nb\n" + "c" * 20 + "\n" + "d" * 38
    assert cut(text, 40, 2)[-1] == "d" * 38


# -- properties --------------------------------------------------------------------------

WORDS = st.sampled_from(
    ["word", "汉字文本", "。", ". ", "\n", "\n\n", " ", "# H\n", "\n### 14:47\n", "```\n", "x" * 30,
     "https://a.b/c?d=e", "v1.2.3", "\n- ", "e\u0301", "👩\u200d💻", "\t", "\r\n", "<!-- c -->",
     "    ", "\n---\n", "a: b", "，", "（", "\u2028", "\x0b"]
)  # fmt: skip
TEXTS = st.lists(WORDS, max_size=60).map("".join) | st.text(max_size=300)
LIMITS = st.sampled_from([1, 2, 3, 7, 20, 60, 200, 1500])
OVERLAPS = st.integers(0, 4)


@settings(max_examples=400)
@given(TEXTS, LIMITS, OVERLAPS)
def test_pieces_cover_every_character(text: str, limit: int, overlap: int) -> None:
    found = pieces(text, 0, len(text), limit, overlap)
    assert squeezed("".join(text[p.start : p.end] for p in found)) == squeezed(text)
    for piece in found:
        assert piece.overlap <= piece.start < piece.end
        assert piece.end - piece.overlap <= limit
        assert text[piece.end - 1].strip()
    for before, after in itertools.pairwise(found):
        assert before.overlap < after.overlap  # never the same piece again
        assert before.end <= after.start
        if after.overlap < after.start:  # whole lines of the piece before
            assert before.overlap < after.overlap < before.end
            assert text[after.overlap - 1] == "\n"


@settings(max_examples=400)
@given(TEXTS, LIMITS, OVERLAPS)
def test_chunks_are_parts_of_the_file(text: str, limit: int, overlap: int) -> None:
    chunks = chunk_document(text, "2026-03-05.md", max_chunk_size=limit, overlap_lines=overlap)
    lines = text.split("\n")
    for chunk in chunks:
        assert len(chunk.content) <= limit
        assert len(chunk.content.encode()) <= MAX_CONTENT_BYTES
        assert chunk.content.strip()
        there = "\n".join(lines[chunk.start_line - 1 : chunk.end_line])
        assert chunk.content in there
        # The first and the last line really take part.
        assert chunk.content.split("\n")[0] in lines[chunk.start_line - 1]
        assert chunk.content.split("\n")[-1] in lines[chunk.end_line - 1]
        assert chunk.content.count("\n") == chunk.end_line - chunk.start_line
    ids = [chunk_hash(chunk, "m") for chunk in chunks]
    assert len(ids) == len(set(ids))
    assert chunks == chunk_document(
        text, "2026-03-05.md", max_chunk_size=limit, overlap_lines=overlap
    )


@given(TEXTS, OVERLAPS)
def test_all_text_of_sections_with_a_body_is_in_a_chunk(text: str, overlap: int) -> None:
    chunks = chunk_document(text, "a.md", max_chunk_size=60, overlap_lines=overlap)
    found: set[int] = set()
    for chunk in chunks:
        found.update(range(chunk.start_line, chunk.end_line + 1))
    for section in sections(text):
        if not re.sub("<!--.*?-->", "", section.body, flags=re.DOTALL).strip():
            continue
        for number in range(section.line, section.end_line + 1):
            assert number in found or not text.split("\n")[number - 1].strip()


@pytest.mark.parametrize(
    "text",
    [
        "x" * 5_000_000,
        "汉" * 3_000_000,
        "word " * 1_000_000,
        "." * 2_000_000,
        "。" * 2_000_000,
        "https://a.b/" * 400_000,
        "参考https://a.b/汉" * 200_000,
        " " * 5_000_000 + "x",
        "\n" * 2_000_000 + "x",
        "a\n\n" * 500_000,
        "# A\nb\n" * 50_000,
        "\u0301" * 1_000_000,
        "<!--" * 1_000_000,
        "，" * 500_000,
    ],
    ids=lambda text: repr(text[:8]),
)
def test_large_texts_take_one_pass(text: str) -> None:
    begin = time.process_time()
    chunk_document(text, "a.md")
    # Some seconds on a slow machine; a quadratic cutter takes hours.
    assert time.process_time() - begin < 60


def test_piece_is_plain_data() -> None:
    assert pieces("ab cd", 0, 5, 2, 0) == [Piece(0, 0, 2), Piece(3, 3, 5)]
    assert isinstance(chunk_document("x", "a.md")[0], Chunk)
