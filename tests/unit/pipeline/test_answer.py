"""From a model's answer to notes, by table."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.pipeline.summarizers.answer import (
    MAX_BULLET_CHARS,
    MAX_BULLETS,
    clean,
    first_text,
    tidy,
)

ANSWERS = {
    "plain": ("- one fact\n- two facts", ("one fact", "two facts")),
    "stars": ("* one fact\n* two facts", ("one fact", "two facts")),
    "dots": ("• one fact\n•二号事实", ("one fact", "二号事实")),
    "numbers": ("1. one fact\n2) two facts\n3、三号事实", ("one fact", "two facts", "三号事实")),
    "indented": ("  - one fact\n  - two facts", ("one fact", "two facts")),
    "words around": ("Here are the notes:\n\n- one fact\n\nHope it helps!", ("one fact",)),
    "heading": ("# Notes\n- one fact\n## More\n- two facts", ("one fact", "two facts")),
    "code fence": ("```markdown\n- one fact\n- two facts\n```", ("one fact", "two facts")),
    "broken lines": (
        "- one fact that\n  goes on\n- two facts",
        ("one fact that goes on", "two facts"),
    ),
    "text behind a bullet": ("- one fact\nand prose", ("one fact",)),
    "nested": ("- changed:\n  - a.py\n  - b.py\n- two facts", ("changed: a.py; b.py", "two facts")),
    "check boxes": ("- [x] one fact\n- [ ] two facts", ("one fact", "two facts")),
    "thought": ("<think>\n- a thought\n</think>\n- one fact", ("one fact",)),
    "thought without its beginning": ("- a thought\n</think>\n- one fact", ("one fact",)),
    "rules": ("---\n- one fact\n***\n", ("one fact",)),
    "windows lines": ("- one fact\r\n- two facts\r\n", ("one fact", "two facts")),
    "twice": ("- one fact\n- one fact", ("one fact",)),
    "empty bullets": ("- \n-\n- x\n- one fact", ("one fact",)),
    "hyphens inside": ("- a-b -- c - d", ("a-b -- c - d",)),
    "markup": (
        "- **Fixed** `refresh()` in [auth](a.py)",
        ("**Fixed** `refresh()` in [auth](a.py)",),
    ),
    "no blank": ("-修复了登录\n-增加测试", ("修复了登录", "增加测试")),
    "control": ("- one\x00 \x1b[31mred\x1b[0m \u202efact\u200b", ("one red fact",)),
    "anchor": (
        "- see <!-- session:a turn:b --> here",
        ("see < !-- session:a turn:b -- > here",),
    ),
    "too many": ("\n".join(f"- fact {n}" for n in range(9)), tuple(f"fact {n}" for n in range(6))),
}


@pytest.mark.parametrize(("given_text", "bullets"), ANSWERS.values(), ids=ANSWERS.keys())
def test_answer_becomes_notes(given_text: str, bullets: tuple[str, ...]) -> None:
    assert clean(given_text) == bullets


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n\t ",
        "The turn went well.",
        "I can't help with that.",
        "---",
        "- -\n- .\n* ",
        "<think>\n- a thought that never ends",
        "```\n```",
        "-5 degrees",
        "*emphasis* only",
    ],
)
def test_answer_without_notes_is_a_bad_one(text: str) -> None:
    with pytest.raises(MemsearchError) as caught:
        clean(text, tokens=42)
    assert caught.value.kind is ErrorClass.BAD_ANSWER
    assert caught.value.tokens == 42


def test_a_long_note_is_cut() -> None:
    (bullet,) = clean("- " + "many words " * 100)
    assert len(bullet) <= MAX_BULLET_CHARS
    assert bullet.endswith("words…")


@given(st.text(max_size=400))
def test_whatever_comes_out_is_fit_for_a_journal(text: str) -> None:
    try:
        bullets = clean("- " + text)
    except MemsearchError:
        return
    assert 1 <= len(bullets) <= MAX_BULLETS
    for bullet in bullets:
        assert len(bullet) <= MAX_BULLET_CHARS
        assert bullet == bullet.strip()
        assert len(bullet.splitlines()) == 1
        assert "<!--" not in bullet
        assert "-->" not in bullet
        bullet.encode("utf-8")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        (None, ""),
        ([], ""),
        (42, ""),
        ([{"type": "thinking", "thinking": "t"}, {"type": "text", "text": "x"}], "x"),
        ([{"type": "thinking", "thinking": "t"}], ""),
        ([{"type": "text", "text": " "}, {"type": "text", "text": "x"}], "x"),
        ([{"type": "text", "text": "x"}, {"type": "text", "text": "y"}], "x"),
        ([{"type": "output_text", "text": "x"}], "x"),
        ([SimpleNamespace(type="text", text="x")], "x"),
        ([{"type": "tool_use", "text": "no"}, "x"], "x"),
    ],
)
def test_first_text_of_an_answer(content: object, text: str) -> None:
    assert first_text(content) == text


def test_tidy_is_one_line() -> None:
    assert tidy("a\nb\tc\u2028d") == "a b c d"
