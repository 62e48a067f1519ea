"""The one prompt of all summarisers: the rules, and a turn as fenced data.

Pure. The rules lie in ``prompt.txt``; the agent's name is put in by plain replacement, so no
text of a turn ever meets a format string.
"""

from __future__ import annotations

import functools
import importlib.resources
from collections.abc import Iterable
from dataclasses import dataclass

from memsearch.pipeline.summarizers.words import is_chinese, one_line, plain
from memsearch.sources.base import Item, Turn

#: First line of every prompt of ours. A session whose first user text begins with it is our
#: own summariser's and is never captured. It must never change: transcripts of today are
#: read by the releases of tomorrow.
PROMPT_MARK = "[memsearch request 5d0c9e2b: notes of one turn]"

#: Lines around the turn. Text cannot forge them: each of its own lines begins with ``| ``.
FENCE_START = "<<<TURN"
FENCE_END = "TURN>>>"
_QUOTE = "| "

#: The least room for a turn that still holds something, in characters.
MIN_INPUT_CHARS = 1_000

#: How agents are called in notes.
AGENT_NAMES = {
    "claude-code": "Claude Code",
    "codex": "Codex",
    "openclaw": "OpenClaw",
    "opencode": "OpenCode",
}

_ENDINGS = {
    "finished": "",
    "interrupted": "The user interrupted the agent before it had finished.",
    "open": "The agent had not finished when this was recorded.",
}


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt in the two forms that models take.

    ``system`` and ``user`` go to those that know a system prompt; ``whole`` goes to those
    that take one text. ``user`` and ``whole`` begin with ``PROMPT_MARK``.
    """

    system: str
    user: str

    @property
    def whole(self) -> str:
        rest = self.user.removeprefix(PROMPT_MARK)
        return f"{PROMPT_MARK}\n\n{self.system}{rest}"


def agent_name(platform: str) -> str:
    """How the agent is called in notes; an unknown platform's own name."""
    return AGENT_NAMES.get(platform, platform)


def is_ours(text: str) -> bool:
    """Whether a user text is a prompt of this module.

    Exact: the text must begin with the mark, so that a user who writes about it is still
    captured. Quotes and blanks before it are passed over, since ``opencode run`` stores its
    message wrapped in literal quotes.
    """
    head = text[: len(PROMPT_MARK) + 16].lstrip(" \t\r\n\"'\ufeff")
    return head.startswith(PROMPT_MARK)


def build(turn: Turn, *, max_chars: int) -> Prompt:
    """The prompt for one turn.

    Args:
        turn: The redacted turn.
        max_chars: Room for the rendered turn, in characters; never below
            ``MIN_INPUT_CHARS``. The rules come on top (about 2,400).
    """
    name = agent_name(turn.platform)
    user_words = "\n".join(item.text for item in turn.items if item.kind == "user")
    language = "Chinese" if is_chinese(user_words) else "the language of the user's own words"
    body = render(turn, max_chars=max_chars)
    closing = f'Now the notes of this turn, in {language}, each beginning with "- ".'
    user = f"{PROMPT_MARK}\n\n{FENCE_START}\n{body}\n{FENCE_END}\n\n{closing}\n"
    return Prompt(system=_rules().replace("{agent}", name), user=user)


@functools.cache
def _rules() -> str:
    folder = importlib.resources.files("memsearch.pipeline.summarizers")
    return (folder / "prompt.txt").read_text(encoding="utf-8").strip()


# ------------------------------------------------------------------------------ the turn


@dataclass(frozen=True, slots=True)
class _Caps:
    """How many characters of each kind of text are kept, head and tail."""

    user: int
    answer: int  # the agent's last words
    said: int  # the agent's words in between
    call: int
    output: int


#: From roomy to tight; the first that fits is taken.
_LEVELS = (
    _Caps(user=40_000, answer=40_000, said=40_000, call=40_000, output=2_000),
    _Caps(user=12_000, answer=8_000, said=2_000, call=2_000, output=600),
    _Caps(user=6_000, answer=4_000, said=800, call=600, output=300),
    _Caps(user=4_000, answer=2_000, said=300, call=300, output=120),
)


def render(turn: Turn, *, max_chars: int) -> str:
    """The turn as quoted lines under headings, within ``max_chars`` characters.

    When there is too much, outputs and the agent's words in between are shortened first,
    then steps in the middle are left out; the user's words and how it ended go last.
    """
    limit = max(max_chars, MIN_INPUT_CHARS)
    last = _last_answer(turn.items)
    steps: list[str] = []
    for level in _LEVELS:
        steps = _steps(turn, last, level)
        if _size(steps) <= limit:
            return "\n".join(steps)
    # Still too long: the user's words and the end share the room, the middle goes.
    share = limit // 3
    tight = _Caps(user=share, answer=share, said=200, call=200, output=80)
    steps = _steps(turn, last, tight)
    keep = [item.kind == "user" for item in turn.items]
    keep += [False] * (len(steps) - len(keep))
    steps = _drop_middle(steps, keep, limit)
    return _cut_lines("\n".join(steps), limit)


def _last_answer(items: tuple[Item, ...]) -> int:
    """Index of the agent's last words; -1 when it said nothing."""
    for index in range(len(items) - 1, -1, -1):
        if items[index].kind == "assistant":
            return index
    return -1


def _steps(turn: Turn, last: int, caps: _Caps) -> list[str]:
    """One block of lines for each item, and one for how it ended."""
    steps = []
    for index, item in enumerate(turn.items):
        if item.kind == "user":
            steps.append(_block("user:", clip_middle(item.text, caps.user)))
        elif item.kind == "assistant":
            cap = caps.answer if index == last else caps.said
            steps.append(_block("assistant:", clip_middle(item.text, cap)))
        elif item.kind == "note":
            steps.append(_block("note:", clip_middle(item.text, caps.said)))
        else:
            name = one_line(plain(item.name))[:80] or "tool"
            heading = f"tool {name} (failed):" if item.failed else f"tool {name}:"
            block = _block(heading, clip_middle(item.text, caps.call))
            if item.output.strip():
                block += "\n" + _block("output:", clip_middle(item.output, caps.output))
            steps.append(block)
    if ending := _ENDINGS[turn.state]:
        steps.append(_block("note:", ending))
    return steps


def _block(heading: str, text: str) -> str:
    # splitlines knows every line break there is, so none of them starts a line unquoted.
    lines = [line.rstrip() for line in plain(text).splitlines()]
    kept = [line for index, line in enumerate(lines) if line or (index and lines[index - 1])]
    return "\n".join([heading, *(_QUOTE + line for line in kept)])


def _size(steps: Iterable[str]) -> int:
    return sum(len(step) + 1 for step in steps)


def clip_middle(text: str, limit: int) -> str:
    """Head and tail of a text with a count of what was left out between them."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    left_out = len(text) - head - tail
    return f"{text[:head]} […{left_out} characters left out…] {text[len(text) - tail :]}"


def _drop_middle(steps: list[str], keep: list[bool], limit: int) -> list[str]:
    """Leave steps out from the middle until the rest fits, first those that are not kept."""
    room = limit - 80  # for the line that says how many are gone
    size = _size(steps)
    middle = len(steps) / 2
    order = sorted(range(len(steps)), key=lambda index: (keep[index], abs(index + 0.5 - middle)))
    gone: set[int] = set()
    for index in order:
        # The first step is the request, the last one the end: never dropped here.
        if size <= room or index in (0, len(steps) - 1):
            continue
        gone.add(index)
        size -= len(steps[index]) + 1
    if not gone:
        return steps
    kept = [step for index, step in enumerate(steps) if index not in gone]
    kept.insert(min(gone), _block("note:", f"{len(gone)} steps left out here for length"))
    return kept


def _cut_lines(text: str, limit: int) -> str:
    """Head and tail of whole quoted lines; the last resort of texts made of line breaks."""
    if len(text) <= limit:
        return text
    lines = text.split("\n")
    room = limit - 40
    head: list[str] = []
    used = 0
    for line in lines:
        if used + len(line) + 1 > room * 2 // 3:
            break
        head.append(line)
        used += len(line) + 1
    tail: list[str] = []
    for line in reversed(lines[len(head) :]):
        if used + len(line) + 1 > room:
            break
        tail.append(line)
        used += len(line) + 1
    return "\n".join([*head, "note:", f"{_QUOTE}lines left out", *reversed(tail)])
