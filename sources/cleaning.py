"""What an agent wrote as text and blocks, and what is left out of it, whatever agent it is."""

from __future__ import annotations

from typing import Any

from memsearch.sources.bounds import well_formed
from memsearch.sources.injected import strip_injected
from memsearch.sources.private import strip_private


def clean(text: str) -> str:
    """A text without what is private and what memsearch injected."""
    return strip_private(strip_injected(well_formed(text)))[0]


def text_of(value: object) -> str:
    """A value as text that can be written; empty when it is none."""
    return well_formed(value) if isinstance(value, str) else ""


def blocks_of(content: object) -> list[dict[str, Any]]:
    """The blocks of a message's content: a text, a block, or a list of both."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if isinstance(content, dict):
        return [content]
    if not isinstance(content, list):
        return []
    return [
        {"type": "text", "text": block} if isinstance(block, str) else block
        for block in content
        if isinstance(block, str | dict)
    ]
