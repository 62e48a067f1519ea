"""What was put into a conversation and is nobody's words.

Agents write injected context into their transcripts, ours among it. It is left out at
capture: else memory would feed on itself.
"""

from __future__ import annotations

from memsearch.config.marks import MEMORY_FENCE_CLOSE, MEMORY_FENCE_OPEN, MEMORY_HINT

__all__ = [
    "MEMORY_FENCE_CLOSE",
    "MEMORY_FENCE_OPEN",
    "MEMORY_HINT",
    "strip_blocks",
    "strip_injected",
]

# What agents and their editors put beside the user's words, as whole blocks.
_BLOCKS = (
    ("<system-reminder>", "</system-reminder>"),
    ("<ide_opened_file>", "</ide_opened_file>"),
    ("<ide_selection>", "</ide_selection>"),
    ("<ide_diagnostics>", "</ide_diagnostics>"),
    ("<new-diagnostics>", "</new-diagnostics>"),
    ("<post-tool-use-hook>", "</post-tool-use-hook>"),
    ("<user-prompt-submit-hook>", "</user-prompt-submit-hook>"),
)


def strip_injected(text: str) -> str:
    """A text without injected blocks, without our own memory and without our hint.

    An agent's block that is not closed stays (somebody wrote about the tag); our own
    memory that is not closed was cut by the agent, and goes to the end of the text.
    """
    if "<" in text:
        for begin, end in _BLOCKS:
            text = strip_blocks(text, begin, end)
        text = strip_blocks(text, MEMORY_FENCE_OPEN, MEMORY_FENCE_CLOSE, unclosed=True)
    if MEMORY_HINT in text:
        text = "\n".join(
            line for line in text.split("\n") if not line.strip().startswith(MEMORY_HINT)
        )
    return text


def strip_blocks(text: str, begin: str, end: str, *, unclosed: bool = False) -> str:
    """A text without the blocks between two marks, in linear time.

    Args:
        text: Any text.
        begin: How a block begins.
        end: How it ends.
        unclosed: Whether a block without an end reaches to the end of the text.
    """
    kept: list[str] = []
    since = 0
    while (start := text.find(begin, since)) >= 0:
        stop = text.find(end, start + len(begin))
        if stop < 0:
            if unclosed:
                kept.append(text[since:start])
                since = len(text)
            break
        kept.append(text[since:start])
        since = stop + len(end)
    kept.append(text[since:])
    return "".join(kept)
