"""What is left out of any text of a conversation, whatever agent it comes from."""

from __future__ import annotations

from memsearch.sources.bounds import well_formed
from memsearch.sources.injected import strip_injected
from memsearch.sources.private import strip_private


def clean(text: str) -> str:
    """A text without what is private and what memsearch injected."""
    return strip_private(strip_injected(well_formed(text)))[0]


def text_of(value: object) -> str:
    """A value as text that can be written; empty when it is none."""
    return well_formed(value) if isinstance(value, str) else ""
