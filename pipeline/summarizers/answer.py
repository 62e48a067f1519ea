"""From what a model answered to the notes of an entry. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.pipeline.summarizers.words import clip, plain

#: Notes of one turn at most.
MAX_BULLETS = 6
#: Characters of one note at most.
MAX_BULLET_CHARS = 400
#: Letters or digits that a note has at least; less is a stray mark.
MIN_BULLET_LETTERS = 3
#: Characters of an answer that are looked at; six notes take a tenth of it.
MAX_ANSWER_CHARS = 40_000

# Models that think aloud put their thoughts into the text itself.
_THOUGHT = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.S | re.I)
_THOUGHT_END = re.compile(r"</(?:think|thinking|reasoning)>", re.I)
_BULLET = re.compile(
    r"(?P<indent>[ \t]*)"
    r"(?:[-*+•‣◦·–—](?:[ \t]+|(?=[㐀-鿿]))|\d{1,2}(?:[.)][ \t]+|[、．)）][ \t]*))"
    r"(?:\[[ xX]\][ \t]+)?"
    r"(?P<text>\S.*)"
)
_FENCE = re.compile(r"[ \t]*(?:```|~~~)")


def first_text(content: object) -> str:
    """The first text of an answer that may come as blocks, or "".

    Args:
        content: A string, or a list of blocks with a ``type``; blocks of another type than
            text (thinking, tool use) are passed over.
    """
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence) or isinstance(content, bytes):
        return ""
    for block in content:
        if isinstance(block, str) and block.strip():
            return block
        if isinstance(block, Mapping):
            kind, text = block.get("type"), block.get("text")
        else:
            kind, text = getattr(block, "type", None), getattr(block, "text", None)
        if kind in ("text", "output_text") and isinstance(text, str) and text.strip():
            return text
    return ""


def clean(answer: str, *, tokens: int = 0, most: int = MAX_BULLETS) -> tuple[str, ...]:
    """The notes of an answer: single lines without the mark before them, at least one.

    Args:
        answer: The model's text.
        tokens: What the call cost, for the error.
        most: How many notes are taken.

    Raises:
        MemsearchError: ``BAD_ANSWER`` when no line of it is a note.
    """
    bullets: list[str] = []
    for raw in _bullet_texts(_spoken(answer[:MAX_ANSWER_CHARS])):
        text = tidy(raw)
        if sum(char.isalnum() for char in text) >= MIN_BULLET_LETTERS and text not in bullets:
            bullets.append(text)
    if not bullets:
        what = "is empty" if not answer.strip() else "holds no line that begins with '- '"
        raise MemsearchError(
            f"the summariser's answer {what}", kind=ErrorClass.BAD_ANSWER, tokens=tokens
        )
    return tuple(bullets[:most])


def _spoken(text: str) -> str:
    """The text without what the model thought aloud before it."""
    text = _THOUGHT.sub("", text)
    # Some servers swallow the opening tag and leave the closing one.
    return _THOUGHT_END.split(text)[-1]


def _bullet_texts(text: str) -> list[str]:
    """Each bullet with its continuation lines and the bullets below it."""
    found: list[str] = []
    top: int | None = None  # columns of indent of the outermost bullets
    open_bullet = False
    for line in plain(text).splitlines():
        if _FENCE.match(line) or not line.strip():
            open_bullet = open_bullet and bool(line.strip())
            continue
        match = _BULLET.fullmatch(line.rstrip())
        if match is None:
            # A bullet that was broken into lines goes on with an indent.
            if open_bullet and line[0] in " \t":
                found[-1] += " " + line.strip()
            else:
                open_bullet = False
            continue
        indent = len(match["indent"].expandtabs(4))
        top = indent if top is None else min(top, indent)
        if found and indent > top + 1:
            joint = " " if found[-1].endswith((":", "：")) else "; "
            found[-1] += joint + match["text"]
        else:
            found.append(match["text"])
        open_bullet = True
    return found


def tidy(text: str) -> str:
    """One bounded line that cannot be taken for anything but text.

    Control and invisible characters go, and the ends of HTML comments are broken, since a
    journal's anchors are comments.
    """
    text = plain(text).replace("<!--", "< !--").replace("-->", "-- >")
    return clip(text, MAX_BULLET_CHARS)
