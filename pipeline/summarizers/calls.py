"""What all calls of a model share: how they end early, and what a call may cost."""

from __future__ import annotations

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.pipeline.summarizers.prompt import Prompt
from memsearch.pipeline.summarizers.words import estimate_tokens

#: Seconds between two looks at the stop event and the deadline.
POLL_SECONDS = 0.05
#: Tokens of six notes, generously; what a budget sets aside for an answer.
EXPECTED_OUTPUT_TOKENS = 500


class StoppedError(MemsearchError):
    """The worker shuts down: the call was ended, and the turn is to be given back as it was.

    It is no failure of the provider and no attempt. Its class is ``TIMEOUT``, which the
    engine passes over while it stops.
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} was ended because the worker stops", kind=ErrorClass.TIMEOUT)


def timed_out(what: str, seconds: float) -> MemsearchError:
    """The error of a call that took longer than it may."""
    return MemsearchError(
        f"{what} did not answer within {seconds:g} s",
        kind=ErrorClass.TIMEOUT,
        hint="summarize.timeout_seconds sets how long it may take",
    )


def estimated_cost(prompt: Prompt, overhead: int = 0) -> int:
    """Tokens that a call is likely to cost, for the budget's reservation.

    Args:
        prompt: What is sent.
        overhead: Tokens that the client adds to it.
    """
    return estimate_tokens(prompt.whole) + overhead + EXPECTED_OUTPUT_TOKENS
