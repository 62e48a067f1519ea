"""The direction between the languages of a collection, read from where the index stages keep it."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from memsearch.config.errors import MemsearchError
from memsearch.pipeline import languages
from memsearch.recall import logview
from memsearch.sinks.language import Direction, Sums, direction

#: Collections whose sums are kept in memory.
KEPT = 64

_lock = threading.Lock()
_known: dict[tuple[str, str, str], tuple[tuple[int, int], Sums]] = {}


def directions(path: str, collections: Iterable[str], model: str) -> dict[str, Direction]:
    """By collection, the direction that questions are asked without.

    Args:
        path: ``state.db``; a missing or unreadable one has no sums, so that the shipped
            direction is taken where there is one for the model.
        collections: Their names.
        model: Identity of the model of the question.
    """
    found = {}
    for collection in collections:
        own = direction(_sums(path, collection, model), model)
        if own is not None:
            found[collection] = own
    return found


def _sums(path: str, collection: str, model: str) -> Sums:
    key = (path, collection, model)

    try:
        return logview.with_log(path, lambda db: _read(db, key), Sums())
    except MemsearchError:
        return Sums()  # the freshness of the same answer tells of it


def _read(db: logview.Connection, key: tuple[str, str, str]) -> Sums:
    _, collection, model = key
    state = languages.state(db, collection)
    with _lock:
        known = _known.get(key)
    if known is not None and known[0] == state:
        return known[1]
    sums = languages.read(db, collection, model)
    with _lock:
        while len(_known) >= KEPT:
            del _known[next(iter(_known))]
        _known[key] = (state, sums)
    return sums
