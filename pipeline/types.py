"""The shapes that the stages exchange with the summarisers."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from memsearch.sources.base import Turn

if TYPE_CHECKING:
    from memsearch.pipeline.summarizers.prompt import Prompt


@dataclass(frozen=True, slots=True)
class Summary:
    """A turn's notes and what they cost.

    ``bullets`` are 1 to 6 single lines without the leading ``- ``. ``estimated`` says that
    the provider reported no usage and the tokens are an estimate.
    """

    bullets: tuple[str, ...]
    provider: str
    model: str
    tokens_in: int = 0
    tokens_out: int = 0
    estimated: bool = False


class Summarizer(Protocol):
    """One way to get notes of a turn."""

    #: ``extractive``, ``openai`` or ``native``.
    provider: str
    model: str

    def estimate(self, turn: Turn) -> int:
        """Tokens that a call will cost at most, for the budget's reservation; 0 when free."""
        ...

    def summarize(self, turn: Turn, *, timeout: float, stop: threading.Event) -> Summary:
        """Notes of one turn.

        Args:
            turn: The redacted turn.
            timeout: Seconds after which the call is ended, with its whole process group.
            stop: Set when the worker shuts down; the call ends soon after.

        Raises:
            MemsearchError: with the class of the failure, and the tokens it cost.
        """
        ...

    def cost_of(self, asked: Prompt) -> int:
        """As ``estimate``, for any prompt of ours."""
        ...

    def answer_to(
        self, asked: Prompt, *, most: int, timeout: float, stop: threading.Event
    ) -> Summary | None:
        """The notes that any prompt of ours asks for.

        Args:
            asked: The prompt, for bullets.
            most: How many of them are taken.
            timeout: As for ``summarize``.
            stop: As for ``summarize``.

        Returns:
            None where no model is asked (``extractive``).

        Raises:
            MemsearchError: as ``summarize``.
        """
        ...
