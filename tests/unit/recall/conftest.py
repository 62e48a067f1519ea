"""What the tests of recall share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memsearch.sinks.types import Hit


@pytest.fixture
def make_hit() -> Callable[..., Hit]:
    """Makes a hit by its id; what is not given is empty."""

    def make(key: str, score: float = 0.0, content: str = "", **fields: Any) -> Hit:
        given: dict[str, Any] = {
            "source": f"{key}.md",
            "heading": "",
            "heading_level": 0,
            "start_line": 1,
            "end_line": 1,
            "platform": "",
            "session": "",
            "turn": "",
            "day": 0,
            "kind": "note",
        }
        return Hit(chunk_hash=key, score=score, content=content or key, **(given | fields))

    return make
