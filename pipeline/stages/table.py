"""Which function runs which stage."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from memsearch.pipeline.stages.append import append
from memsearch.pipeline.stages.capture import capture
from memsearch.pipeline.stages.chunk import chunk
from memsearch.pipeline.stages.embed import embed
from memsearch.pipeline.stages.summarize import summarize
from memsearch.pipeline.stages.upsert import upsert

if TYPE_CHECKING:
    from memsearch.pipeline.engine import Engine

STAGES: dict[str, Callable[[Engine, str], None]] = {
    "capture": capture,
    "summarize": summarize,
    "append": append,
    "chunk": chunk,
    "embed": embed,
    "upsert": upsert,
}
