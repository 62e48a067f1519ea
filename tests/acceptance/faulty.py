"""The command, with one fault to order: it kills itself at a given call of the store's client.

Run in place of the command, ``FAULT=method:number:when`` in the environment: at the so-many-th
call of that method of Milvus' client, ``before`` it, ``after`` it, or ``within`` (for Milvus
Lite's rename: between its two steps). ``FAULT=noted:1:before`` is the moment at which a swap
is done and the log does not know it yet. Without FAULT it is the command.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from typing import Any

from memsearch.sinks import store_connection


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Faulty:
    """Milvus' client; every call is counted."""

    def __init__(self, client: Any, method: str, number: int, when: str) -> None:
        self._client = client
        self._fault = (method, number)
        self._when = when
        self._calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if name != self._fault[0]:
            return found

        def call(*arguments: Any, **options: Any) -> Any:
            self._calls[name] += 1
            if self._calls[name] != self._fault[1]:
                return found(*arguments, **options)
            if self._when == "before":
                die()
            if self._when == "within":
                from milvus_lite import db

                db.save_schema = lambda *_: die()
            answer = found(*arguments, **options)
            die()
            return answer

        return call


def install(fault: str) -> None:
    """Order the fault."""
    method, number, when = fault.split(":")
    if method == "noted":
        from memsearch.pipeline import renewal

        renewal._note_end = lambda *_: die()
        return
    connect = store_connection.connect

    def connected(*arguments: Any) -> Any:
        return Faulty(connect(*arguments), method, int(number), when)

    store_connection.connect = connected


if __name__ == "__main__":
    if os.environ.get("FAULT"):
        install(os.environ["FAULT"])
    from memsearch._entry import main

    raise SystemExit(main())
