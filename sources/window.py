"""Choosing among the turns of a conversation that was read."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sources.base import Turn


def around(turns: Iterator[Turn], turn: str | None, context: int, path: str) -> tuple[Turn, ...]:
    """A turn with its neighbours, or the last ones without a turn.

    Raises:
        MemsearchError: ``BAD_FILE`` when the turn is not among them.
    """
    context = max(0, context)
    window: deque[Turn] = deque(maxlen=2 * context + 1 if turn is None else context)
    for each in turns:
        if turn is not None and each.answers_to(turn):
            after = [next_one for next_one, _ in zip(turns, range(context), strict=False)]
            return (*window, each, *after)
        window.append(each)
    if turn is None:
        return tuple(window)
    raise MemsearchError(
        f"{path} does not hold the turn {turn}",
        kind=ErrorClass.BAD_FILE,
        hint="leave the turn out to see the end of the conversation",
    )


def with_meant(kept: Sequence[Turn], meant: Turn | None) -> list[Turn]:
    """The turns of a reading with the one that a hook means among them, in their order."""
    if meant is None or any(turn.id == meant.id for turn in kept):
        return list(kept)
    return sorted((*kept, meant), key=lambda turn: turn.position)
