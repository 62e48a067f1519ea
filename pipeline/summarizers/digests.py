"""A day's digest: its prompt, in parts that fit a model, and the one without a model. Pure."""

from __future__ import annotations

import functools
import importlib.resources
from collections.abc import Sequence

from memsearch.pipeline.summarizers.prompt import MIN_INPUT_CHARS, PROMPT_MARK, Prompt, clip_middle
from memsearch.pipeline.summarizers.words import clip, is_chinese, plain
from memsearch.sinks.digest import Part

FENCE_START = "<<<NOTES"
FENCE_END = "NOTES>>>"
_QUOTE = "| "

#: Notes that a model may make of one part, at least and at most; in between one for each entry.
MIN_NOTES, MAX_NOTES = 3, 30
#: Without a model: how many bullets of an entry are kept, and characters of each.
FIRST_BULLETS, MAX_FIRST_CHARS = 2, 240


def split(parts: Sequence[Part], max_chars: int) -> list[list[Part]]:
    """Entries in groups, each of which fits into one prompt.

    Args:
        parts: Entries, in their order.
        max_chars: Room for the entries of one prompt (``summarize.max_input_chars``).
    """
    limit = max(max_chars, MIN_INPUT_CHARS)
    groups: list[list[Part]] = []
    size = 0
    for part in parts:
        length = min(len(_quoted(part, limit)), limit) + 1
        if not groups or size + length > limit or len(groups[-1]) >= MAX_NOTES:
            groups.append([])
            size = 0
        groups[-1].append(part)
        size += length
    return groups


def build(day: str, parts: Sequence[Part], max_chars: int) -> Prompt:
    """The prompt for the digest of some entries of a day.

    Args:
        day: ``YYYY-MM-DD``.
        parts: Entries, redacted; a group of ``split``.
        max_chars: As for ``split``; an entry that is longer loses its middle.
    """
    limit = max(max_chars, MIN_INPUT_CHARS)
    body = "\n".join(_quoted(part, limit) for part in parts)
    words = "\n".join(bullet for part in parts for bullet in part.bullets)
    language = "Chinese" if is_chinese(words) else "the language of the entries"
    closing = f'Now the digest of {day}, in {language}, each note beginning with "- ".'
    rules = _rules().replace("{day}", day).replace("{most}", str(most_notes(parts)))
    return Prompt(
        system=rules,
        user=f"{PROMPT_MARK}\n\n{FENCE_START}\n{body}\n{FENCE_END}\n\n{closing}\n",
    )


def most_notes(parts: Sequence[Part]) -> int:
    """How many notes the digest of some entries may have."""
    return min(max(len(parts), MIN_NOTES), MAX_NOTES)


def first_bullets(parts: Sequence[Part]) -> list[str]:
    """The digest without a model: the first bullets of each entry, with its time."""
    notes = []
    for part in parts:
        kept = [clip(bullet, MAX_FIRST_CHARS) for bullet in part.bullets[:FIRST_BULLETS]]
        notes.append(f"{part.time} {'; '.join(kept)}".strip())
    return notes


def _quoted(part: Part, limit: int) -> str:
    bullets = "\n".join(f"- {bullet}" for bullet in part.bullets)
    text = clip_middle(plain(bullets), limit // 2)
    # splitlines knows every line break there is, so none of them starts a line unquoted.
    return "\n".join([f"{part.time}:", *(_QUOTE + line for line in text.splitlines())])


@functools.cache
def _rules() -> str:
    folder = importlib.resources.files("memsearch.pipeline.summarizers")
    return (folder / "digest.txt").read_text(encoding="utf-8").strip()
