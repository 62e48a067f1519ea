"""Which turns are skipped, by table."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from memsearch.pipeline.trivial import AGENT_FILE_NAMES, agent_files, is_trivial
from memsearch.sources.base import Item, Turn


def turn(user: str, reply: str = "", *more: Item) -> Turn:
    items = [Item("user", user)] if user else []
    items += more
    if reply:
        items.append(Item("assistant", reply))
    return Turn(
        platform="openclaw",
        id="t",
        session="s",
        at=datetime(2026, 3, 25, tzinfo=UTC),
        cwd="/w",
        items=tuple(items),
        state="finished",
        anchor={"db": "/x"},
    )


TOOL = Item("tool", "ls", name="Bash", output="a b")
AGENT_FILE = (
    "# Rules\n\n- Use four spaces.\n- Run `make test` before a commit.\n- Never push to main.\n"
)


@pytest.mark.parametrize(
    ("user", "reply", "reason"),
    [
        ("ok", "Great!", "acknowledgement"),
        ("OK.", "", "acknowledgement"),
        ("ok, thanks a lot", "You're welcome!", None),  # "a lot" is no known word: kept
        ("thanks, great!", "You're welcome! Let me know.", "acknowledgement"),
        ("Continue", "There is nothing left to do.", "acknowledgement"),
        ("👍", "Glad it works.", "acknowledgement"),
        ("...", "", "acknowledgement"),
        ("hi", "Hello! How can I help?", "acknowledgement"),
        ("好的", "不客气", "acknowledgement"),
        ("好的，谢谢！", "不客气！", "acknowledgement"),
        ("继续", "已经全部完成了。", "acknowledgement"),
        # An acknowledgement with a long answer is a real turn: the agent went on.
        ("continue", "I went on with the migration plan. " * 10, None),
        # Decisions: the reply that restates one is kept.
        ("yes", "Good.", "acknowledgement"),
        ("yes", "Then I will use PostgreSQL 16 for the queue.", None),
        ("2", "Option 2 it is: we keep Redis.", None),
        ("B", "ok", "acknowledgement"),
        ("是的", "好", "acknowledgement"),
        ("不", "那就保留原来的上传方式，不再改成分片。", None),
        # As documented: at most 32 columns of such words, a reply of at most 160 columns, of 24
        # where the words may decide something.
        ("ok" + " ok" * 10, "x" * 160, "acknowledgement"),
        ("ok" + " ok" * 10 + "!", "Fine.", None),
        ("好的，" * 5, "好", "acknowledgement"),
        ("好的，" * 6, "好", None),
        ("ok", "x" * 161, None),
        ("ok", "好" * 80, "acknowledgement"),
        ("ok", "好" * 81, None),
        ("ok\nthanks", "Fine.", None),
        ("yes", "x" * 24, "acknowledgement"),
        ("yes", "x" * 25, None),
        # A short question with a real answer.
        ("What port does the API use?", "8080.", None),
        ("port?", "8080", None),
        ("API 端口是多少？", "8080", None),
        ("why?", "Because the token expired.", None),
        ("fix lint", "Done.", None),
        ("remember: never use port 80", "OK", None),
        ("[image]", "A red button.", None),
        ("ok\nand use tabs", "OK", None),
        # Heartbeats.
        (
            "Read HEARTBEAT.md if it exists. If nothing needs attention, reply HEARTBEAT_OK.",
            "HEARTBEAT_OK",
            "heartbeat",
        ),
        ("heartbeat", "**HEARTBEAT_OK**", "heartbeat"),
        ("poll", "NO_REPLY", "heartbeat"),
        ("heartbeat", "The disk is full. Not HEARTBEAT_OK.", None),
        ("what does HEARTBEAT_OK mean?", "It says that nothing needs attention.", None),
        # Nothing at all.
        ("", "", "empty"),
        ("  \n", "", "empty"),
        ("", "The scheduled report is ready.", None),
    ],
)
def test_what_is_trivial(user: str, reply: str, reason: str | None) -> None:
    assert is_trivial(turn(user, reply)) == reason


def test_a_tool_makes_it_a_turn() -> None:
    assert is_trivial(turn("ok", "Done.", TOOL)) is None
    assert is_trivial(turn("", "", TOOL)) is None


def test_a_heartbeat_that_looked_around_is_still_one() -> None:
    assert is_trivial(turn("heartbeat", "HEARTBEAT_OK", TOOL)) == "heartbeat"


@pytest.mark.parametrize(
    ("user", "reply", "reason"),
    [
        ("go", AGENT_FILE, "echo"),
        ("what are the rules?", "Use four spaces.\nNever push to main.", "echo"),
        ("what are the rules?", "Four of them matter here, and main is protected.", None),
        ("explain each rule " * 20, AGENT_FILE, None),
        ("go", AGENT_FILE + "\nI fixed the parser.\nAnd its tests.\nAnd the docs.", None),
    ],
)
def test_an_echoed_instruction_file_is_no_note(user: str, reply: str, reason: str | None) -> None:
    assert is_trivial(turn(user, reply), (AGENT_FILE,)) == reason
    assert is_trivial(turn(user, reply)) in (None, "acknowledgement")


def test_an_echo_with_a_tool_is_a_turn() -> None:
    assert is_trivial(turn("go", AGENT_FILE, TOOL), (AGENT_FILE,)) is None


def test_agent_files_are_read_where_they_are(tmp_path: Path) -> None:
    assert agent_files(None) == ()
    assert agent_files(str(tmp_path / "missing")) == ()
    (tmp_path / "CLAUDE.md").write_bytes(b"\xff rule one")
    (tmp_path / "AGENTS.md").mkdir()
    (tmp_path / "SOUL.md").write_text("s" * 100_000, encoding="utf-8")
    first, second = agent_files(str(tmp_path))
    assert first == "\ufffd rule one"
    assert len(second) == 64_000
    assert "CLAUDE.md" in AGENT_FILE_NAMES
