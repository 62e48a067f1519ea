"""Regular expressions of the user: which are taken, and that none is spoken of on the side."""

from __future__ import annotations

import pytest

from memsearch.config.patterns import fault


@pytest.mark.parametrize("pattern", ["[[a]x", "x[+--b]", "x[a||b]", "x[a~~b]", "x[a&&b]"])
def test_what_a_later_python_may_read_otherwise_is_taken_in_silence(pattern: str) -> None:
    """Found by fuzzing: Python's own warning went to the terminal. Here it is an error."""
    assert fault(pattern) == ""


@pytest.mark.parametrize("pattern", ["(", "(a+)+", "a*", r"(a)\1"])
def test_what_cannot_be_run_on_any_text_is_refused(pattern: str) -> None:
    assert fault(pattern)
