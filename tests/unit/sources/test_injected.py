from __future__ import annotations

import pytest

from memsearch.sources.injected import (
    MEMORY_FENCE_CLOSE,
    MEMORY_FENCE_OPEN,
    MEMORY_HINT,
    strip_blocks,
    strip_injected,
)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("plain", "plain"),
        ("<system-reminder>x</system-reminder>a", "a"),
        ("a<system-reminder>x</system-reminder>b<system-reminder>y</system-reminder>c", "abc"),
        ("a <system-reminder> b", "a <system-reminder> b"),
        ("a </system-reminder> b", "a </system-reminder> b"),
        ("<ide_selection>x</ide_selection>a<new-diagnostics>y</new-diagnostics>", "a"),
        (f"a{MEMORY_FENCE_OPEN} project='x'>\nold{MEMORY_FENCE_CLOSE}b", "ab"),
        (f"a{MEMORY_FENCE_OPEN}>old", "a"),
        (f"a {MEMORY_FENCE_CLOSE} b", f"a {MEMORY_FENCE_CLOSE} b"),
        (f"a\n{MEMORY_HINT}\nb", "a\nb"),
        (f"  {MEMORY_HINT} (12 notes)", ""),
        (f"I saw '{MEMORY_HINT}'", f"I saw '{MEMORY_HINT}'"),
    ],
)
def test_what_is_left(text: str, rest: str) -> None:
    assert strip_injected(text) == rest


def test_a_megabyte_of_open_blocks_takes_linear_time() -> None:
    strip_injected("<system-reminder>" * 100_000)
    strip_injected(MEMORY_FENCE_OPEN * 100_000)


def test_blocks_between_marks() -> None:
    assert strip_blocks("a[b]c[d", "[", "]") == "ac[d"
    assert strip_blocks("a[b]c[d", "[", "]", unclosed=True) == "ac"
