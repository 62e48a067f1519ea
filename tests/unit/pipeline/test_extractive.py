"""Notes without a model: the turn's own words, nothing that did not happen."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsearch.pipeline.summarizers.answer import MAX_BULLET_CHARS
from memsearch.pipeline.summarizers.extractive import (
    MAX_COMMAND_CHARS,
    ExtractiveSummarizer,
    excerpt,
    extract,
)
from memsearch.sources.base import Item, State, Turn


def turn(
    *items: Item,
    state: State = "finished",
    platform: str = "claude-code",
    cwd: str | None = "/w/app",
) -> Turn:
    return Turn(
        platform=platform,
        id="t1",
        session="s1",
        at=datetime(2026, 3, 25, 14, 47, tzinfo=UTC),
        cwd=cwd,
        items=items,
        state=state,
        anchor={"transcript": "/x.jsonl"},
    )


def bash(command: str, output: str = "", *, failed: bool = False) -> Item:
    return Item("tool", command, name="Bash", output=output, failed=failed)


def file_tool(name: str, path: str, *, failed: bool = False, output: str = "") -> Item:
    text = json.dumps({"file_path": path, "content": "x"})
    return Item("tool", text, name=name, output=output, failed=failed)


def test_a_whole_turn_in_english() -> None:
    assert extract(
        turn(
            Item("user", "Why does the login fail after a refresh?"),
            Item("assistant", "Let me look."),
            bash("pytest -k login -x", "E   AssertionError: 401 != 200\n1 failed", failed=True),
            file_tool("Read", "/w/app/src/auth.py"),
            file_tool("Read", "/w/app/README.md"),
            file_tool("Edit", "/w/app/src/auth.py"),
            bash("pytest -k login -x", "1 passed"),
            Item(
                "assistant", "## Fixed\n\nThe token had no audience. I added `aud` in `refresh()`."
            ),
        )
    ) == (
        "User asked: Why does the login fail after a refresh?",
        "Claude Code ran `pytest -k login -x`",
        "Claude Code edited src/auth.py, read README.md",
        "Failed: `pytest -k login -x` (E AssertionError: 401 != 200)",
        "Claude Code answered: Fixed The token had no audience. I added `aud` in `refresh()`.",
    )


def test_a_whole_turn_in_chinese() -> None:
    assert extract(
        turn(
            Item("user", "备份脚本上传超时，请修复"),
            Item("user", "顺便加上重试"),
            bash("bash backup.sh", "上传失败：超时", failed=True),
            file_tool("Write", "/w/app/backup.sh"),
            Item("assistant", "已改为分片上传，并加上三次重试。"),
            platform="codex",
        )
    ) == (
        "用户提出：备份脚本上传超时，请修复",
        "用户补充：顺便加上重试",
        "Codex 运行了 `bash backup.sh`",
        "Codex 修改了 backup.sh",
        "失败：`bash backup.sh`（上传失败：超时）",
        "Codex 回答：已改为分片上传，并加上三次重试。",
    )


def test_another_language_is_told_in_english_with_its_own_words() -> None:
    first, last = extract(turn(Item("user", "テストを直して"), Item("assistant", "直しました。")))
    assert first == "User asked: テストを直して"
    assert last == "Claude Code answered: 直しました。"


@pytest.mark.parametrize(
    ("items", "state", "last"),
    [
        ((), "interrupted", "The user interrupted the turn before it was finished"),
        ((), "open", "The turn was still open when it was recorded"),
        ((), "finished", "Claude Code ended without a final message"),
        (
            (Item("assistant", "Looking into it"), bash("ls")),
            "finished",
            "Claude Code ended without a final message",
        ),
        (
            (Item("assistant", "Half of it is done"),),
            "interrupted",
            "Claude Code answered: Half of it is done. "
            "The user interrupted the turn before it was finished",
        ),
        (
            (Item("note", "API error 529 ended the turn"),),
            "finished",
            "API error 529 ended the turn",
        ),
    ],
)
def test_how_it_ended_is_never_made_up(items: tuple[Item, ...], state: State, last: str) -> None:
    bullets = extract(turn(Item("user", "Fix it"), *items, state=state))
    assert bullets[-1] == last


def test_an_interrupted_chinese_turn() -> None:
    assert extract(turn(Item("user", "请修复登录"), state="interrupted"))[-1] == (
        "用户中断了这一轮，尚未完成"
    )


def test_many_commands_are_counted_and_long_ones_are_cut_at_a_word() -> None:
    commands = [bash(f"make step{n}") for n in range(7)] + [bash("make step0")]
    bullets = extract(turn(Item("user", "go"), *commands))
    assert bullets[1] == (
        "Claude Code ran `make step0`, `make step1`, `make step2`, `make step3` and 3 more commands"
    )
    long = "pytest " + " ".join(f"tests/test_{n}.py" for n in range(30))
    (_, ran, _) = extract(turn(Item("user", "go"), bash(long)))
    assert ran.startswith("Claude Code ran `pytest tests/test_0.py")
    assert ran.endswith(".py…`")
    assert len(ran) <= MAX_COMMAND_CHARS + 30


def test_a_command_with_backticks_stays_whole() -> None:
    bullets = extract(turn(Item("user", "go"), bash("echo `date`")))
    assert bullets[1] == "Claude Code ran `` echo `date` ``"


@pytest.mark.parametrize(
    ("name", "text", "files"),
    [
        ("Edit", '{"file_path":"/w/app/a.py"}', "edited a.py"),
        ("Write", '{"file_path":"/elsewhere/a.py"}', "edited /elsewhere/a.py"),
        ("edit", '{"filePath":"/w/app/sub/a b.py"}', "edited sub/a b.py"),
        ("NotebookEdit", '{"notebook_path":"/w/app/n.ipynb"}', "edited n.ipynb"),
        (
            "apply_patch",
            "*** Begin Patch\n*** Update File: a.py\n*** Add File: b/c.py\n",
            "edited a.py, b/c.py",
        ),
        ("apply_patch", '{"input":"*** Begin Patch\\n*** Update File: a.py\\n@@"}', "edited a.py"),
        ("Read", '{"file_path":"/w/app/a.py","offset":1', "read a.py"),
        ("read", '{"path":"notes.md"}', "read notes.md"),
        ("Read", "no json at all", "used Read"),
        ("WebSearch", '{"query":"x"}', "used WebSearch"),
        ("mcp__db__query", '{"sql":"select 1"}', "used mcp__db__query"),
        ("", "{}", "used tool"),
    ],
)
def test_files_and_tools_are_named(name: str, text: str, files: str) -> None:
    bullets = extract(turn(Item("user", "go"), Item("tool", text, name=name)))
    assert bullets[1] == f"Claude Code {files}"


def test_what_failed_was_not_done() -> None:
    bullets = extract(
        turn(
            Item("user", "go"),
            file_tool("Edit", "/w/app/a.py", failed=True, output="String not found in file"),
            Item("tool", "{}", name="WebFetch", failed=True, output=""),
            bash("false", failed=True),
        )
    )
    text = "\n".join(bullets)
    assert "edited" not in text
    assert "used" not in text
    assert "Failed: a.py (String not found in file); WebFetch and 1 more steps" in text


def test_a_code_block_gives_way_to_the_words_around_it() -> None:
    assert excerpt("Fix this:\n```py\nx = 1\n```\nplease") == "Fix this: please"
    assert excerpt("```py\nx = 1\n```") == "py x = 1"
    assert excerpt("Fix ```a``` now") == "Fix now"
    assert excerpt("> quoted\n- point\n# head") == "quoted point head"


def test_words_are_cut_at_a_sentence() -> None:
    text = "The first sentence is here. " * 30
    assert excerpt(text).endswith("is here.")
    assert len(excerpt(text)) <= 200


def test_the_summariser_costs_nothing_and_is_deterministic() -> None:
    summarizer = ExtractiveSummarizer()
    one = turn(Item("user", "go"), Item("assistant", "Done."))
    first = summarizer.summarize(one, timeout=1, stop=threading.Event())
    assert first == summarizer.summarize(one, timeout=1, stop=threading.Event())
    assert summarizer.estimate(one) == 0
    assert (first.tokens_in, first.tokens_out, first.provider) == (0, 0, "extractive")


texts = st.one_of(
    st.text(max_size=300),
    st.sampled_from(
        ["```" * 50, "x" * 5_000, "字" * 3_000, '{"file_path":"' + "a" * 900, "[" * 3_000]
    ),
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.builds(
            Item,
            kind=st.sampled_from(["user", "assistant", "tool", "note"]),
            text=texts,
            name=st.sampled_from(["Bash", "Edit", "Read", "apply_patch", "Task", "", "\x00"]),
            output=texts,
            failed=st.booleans(),
        ),
        max_size=25,
    ),
    st.sampled_from(["finished", "interrupted", "open"]),
    st.sampled_from([None, "/", "/w/app", "/w/app/"]),
)
def test_any_turn_gives_two_to_six_notes(items: list[Item], state: State, cwd: str | None) -> None:
    bullets = extract(turn(*items, state=state, cwd=cwd))
    assert 2 <= len(bullets) <= 6
    for bullet in bullets:
        assert bullet
        assert len(bullet) <= MAX_BULLET_CHARS
        assert len(bullet.splitlines()) == 1
        bullet.encode("utf-8")
    if state == "interrupted":
        assert "interrupted" in bullets[-1] or "中断" in bullets[-1]
