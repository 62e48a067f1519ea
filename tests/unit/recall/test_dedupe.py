"""Near-duplicates are folded and others take their places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memsearch.recall.dedupe import fold, normalised, shingles
from memsearch.recall.fusion import Fused
from memsearch.sinks.types import Hit

Make = Callable[..., Hit]

ENTRY = (
    "### 14:47\n<!-- session:s turn:t transcript:~/x.jsonl -->\n"
    "- User asked why the nightly backup script times out when it uploads to the bucket\n"
    "- Claude Code raised the part size to 64 MB and the upload went through in four minutes\n"
)


def ranked(make: Make, contents: list[tuple[str, str, dict[str, Any]]]) -> list[Fused]:
    return [
        Fused(make(key, content=content, **fields), 1 / place, None, place, None)
        for place, (key, content, fields) in enumerate(contents, start=1)
    ]


def test_same_entry_in_six_files_and_five_others(make_hit: Make) -> None:
    copies = [(f"copy{n}", ENTRY, {"source": f"copy {n}.md"}) for n in range(6)]
    others: list[tuple[str, str, dict[str, Any]]] = [
        (f"other{n}", f"- something else, number {n}", {}) for n in range(5)
    ]
    folded = fold(ranked(make_hit, copies + others), 5)
    assert [item.fused.hit.chunk_hash for item in folded] == [
        "copy0",
        "other0",
        "other1",
        "other2",
        "other3",
    ]
    assert [item.copies for item in folded] == [5, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        # The same words under other markup.
        (ENTRY, ENTRY.replace("### 14:47", "### 14:47 (conflicted copy)"), True),
        (ENTRY, ENTRY.replace("\n- ", "\n* ").upper(), True),
        (ENTRY, ENTRY.replace("\n", "\n\n"), True),
        (ENTRY, ENTRY.replace("session:s", "session:other"), True),
        # A word more.
        (ENTRY, ENTRY.replace("upload went", "upload now went"), True),
        # Another number is another fact.
        (ENTRY, ENTRY.replace("64 MB", "32 MB"), False),
        (
            "- deployed 1.2.3 to the staging cluster and watched the error rate for an hour",
            "- deployed 1.2.4 to the staging cluster and watched the error rate for an hour",
            False,
        ),
        # Half of it is something else.
        (ENTRY, ENTRY.split("- Claude")[0] + "- Claude Code found nothing and gave up", False),
        # Chinese has no blanks between words.
        (
            "- 用户要求修复 GitHub 备份脚本上传超时，代理把分片大小调大后重新运行，上传成功",
            "- 用户要求修复 GitHub 备份脚本上传超时，代理把分片大小调大后重新运行，上传成功。",
            True,
        ),
        ("- 用户要求修复备份脚本", "- 用户要求修复登录脚本", False),
        # Nothing but headings: those are all there is to compare.
        ("## A\n", "## B\n", True),
    ],
)
def test_what_is_the_same(one: str, other: str, same: bool, make_hit: Make) -> None:
    folded = fold(ranked(make_hit, [("a", one, {}), ("b", other, {})]), 5)
    assert len(folded) == (1 if same else 2)


def test_headings_alone_differ_by_heading(make_hit: Make) -> None:
    two = [("a", "## A", {"heading": "A"}), ("b", "## B", {"heading": "B"})]
    assert len(fold(ranked(make_hit, two), 5)) == 2


def test_two_turns_that_read_alike_are_two(make_hit: Make) -> None:
    alike = ENTRY.replace("upload went", "upload now went")
    two = [("a", ENTRY, {"turn": "t1"}), ("b", alike, {"turn": "t2"})]
    assert len(fold(ranked(make_hit, two), 5)) == 2
    two = [("a", ENTRY, {"turn": "t1"}), ("b", alike, {"turn": "t1"})]
    assert len(fold(ranked(make_hit, two), 5)) == 1


def test_copies_beyond_the_limit_are_counted_and_not_returned(make_hit: Make) -> None:
    folded = fold(ranked(make_hit, [("a", "one", {}), ("b", "two", {}), ("c", "one", {})]), 1)
    assert [(item.fused.hit.chunk_hash, item.copies) for item in folded] == [("a", 1)]


def test_an_unclosed_comment_and_odd_text_do_not_stop_it(make_hit: Make) -> None:
    odd = ["<!-- never closed " + "x" * 5000, "", "\ud800", "#" * 3000, " \n \n"]
    assert fold(ranked(make_hit, [(str(n), text, {}) for n, text in enumerate(odd)]), 9)


def test_normalised() -> None:
    assert normalised(ENTRY).startswith("user asked why")
    assert "session" not in normalised(ENTRY)
    assert normalised("  1. Ask\n  2) Do\n") == "ask do"


def test_shingles() -> None:
    assert shingles("") == frozenset()
    assert shingles("short") == {"short"}
    assert shingles("123456789") == {"12345678", "23456789"}
