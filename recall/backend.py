"""Where a request is answered: by the workers if they listen, else here.

Milvus Lite belongs to one process at a time. Living workers own it, so that the way to it is
their socket; without workers each asking process opens it itself, for as long as its two
reads take, and waits its turn.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.recall import client
from memsearch.recall.requests import handle

if TYPE_CHECKING:
    from memsearch.config.paths import Home
    from memsearch.config.settings import Settings
    from memsearch.sinks.types import Embedder, Store

#: Seconds that a request waits in all for its turn at the store.
WAIT_SECONDS = 120.0
#: The same where workers may hold it who cannot be asked: they do not let go of it.
REFUSED_SECONDS = 1.0
#: Seconds before a service is asked again that listens and does not answer yet.
START_SECONDS = 0.2


class ServiceAppeared(Exception):  # noqa: N818 (a fact to decide on, not a failure to report)
    """Workers have begun to listen while this process waited for the store."""


def answer(
    operation: str,
    request: Mapping[str, Any],
    home: Home,
    environ: Mapping[str, str],
    *,
    strict: bool = True,
    wait_seconds: float = WAIT_SECONDS,
) -> dict[str, Any]:
    """Answer a request, wherever that is possible now.

    Args:
        operation: One of ``recall.requests.OPERATIONS``.
        request: As ``recall.requests`` makes it.
        home: Whose memory.
        environ: The process's environment.
        strict: A broken configuration is an error; else defaults are used. Without effect
            where workers answer, who never stop for one.
        wait_seconds: How long it waits for its turn at the store.

    Raises:
        MemsearchError: As ``recall.requests.handle``.
    """
    deadline = time.monotonic() + wait_seconds
    while True:
        refused = False
        try:
            return client.ask(home.socket, operation, request)
        except client.Unreachable as error:
            refused = error.refused  # else the usual case without workers
        if refused:
            deadline = min(deadline, time.monotonic() + REFUSED_SECONDS)
        local = LocalAccess(
            home,
            environ,
            strict=strict,
            deadline=deadline,
            watch_socket=not refused and time.monotonic() < deadline,
            refused=refused,
        )
        try:
            return handle(operation, request, local)
        except ServiceAppeared:
            time.sleep(START_SECONDS)
        finally:
            local.close()


class LocalAccess:
    """The store, the model and the settings for one request in this process.

    Args:
        home: Whose memory.
        environ: The process's environment.
        strict: A broken configuration is an error.
        deadline: On ``time.monotonic``: until when it waits for the store.
        watch_socket: Stop waiting, with ``ServiceAppeared``, when workers begin to listen.
        refused: Workers may hold the store and may not be asked from here.
    """

    def __init__(
        self,
        home: Home,
        environ: Mapping[str, str],
        *,
        strict: bool = True,
        deadline: float | None = None,
        watch_socket: bool = True,
        refused: bool = False,
    ) -> None:
        self.home = home
        self.environ = environ
        self._strict = strict
        self._deadline = time.monotonic() + WAIT_SECONDS if deadline is None else deadline
        self._watch_socket = watch_socket
        self._refused = refused
        self._settings: dict[str | None, Settings] = {}
        self._embedder: Embedder | None = None

    def settings(self, project_root: str | None) -> Settings:
        """See ``Access``."""
        from memsearch.config.settings import load

        if project_root not in self._settings:
            loaded = load(self.home, project_root, environ=self.environ, strict=self._strict)
            self._settings[project_root] = loaded.settings
        return self._settings[project_root]

    def has_index(self) -> bool:
        """See ``Access``. A Milvus Lite that is not there must not be created."""
        from memsearch.sinks.store import has_index

        return has_index(self.settings(None).milvus, self.home, self.environ)

    @contextmanager
    def store(self) -> Iterator[Store | None]:
        """See ``Access``. Closed at the end of the context, so that the next one can have it.

        It opens at its first call, and while it waits there for another process, workers may
        come up, who will not let go of it.

        Raises:
            ServiceAppeared: They did; from the block.
        """
        if not self.has_index():
            yield None
            return
        from memsearch.sinks.milvus_client import import_pymilvus
        from memsearch.sinks.store import open_store

        # Half a second of imports belongs before the lock, not under it.
        import_pymilvus()
        appeared = False

        def look(waited: float) -> bool:
            nonlocal appeared
            del waited
            appeared = self._watch_socket and client.answers(self.home.socket)
            return appeared

        store = open_store(
            self.settings(None).milvus,
            self.home,
            self.environ,
            wait=max(0.0, self._deadline - time.monotonic()),
            on_wait=look,
        )
        try:
            yield store
        except MemsearchError as error:
            if appeared and error.kind is ErrorClass.BUSY:
                raise ServiceAppeared from error
            if self._refused and error.kind is ErrorClass.BUSY:
                raise MemsearchError(
                    f"the workers have it open and may not be asked from here"
                    f" ({self.home.socket} is refused)",
                    kind=ErrorClass.PERMISSION,
                ) from error
            raise
        finally:
            store.close()

    def model(self) -> str:
        """See ``Access``."""
        from memsearch.sinks.embedders import identity

        return identity(self.settings(None).embedding)

    def embedder(self) -> Embedder:
        """See ``Access``."""
        from memsearch.sinks.embedders import create

        if self._embedder is None:
            self._embedder = create(self.settings(None).embedding, self.home, self.environ)
        return self._embedder

    def close(self) -> None:
        """Let go of the model."""
        if self._embedder is not None:
            self._embedder.close()
            self._embedder = None
