from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsearch.sinks.journal_format import (
    appended_text,
    clean_bullet,
    entry_lines,
    is_anchor_line,
    journal_day,
    journal_name,
    parse,
)
from memsearch.sinks.sections import sections
from memsearch.sinks.types import Anchor, Entry

DAY = date(2026, 3, 5)


def entry(turn: str = "t1", *, session: str = "s1", time: str = "14:47", bullets=("a", "b")):  # type: ignore[no-untyped-def]
    anchor = Anchor(session, turn, "claude-code", transcript="/w/x.jsonl")
    return Entry(session, turn, DAY, time, anchor, tuple(bullets))


@pytest.mark.parametrize(
    ("name", "day"),
    [
        ("2026-03-05.md", DAY),
        ("2026-03-05.host.md", DAY),
        ("2026-03-05.李雷-mac.md", DAY),
        ("2026-03-05 (conflicted copy).md", DAY),
        ("2026-03-05 (host's conflicted copy 2026-03-06).md", DAY),
        ("2026-03-05.sync-conflict-20260306-101010-ABCDEFG.md", DAY),
        ("2026-03-05 2.md", DAY),
        ("2026-03-05(1).md", DAY),
        ("2026-03-05.MD", DAY),
        ("2026-03-05.markdown", DAY),
        ("/w/my app/.memsearch/memory/2026-03-05.md", DAY),
        (r"C:\w\2026-03-05.md", DAY),
        ("README.md", None),
        ("MEMORY.md", None),
        ("digest-2026-03.md", None),
        ("2026-03-05", None),
        ("2026-03-05.txt", None),
        ("2026-03-05.md.tmp", None),
        ("2026-03-05-plans.md", None),
        ("2026-03-055.md", None),
        ("2026-3-5.md", None),
        ("2026-02-30.md", None),
        ("x2026-03-05.md", None),
        ("２０２６-03-05.md", None),
        ("2026-03-05.md/notes.md", None),
        ("", None),
    ],
)
def test_journal_day(name: str, day: date | None) -> None:
    assert journal_day(name) == day


@pytest.mark.parametrize(
    ("suffix", "name"),
    [
        ("", "2026-03-05.md"),
        ("laptop", "2026-03-05.laptop.md"),
        ("李雷 的 mac", "2026-03-05.李雷-的-mac.md"),
        ("../../etc/x", "2026-03-05.etc-x.md"),
        (". .", "2026-03-05.md"),
        ("a\nb", "2026-03-05.a-b.md"),
        ("x" * 500, f"2026-03-05.{'x' * 64}.md"),
    ],
)
def test_journal_name(suffix: str, name: str) -> None:
    assert journal_name(DAY, suffix) == name
    assert journal_day(name) == DAY


@pytest.mark.parametrize(
    ("text", "bullet"),
    [
        ("plain `code` & 中文", "plain `code` & 中文"),
        ("  - already a bullet ", "already a bullet"),
        ("* - twice", "twice"),
        ("-no mark", "-no mark"),
        ("two\nlines\r\n\n  and more", "two lines and more"),
        ("a\u2028b\x0bc\x85d\x1ce", "a b c d e"),
        ("bell\x07 esc\x1b[31m nul\x00 \ud800", "bell esc[31m nul"),
        ("<!-- session:x turn:y -->", "<\\!-- session:x turn:y --\\>"),
        ("a --> b", "a --\\> b"),
        ("# heading", "\\# heading"),
        ("- ## heading", "\\## heading"),
        ("x\n### 14:47\n<!-- session:a turn:b -->", "x ### 14:47 <\\!-- session:a turn:b --\\>"),
        ("   \n ", ""),
    ],
)
def test_clean_bullet(text: str, bullet: str) -> None:
    assert clean_bullet(text) == bullet


def test_entry_lines() -> None:
    assert entry_lines(entry()) == (
        "### 14:47\n<!-- session:s1 turn:t1 transcript:/w/x.jsonl -->\n- a\n- b\n"
    )


NEW = """\
# 2026-03-05

## Session 14:47

### 14:47
<!-- session:s1 turn:t1 transcript:/w/x.jsonl -->
- a
- b
"""
SECOND = "\n### 14:50\n<!-- session:s1 turn:t2 transcript:/w/x.jsonl -->\n- a\n- b\n"


@pytest.mark.parametrize(
    ("before", "added"),
    [
        ("", NEW),
        ("\ufeff", NEW),
        ("\n", NEW),
        (" \n", "\n" + NEW),
        # the same session goes on
        (NEW.replace("t1", "t0"), "\n" + entry_lines(entry())),
        # a human's text, with and without a final newline
        ("my notes", "\n\n## Session 14:47\n\n" + entry_lines(entry())),
        ("my notes\n", "\n## Session 14:47\n\n" + entry_lines(entry())),
        ("my notes\n\n", "## Session 14:47\n\n" + entry_lines(entry())),
        ("my notes\r\n\r\n", "## Session 14:47\n\n" + entry_lines(entry())),
        # a human's heading or another session came between
        (
            NEW.replace("t1", "t0") + "\n## Plans\n\n- x\n",
            "\n## Session 14:47\n\n" + entry_lines(entry()),
        ),
        (NEW.replace("s1", "s0"), "\n## Session 14:47\n\n" + entry_lines(entry())),
        # a session heading whose entries are gone belongs to nobody known
        ("# 2026-03-05\n\n## Session 14:47\n", "\n## Session 14:47\n\n" + entry_lines(entry())),
        # a human's note below the session's last entry does not end the session
        (NEW.replace("t1", "t0") + "\n### mine\n\nx\n", "\n" + entry_lines(entry())),
    ],
)
def test_appended_text(before: str, added: str) -> None:
    assert appended_text(before, entry()) == added


def test_sessions_that_alternate_each_get_their_heading() -> None:
    text = ""
    for turn, session in enumerate(["a", "a", "b", "a", "a"]):
        text += appended_text(text, entry(f"t{turn}", session=session, time=f"10:0{turn}"))
    found = parse(text)
    assert [(e.session_time, e.time) for e in found] == [
        ("10:00", "10:00"),
        ("10:00", "10:01"),
        ("10:02", "10:02"),
        ("10:03", "10:03"),
        ("10:03", "10:04"),
    ]
    assert text.count("## Session") == 3
    assert text.count("# 2026-03-05\n") == 1
    assert "\n\n\n" not in text


def test_parse_gives_lines_and_day() -> None:
    text = NEW + SECOND
    first, second = parse(text)
    assert first.day == DAY  # of the title
    assert parse(text, date(2026, 1, 1))[0].day == date(2026, 1, 1)  # the name's day wins
    assert (first.line, first.end_line) == (5, 8)
    assert (second.line, second.end_line) == (10, 13)
    assert first.anchor == Anchor("s1", "t1", "claude-code", "/w/x.jsonl")
    assert first.bullets == ("a", "b")
    assert first.text == "- a\n- b"


HUMAN = """\
# 2026-03-05

Some notes of mine.

## Session 14:47

### 14:47 the auth bug
- see below
  more of it

<!-- session:s1 turn:t1 transcript:/w/x.jsonl -->
- a
  - nested
* b
a sentence

### no time
- not an entry

## Mine

### 9:05
x

### Renamed
<!-- session:s2 turn:t9 -->
- kept

### 23:59
"""


def test_parse_after_a_human_edited() -> None:
    found = parse(HUMAN)
    assert [(e.time, e.heading, e.session_time) for e in found] == [
        ("14:47", "14:47 the auth bug", "14:47"),
        ("", "Renamed", ""),
        ("23:59", "23:59", ""),
    ]
    assert found[0].bullets == ("see below more of it", "a - nested", "b")
    assert found[0].anchor is not None
    assert found[0].anchor.turn == "t1"
    assert "a sentence" in found[0].text
    assert found[2].anchor is None
    assert found[2].bullets == ()


BULLET_TEXT = st.text() | st.text(alphabet=st.sampled_from("#-<!> \n\r:session turn`~*0123456789"))


@given(
    st.lists(st.lists(BULLET_TEXT, min_size=1, max_size=4), min_size=1, max_size=4),
    st.lists(st.sampled_from("ab"), min_size=4, max_size=4),
)
def test_no_bullet_poses_as_an_entry(turns: list[list[str]], sessions: list[str]) -> None:
    text = ""
    expected = []
    for number, bullets in enumerate(turns):
        cleaned = tuple(c for b in bullets if (c := clean_bullet(b)))
        if not cleaned:
            continue
        one = entry(f"t{number}", session=sessions[number], time=f"1{number}:00", bullets=bullets)
        text += appended_text(text, one)
        expected.append((f"1{number}:00", f"t{number}", cleaned))
    found = parse(text)
    assert [(e.time, e.anchor.turn if e.anchor else "", e.bullets) for e in found] == expected
    assert len(text.splitlines()) == text.count("\n")


@given(st.text(), st.text(alphabet=st.sampled_from("# \n`~-<!>a:0123456789")))
def test_any_text_of_a_human_keeps_the_entry_readable(before: str, more: str) -> None:
    # Whatever stands in the file, also an open fence or comment: what we add is found again.
    before = before + "\n" + more
    text = before + appended_text(before, entry())
    assert text.startswith(before)
    last = parse(text)[-1]
    assert last.anchor is not None
    assert (last.time, last.anchor.turn, last.bullets) == ("14:47", "t1", ("a", "b"))


@pytest.mark.parametrize(
    ("line", "is_it"),
    [
        ("<!-- session:s turn:t transcript:/x -->", True),
        ("  <!-- turn:t session:s -->", True),
        ("<!-- session:s turn:other transcript:/x -->", False),
        ("<!-- session:other turn:t transcript:/x -->", False),
        ("- said <!-- session:s turn:t transcript:/x -->", False),
        ("<!-- a comment -->", False),
        ("", False),
    ],
)
def test_the_line_of_a_turn_s_anchor(line: str, is_it: bool) -> None:
    assert is_anchor_line(line, "s", "t") is is_it


def test_a_title_is_written_once() -> None:
    assert [s.heading for s in sections(NEW + SECOND)] == [
        "2026-03-05",
        "Session 14:47",
        "14:47",
        "14:50",
    ]
