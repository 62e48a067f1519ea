"""Watching folders and files: which documents changed, told when a moment of quiet is over."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sinks.documents import is_document

#: Seconds between two looks of the polling that takes over where the system's watches run out.
POLL_SECONDS = 2.0
#: Seconds after which changes that could not be handled are handled again.
RETRY_SECONDS = 5.0
#: Seconds between two looks at the clock.
TICK_SECONDS = 0.05

#: The system's limits of watches and of files, at which polling takes over.
_LIMITS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOSPC})

#: Told the changed paths, absolute; of a document that is gone too.
Changed = Callable[[Sequence[str]], None]


class Watcher:
    """Watches until it is stopped; a context manager.

    Args:
        paths: Folders, with all below them, and files. A missing one is an error.
        changed: Called from a thread of its own with what changed, once a ``debounce`` of
            quiet has passed since a document's last change. If it raises, the same paths are
            handed to it again later.
        debounce: Seconds.
        failed: Told what ``changed`` raised.
    """

    def __init__(
        self,
        paths: Sequence[str],
        changed: Changed,
        *,
        debounce: float,
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        self._changed = changed
        self._failed = failed
        self._debounce = debounce
        self._due: dict[str, float] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._files: set[str] = set()
        self._folders: list[str] = []
        for path in map(os.path.realpath, paths):
            if os.path.isdir(path):
                self._folders.append(os.path.join(path, ""))
            elif os.path.exists(path):
                self._files.add(path)
            else:
                raise MemsearchError(f"{path} does not exist", kind=ErrorClass.BAD_REQUEST)
        self._observer = self._observe()
        self._thread = threading.Thread(target=self._work, name="watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop watching. What is being handled is waited for; what is due is dropped."""
        self._stop.set()
        self._observer.stop()
        self._observer.join()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def __enter__(self) -> Watcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def saw(self, path: str) -> None:
        """Note that something happened to a path."""
        if not is_document(path):
            return  # an editor's temporary file, a swap file, anything else
        if path not in self._files and not path.startswith(tuple(self._folders)):
            return
        with self._lock:
            self._due[path] = time.monotonic() + self._debounce

    def _observe(self) -> Any:
        from watchdog.observers import Observer
        from watchdog.observers.polling import PollingObserver

        try:
            return self._start(Observer())
        except OSError as error:
            if error.errno not in _LIMITS:
                raise
            return self._start(PollingObserver(timeout=POLL_SECONDS))

    def _start(self, observer: Any) -> Any:
        from watchdog.events import FileSystemEvent, FileSystemEventHandler

        saw = self.saw

        class Handler(FileSystemEventHandler):
            def on_any_event(self, event: FileSystemEvent) -> None:
                if event.event_type in ("opened", "closed_no_write"):
                    return  # reading is no change
                for path in (event.src_path, event.dest_path):
                    if path:
                        saw(os.fsdecode(path))

        handler = Handler()
        try:
            for folder in self._folders:
                observer.schedule(handler, folder, recursive=True)
            # A file's folder, since editors replace files.
            for folder in {os.path.dirname(path) for path in self._files}:
                observer.schedule(handler, folder, recursive=False)
            observer.start()
        except OSError:
            observer.unschedule_all()
            if observer.is_alive():
                observer.stop()
                observer.join()
            raise
        return observer

    def _work(self) -> None:
        while not self._stop.wait(TICK_SECONDS):
            now = time.monotonic()
            with self._lock:
                ready = sorted(path for path, due in self._due.items() if due <= now)
                for path in ready:
                    del self._due[path]
            if not ready:
                continue
            try:
                self._changed(ready)
            except Exception as error:
                # Whatever it was: the next edit must still be seen.
                if self._failed is not None:
                    self._failed(error)
                with self._lock:
                    for path in ready:
                        self._due.setdefault(path, time.monotonic() + RETRY_SECONDS)
