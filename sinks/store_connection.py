"""The way to Milvus: opened at the first call, by one process and one caller at a time if Lite."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sinks.fair_lock import FairLock
from memsearch.sinks.milvus_client import connect, has_bm25
from memsearch.sinks.milvus_errors import classify, is_server, older_format
from memsearch.sinks.milvus_lite_server import LiteServer, is_older_format
from memsearch.sinks.store_lock import POLL_SECONDS, OnWait, StoreLock

#: Writing, making and loading may take this many times ``timeout``.
WRITE_FACTOR = 3.0

#: Seconds for a call to Milvus Lite, which is in this process and cannot be out of reach.
LITE_SECONDS = 600.0


class Connection:
    """A client of Milvus for many threads.

    Args:
        uri: Path of a Milvus Lite folder, or the address of a server.
        token: Token of a server.
        lock_path: Lock file of a Lite folder; None for none.
        timeout: Seconds for connecting and for each reading call to a server.
        wait: Seconds to wait for another process to let go of Milvus Lite.
        on_wait: Asked while waiting; True gives up at once.
        on_change: Called when what was known of the collections may hold no more: the
            connection was closed, or a server refused something.
    """

    def __init__(
        self,
        uri: str,
        token: str,
        *,
        lock_path: str | None,
        timeout: float,
        wait: float,
        on_wait: OnWait | None,
        on_change: Callable[[], None],
    ) -> None:
        self.uri = uri
        self.is_lite = not is_server(uri)
        #: The open Lite folder; None for a server, and while closed.
        self.lite: LiteServer | None = None
        #: Whether the server, once connected, can search by keyword.
        self.bm25 = True
        self._token = token
        self._timeout = timeout
        self._wait = wait
        self._on_wait = on_wait
        self._on_change = on_change
        self._lock = StoreLock(lock_path) if lock_path is not None and self.is_lite else None
        #: Lite: held during every call, since its reads miss rows while it flushes and its
        #: writes are for one thread. A server: while connecting.
        self._turn = FairLock()
        self._client: Any = None

    @contextlib.contextmanager
    def using(self, *, writes: bool = False) -> Iterator[Any]:
        """The client, opened; what is raised in the block is classified. Not reentrant.

        Raises:
            MemsearchError: see ``sinks.types.Store``.
        """
        with self._turn if self.is_lite else contextlib.nullcontext():
            try:
                client = self._client
                if client is None:
                    with contextlib.nullcontext() if self.is_lite else self._turn:
                        client = self._client or self._open()
                yield client
                if writes and self.lite is not None:
                    self.lite.close_to_others()
            except MemsearchError:
                raise
            except Exception as error:
                known = classify(error, self.uri)
                if not self.is_lite:
                    self._on_change()  # another machine may have dropped or swapped: look again
                elif writes:
                    # A write that failed half-way leaves half a batch in Lite's log, behind
                    # which later ones would not be found again. Closing makes it a new one.
                    with contextlib.suppress(Exception):
                        self._close()
                raise known from error

    def seconds(self, *, writes: bool = False) -> float:
        """The deadline of a call."""
        if self.is_lite:
            return LITE_SECONDS
        return self._timeout * WRITE_FACTOR if writes else self._timeout

    def close(self) -> None:
        """Let go of everything; the next use opens again."""
        with self._turn:
            try:
                self._close()
            except Exception as error:
                raise classify(error, self.uri) from error

    @property
    def lock_holder(self) -> int | None:
        """The process that has the lock, as its file tells it."""
        return self._lock.holder() if self._lock is not None else None

    def _open(self) -> Any:
        if not self.is_lite:
            client = connect(self.uri, self._token, self._timeout)
            self.bm25 = has_bm25(client.get_server_version(timeout=self._timeout))
            self._client = client
            return client
        if is_older_format(self.uri):
            raise older_format(self.uri)
        deadline = time.monotonic() + self._wait
        if self._lock is not None:
            self._lock.acquire(self._wait, self._on_wait)
        try:
            self.lite = self._open_lite(deadline)
            self._client = connect(self.lite.uri, "", LITE_SECONDS)
        except BaseException:
            self._close()
            raise
        return self._client

    def _open_lite(self, deadline: float) -> LiteServer:
        """Open the folder; wait for another program that does not know of our lock."""
        folder = os.path.dirname(self._lock.path) if self._lock is not None else None
        started = time.monotonic()
        while True:
            try:
                return LiteServer(self.uri, folder)
            except Exception as error:
                known = classify(error, self.uri)
                waited = time.monotonic() - started
                if (
                    known.kind is not ErrorClass.BUSY
                    or time.monotonic() >= deadline
                    or (self._on_wait is not None and self._on_wait(waited))
                ):
                    raise
            time.sleep(POLL_SECONDS)

    def _close(self) -> None:
        client, self._client = self._client, None
        lite, self.lite = self.lite, None
        self._on_change()
        try:
            if client is not None:
                client.close()
        finally:
            try:
                if lite is not None:
                    lite.close()
            finally:
                if self._lock is not None:
                    self._lock.release()
