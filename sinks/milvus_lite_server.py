"""Milvus Lite, opened by ourselves: its engine, served to pymilvus on a private Unix socket.

``MilvusClient("….db")`` would do the same with a TCP port on loopback that any user of the
machine can connect to, would hide the reason of a failed open behind a log line, and would keep
the folder locked after ``close()``. Here nothing listens on TCP, what the engine raises reaches
the caller, and ``close`` closes.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import re
import shutil
import tempfile
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from memsearch.config.paths import MAX_SOCKET_PATH, close_to_others, close_tree
from memsearch.sinks import lazy_pandas
from memsearch.sinks.milvus_client import import_pymilvus

#: First bytes of a SQLite file, which is what Milvus Lite 2 kept a whole database in.
_SQLITE_MAGIC = b"SQLite format 3\0"

#: Threads that answer the socket. The store lets one call in at a time; a second thread
#: answers while the first one is still sending.
_SERVER_THREADS = 2

#: Seconds that a call under way gets when the folder is closed.
_STOP_SECONDS = 5.0

#: Notes that are kept, and characters of each.
_MAX_NOTES, _MAX_NOTE = 50, 300

#: What Milvus Lite only logs although rows are lost by it.
_LOSS = re.compile(
    r"manifest references missing (?:data|delta) file|loaded manifest from manifest\.json\.prev"
)

_socket_numbers = itertools.count()


class RowsLostError(Exception):
    """Files that a collection is made of are missing: it opens, with fewer rows."""


class LiteServer:
    """An open folder of Milvus Lite.

    Args:
        path: The folder; made, for the user alone, if it is missing.
        socket_folder: Where the socket goes, if its path is not too long there; else, and for
            None, a new private folder takes it. Old sockets in it are removed, so it must be
            this process that holds the store's lock.

    Raises:
        Exception: what the engine raises: ``DataDirLockedError`` when another process has the
            folder open, ``OSError`` for what the file system refuses.
    """

    def __init__(self, path: str, socket_folder: str | None = None) -> None:
        import_pymilvus()
        import grpc  # type: ignore[import-untyped]
        from milvus_lite import MilvusLite
        from milvus_lite.adapter.grpc.servicer import MilvusServicer
        from pymilvus.grpc_gen import milvus_pb2_grpc

        lazy_pandas.tell_arrow()
        self.path = path
        self._notes: deque[str] = deque(maxlen=_MAX_NOTES)
        self._handler = _Collector(self._notes)
        #: Collections that were opened, with what the engine said of lost rows.
        self._lost: dict[str, str] = {}
        self._private_folder: str | None = None
        logging.getLogger("milvus_lite").addHandler(self._handler)
        try:
            if not Path(path).is_dir():
                Path(path).mkdir(mode=0o700, parents=True)
            self._engine = MilvusLite(path)
        except BaseException:
            logging.getLogger("milvus_lite").removeHandler(self._handler)
            raise
        try:
            self._socket = self._choose_socket(socket_folder)
            self._server = grpc.server(
                ThreadPoolExecutor(_SERVER_THREADS, thread_name_prefix="milvus-lite"),
                options=[
                    ("grpc.max_receive_message_length", -1),
                    ("grpc.max_send_message_length", -1),
                ],
            )
            milvus_pb2_grpc.add_MilvusServiceServicer_to_server(
                MilvusServicer(self._engine), self._server
            )
            self._server.add_insecure_port(self.uri)
            self._server.start()
            close_to_others(self._socket)
            self.close_to_others()
        except BaseException:
            self._release()
            raise

    @property
    def uri(self) -> str:
        """What a client connects to."""
        return f"unix:{self._socket}"

    @property
    def notes(self) -> tuple[str, ...]:
        """The last warnings and errors that the engine logged, one line each."""
        return tuple(self._notes)

    def names(self) -> list[str]:
        """The collections in the folder, told from its files without opening one."""
        found: list[str] = self._engine.list_collections()
        return found

    def has(self, collection: str) -> bool:
        """Whether there is such a collection, told without opening it."""
        return bool(self._engine.has_collection(collection))

    def field_names(self, collection: str) -> set[str] | None:
        """The fields of a collection, told without opening it; None if it cannot be told."""
        from milvus_lite.schema.persistence import load_schema

        try:
            _, schema = load_schema(str(self._folder(collection) / "schema.json"))
        except Exception:
            # Any fault of that file means the same: nobody can say whose collection it is.
            return None
        return {field.name for field in schema.fields}

    def open(self, collection: str) -> None:
        """Open a collection: recover what a killed process left, read its files, load it.

        Raises:
            RowsLostError: it opened, but with rows missing.
            Exception: what the engine raises when its files are damaged.
        """
        if collection not in self._lost:
            self._handler.loss = ""
            opened = self._engine.get_collection(collection)
            opened.load()
            self._lost[collection] = self._handler.loss
        # The engine tells it once, while it reads the files, and works on without the rows.
        if self._lost[collection]:
            raise RowsLostError(self._lost[collection])

    def forget(self, collection: str) -> None:
        """The collection of this name is another one now, or none."""
        self._lost.pop(collection, None)

    def flush(self, collection: str) -> None:
        """Write what is in memory into a file of its own.

        Searching rows in memory costs some twenty times what it costs in a file.
        """
        self._engine.get_collection(collection).flush()
        _give_back_memory()

    def sweep(self, collection: str) -> None:
        """Remove what a process killed while it made or dropped the collection left of it.

        Such a folder has no schema and is no collection, but would keep one of its name from
        being made.
        """
        folder = self._folder(collection)
        if folder.is_dir() and not (folder / "schema.json").exists():
            shutil.rmtree(folder)

    def close(self) -> None:
        """Write out what is in memory and let go of the folder, its lock and the socket."""
        self._server.stop(grace=_STOP_SECONDS).wait()
        self._release()
        _give_back_memory()

    def close_to_others(self) -> None:
        """Take from others what the umask gave them of the folder, which the engine writes by."""
        close_tree(self.path)

    def _folder(self, collection: str) -> Path:
        return Path(self.path, "collections", collection)

    def _release(self) -> None:
        self._engine.close()
        self.close_to_others()
        with contextlib.suppress(AttributeError, FileNotFoundError):
            os.unlink(self._socket)
        if self._private_folder is not None:
            shutil.rmtree(self._private_folder, ignore_errors=True)
        logging.getLogger("milvus_lite").removeHandler(self._handler)

    def _choose_socket(self, folder: str | None) -> str:
        """The path of a socket that is used once: pymilvus caches schemas by address."""
        name = f"milvus-{os.getpid()}-{next(_socket_numbers)}.sock"
        if folder is not None and _fits(str(Path(folder, name))):
            for old in Path(folder).glob("milvus-*.sock"):
                old.unlink(missing_ok=True)
            return str(Path(folder, name))
        # A TMPDIR may be long; /tmp never is. mkdtemp makes a folder for this user alone.
        for parent in (None, "/tmp"):  # noqa: S108
            self._private_folder = tempfile.mkdtemp(prefix="memsearch-", dir=parent)
            path = str(Path(self._private_folder, name))
            if _fits(path):
                break
            shutil.rmtree(self._private_folder)
        return path


def _give_back_memory() -> None:
    """Return what Arrow keeps for later to the system: 75 MB after 5,000 rows were written."""
    import pyarrow  # type: ignore[import-untyped]

    pyarrow.default_memory_pool().release_unused()


def _fits(path: str) -> bool:
    """Whether gRPC can take a socket's path: short, and without what a URI would decode."""
    return len(path) <= MAX_SOCKET_PATH and re.fullmatch(r"[A-Za-z0-9_./-]+", path) is not None


class _Collector(logging.Handler):
    """Keeps the last messages of a logger, and the last one that tells of lost rows."""

    def __init__(self, notes: deque[str]) -> None:
        super().__init__(logging.WARNING)
        self._notes = notes
        self.loss = ""

    def emit(self, record: logging.LogRecord) -> None:
        message = " ".join(record.getMessage().split())[:_MAX_NOTE]
        self._notes.append(message)
        if _LOSS.search(message):
            self.loss = message


def is_older_format(path: str) -> bool:
    """Whether a database file of Milvus Lite 2 is there, which version 3 cannot open.

    Raises:
        OSError: it cannot be read.
    """
    if not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        return file.read(len(_SQLITE_MAGIC)) == _SQLITE_MAGIC
