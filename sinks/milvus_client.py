"""pymilvus, imported without its side effects and connected within a deadline."""

from __future__ import annotations

import contextlib
import logging
import logging.config
import os
import re
import sys
import threading
from collections.abc import Iterator
from typing import Any

from memsearch.sinks import lazy_pandas

#: Seconds within which a server must have answered the first call.
CONNECT_SECONDS = 8.0

#: A server that is not told otherwise ends connections that ping more often than this, and
#: those that ping without a call; pymilvus pings every 10 s.
_CHANNEL = {
    "grpc.keepalive_time_ms": 300_000,
    "grpc.keepalive_permit_without_calls": False,
}

#: First version of the server that has BM25 functions.
_BM25_SINCE = (2, 5)

_import_lock = threading.Lock()


def import_pymilvus() -> Any:
    """The ``pymilvus`` module.

    Importing it plainly would read a ``.env`` file from any folder above the installation into
    the environment, print gRPC's log to the terminal, send its own log there, by configuring
    ``logging`` close the log handlers that the process already has, and load pandas.

    What the three libraries log is not passed on: their errors reach us as exceptions, with
    tracebacks that may quote stored text. ``LiteServer.notes`` collects what Milvus Lite only
    logs.
    """
    with _import_lock:
        if "pymilvus" not in sys.modules:
            with (
                _variable("PYTHON_DOTENV_DISABLED", "1"),
                _variable("GRPC_VERBOSITY", os.environ.get("GRPC_VERBOSITY", "NONE")),
                _no_logging_setup(),
                lazy_pandas.put_off(),
            ):
                import pymilvus  # noqa: F401
            for name in ("pymilvus", "milvus_lite", "grpc"):
                logger = logging.getLogger(name)
                logger.addHandler(logging.NullHandler())
                logger.propagate = False
        return sys.modules["pymilvus"]


def connect(uri: str, token: str, timeout: float) -> Any:
    """A ``MilvusClient`` with a connection of its own, which its ``close`` closes.

    Args:
        uri: ``http://``, ``https://``, ``tcp://`` or ``unix:``.
        token: Token or ``user:password``; empty for none.
        timeout: Seconds that connecting may take, bounded by ``CONNECT_SECONDS``.

    Raises:
        Exception: whatever pymilvus raises; see ``milvus_errors.classify``.
    """
    pymilvus = import_pymilvus()
    return pymilvus.MilvusClient(
        uri,
        token=token,
        timeout=min(timeout, CONNECT_SECONDS),
        dedicated=True,
        grpc_options=_CHANNEL,
    )


def has_bm25(version: str) -> bool:
    """Whether a server of this version can search by keyword.

    Args:
        version: As ``get_server_version`` says it: ``v2.3.5-lite``, ``2.6.1``,
            ``milvus_lite-3.2.2``. One that tells no number counts as new.
    """
    if version.startswith("milvus_lite"):
        return True
    found = re.search(r"(\d+)\.(\d+)", version)
    return found is None or (int(found[1]), int(found[2])) >= _BM25_SINCE


@contextlib.contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    """An environment variable for the time of the block."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before


@contextlib.contextmanager
def _no_logging_setup() -> Iterator[None]:
    """``logging.config.dictConfig`` does nothing during the block.

    It is what pymilvus calls while it is imported, and it shuts every handler of the process.
    """
    original = logging.config.dictConfig

    def ignore(config: object) -> None:
        del config

    logging.config.dictConfig = ignore
    try:
        yield
    finally:
        logging.config.dictConfig = original
