"""A cross-encoder that reads question and text together and puts the best candidates in order.

Optional (``search.reranker``): slower than both legs together, and it needs the extra ``local``.
"""

from __future__ import annotations

import importlib
import math
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.recall.fusion import Fused, in_order
from memsearch.recall.legs import weighed

#: Candidates that are read at most: each costs a pass of the model.
CANDIDATES = 30
#: Characters of a candidate that are read; such models take some 512 tokens.
MAX_CHARS = 2_000

_lock = threading.Lock()
_loaded: tuple[str, Any] | None = None


def rerank(name: str, question: str, ranked: Sequence[Fused]) -> list[Fused]:
    """Order the best candidates by the model's score; the others stay behind them.

    Args:
        name: The model's name at its hub, or a folder.
        question: As it was asked.
        ranked: Candidates, best first.

    Returns:
        The same candidates. The score of those that were read is the model's, brought to 0
        to 1 by the logistic function where it is not there already.

    Raises:
        MemsearchError: ``CONFIG`` when the extra is missing or the model cannot be loaded.
    """
    read, rest = list(ranked[:CANDIDATES]), ranked[CANDIDATES:]
    if not read:
        return []
    pairs = [(question, item.hit.content[:MAX_CHARS]) for item in read]
    with _lock:
        model = _model(name)
        scores = [float(score) for score in model.predict(pairs, show_progress_bar=False)]
    if any(not math.isfinite(score) for score in scores):
        raise MemsearchError(
            f"the reranker {name} gave a score that is no number", kind=ErrorClass.BAD_ANSWER
        )
    if not all(0.0 <= score <= 1.0 for score in scores):
        scores = [_logistic(score) for score in scores]
    ordered = in_order(
        weighed(replace(item, score=score)) for item, score in zip(read, scores, strict=True)
    )
    floor = ordered[-1].score
    return ordered + [replace(item, score=item.score * floor) for item in rest]


def let_go() -> None:
    """Forget the model; the next call loads it again."""
    global _loaded
    with _lock:
        _loaded = None


def _model(name: str) -> Any:
    global _loaded
    if _loaded is None or _loaded[0] != name:
        _loaded = (name, _load(name))
    return _loaded[1]


def _load(name: str) -> Any:
    try:
        library = importlib.import_module("sentence_transformers")
    except ImportError as error:
        raise MemsearchError(
            "search.reranker needs sentence-transformers, which is not installed",
            kind=ErrorClass.CONFIG,
            hint='pip install "memsearch[local]", or memsearch config unset search.reranker',
        ) from error
    try:
        return library.CrossEncoder(name)
    except (OSError, ValueError) as error:
        raise MemsearchError(
            f"the reranker {name} cannot be loaded: {error}",
            kind=ErrorClass.CONFIG,
            hint="search.reranker is a name at the hub or the path of a folder",
        ) from error


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-max(-60.0, min(60.0, value))))
