"""Watching folders and files: which documents changed, told when a moment of quiet is over.

The system tells of changes at once (``watchdog``: inotify, FSEvents and the like). That alone is
not to be relied on: limits are reached, queues overflow, network drives tell nothing, folders
are taken away and put back. So the folders are also looked through now and then, seldom where
the system tells, often where it does not, and what differs from the last look counts as told.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sinks.documents import is_document, is_utf8, walk_by
from memsearch.sinks.ignoring import Rules

#: Seconds between two looks through the folders where the system tells of changes.
SAFETY_SECONDS = 10.0
#: The same where it does not.
POLL_SECONDS = 2.0
#: Seconds until the system is asked again for watches that it refused altogether.
OBSERVE_SECONDS = 60.0
#: A look's own time that passes before the next one, as a multiple: a hundredth of a core.
REST_FACTOR = 100
#: Seconds until changes that could not be handled are handled again; doubled with each failure,
#: up to the second number.
RETRY_SECONDS = 5.0
MAX_RETRY_SECONDS = 60.0
#: A document that never rests is handled all the same after so many times the quiet time.
PATIENCE = 10

#: The system's limits of watches and of files.
_LIMITS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOSPC})

#: Told the changed paths, absolute; of a document that is gone too.
Changed = Callable[[Sequence[str]], None]
#: Modification time, size and inode.
_State = tuple[int, int, int]


@dataclass(slots=True)
class _Due:
    """A change that waits: when it was first seen, when it is handled, by ``time.monotonic``."""

    first: float
    at: float
    failures: int = 0


class Watcher:
    """Watches until it is stopped; a context manager.

    Args:
        paths: Folders, with all below them, and files.
        changed: Called from a thread of its own with what changed, once a ``debounce`` of
            quiet has passed since a document's last change. If it raises, the same paths are
            handed to it again later.
        debounce: Seconds; or a function of the document's path that gives them.
        failed: Told what ``changed`` raised.
        notice: Told, in words, when the system's watches cannot be had and polling takes over.
        rules: What is left out below a folder; by default hidden folders and the like.
        must_exist: A missing path is an error; else it is watched for.

    Raises:
        MemsearchError: ``BAD_REQUEST`` for a missing path.
    """

    def __init__(
        self,
        paths: Sequence[str],
        changed: Changed,
        *,
        debounce: float | Callable[[str], float],
        failed: Callable[[Exception], None] | None = None,
        notice: Callable[[str], None] | None = None,
        rules: Callable[[str], Rules] = Rules,
        must_exist: bool = True,
    ) -> None:
        self._changed = changed
        self._failed = failed
        self._notice = notice
        self._debounce = debounce if callable(debounce) else lambda path: debounce  # noqa: ARG005
        self._rules_of = rules
        self._rules: dict[str, Rules] = {}
        self._wake = threading.Condition()
        # Apart from the other: watchdog calls us with a lock held that arranging needs.
        self._arranging = threading.Lock()
        self._stopping = False
        self._due: dict[str, _Due] = {}
        self._look_at = 0.0
        #: The documents as they were handed over, or at the last look.
        self._seen: dict[str, _State] = {}
        #: Real path → the path as it was named, which is how documents are told.
        self._roots: dict[str, str] = {}
        #: (folder, with all below it) → the watch, and which folder it was.
        self._watches: dict[tuple[str, bool], tuple[Any, tuple[int, int]]] = {}
        self._told = False
        #: Whether some of the paths are only looked at now and then.
        self.polling = False
        if must_exist:
            for path in paths:
                if not os.path.exists(path):
                    raise MemsearchError(f"{path} does not exist", kind=ErrorClass.BAD_REQUEST)
        self._observer: Any = None
        self._observe_again = 0.0
        self._roots = _by_real_path(paths)
        self._arrange()  # first, so that nothing falls in between
        self._seen, _ = self._documents(self._roots)
        self._look_at = time.monotonic() + self._pause(0.0)
        self._thread = threading.Thread(target=self._work, name="watch", daemon=True)
        self._thread.start()

    def set_paths(self, paths: Iterable[str]) -> None:
        """Watch these from now on; all that a new one holds counts as changed."""
        roots = _by_real_path(paths)
        if roots == self._roots:
            return
        fresh = roots.keys() - self._roots.keys()
        with self._wake:
            self._roots = roots
            self._seen = {p: state for p, state in self._seen.items() if self._is_inside(p)}
        self._arrange()
        found, _ = self._documents(fresh)
        with self._wake:
            for path in found:
                self._note(path, time.monotonic())
            self._wake.notify_all()

    def stop(self, *, timeout: float | None = None) -> bool:
        """Stop watching. What is being handled is waited for; what is due is dropped.

        Args:
            timeout: Seconds to wait at the most; None: for ever.

        Returns:
            Whether all has ended.
        """
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        if self._observer is not None:
            self._observer.stop()
            self._observer.join(timeout)
        if self._thread is not threading.current_thread():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def __enter__(self) -> Watcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def saw(self, path: str, *, folder: bool = False) -> None:
        """Note that something happened to a path."""
        path = os.path.normpath(path)
        with self._wake:
            now = time.monotonic()
            if folder:
                # A folder that was moved or deleted takes its documents along without a word.
                self._look_at = min(self._look_at, now + self._debounce(path))
            elif is_document(path) and is_utf8(path) and self._is_inside(path):
                self._note(path, now)
            else:
                return  # an editor's temporary file, a swap file, anything else
            self._wake.notify_all()

    def again(self, paths: Iterable[str] | None = None) -> None:
        """Hand some documents over once more, a while from now; None: all that are there."""
        with self._wake:
            now = time.monotonic()
            real = self._seen if paths is None else [os.path.realpath(path) for path in paths]
            for path in real:
                self._due.setdefault(path, _Due(now, now + RETRY_SECONDS, 1))
            self._wake.notify_all()

    # -- what the system tells ---------------------------------------------------------------

    def _observe(self) -> Any:
        from watchdog.observers import Observer

        # Its own, where a new folder is seen twice: by its event, and by the walk through its
        # parent. It keeps the one watch, and nobody at a terminal can do anything about it.
        warnings.filterwarnings("ignore", "Callback with id .* already exists", RuntimeWarning)
        try:
            observer = Observer()  # some versions take what they need of the system here
            observer.start()
        except OSError as error:
            self._observe_again = time.monotonic() + OBSERVE_SECONDS
            self._poll_instead(error)
            return None
        return observer

    def _poll_instead(self, error: OSError) -> None:
        self.polling = True
        if self._told or self._notice is None:
            return
        self._told = True
        why = error.strerror or str(error)
        if error.errno in _LIMITS:
            why = f"the system's limit of watches or open files is reached ({why})"
        self._notice(f"{why}: changes are looked for every {POLL_SECONDS:g} s instead")

    def _arrange(self) -> None:
        """Have a watch for every folder that is there, and none for one that was replaced."""
        with self._arranging:
            if self._stopping:
                return
            if self._observer is None and time.monotonic() >= self._observe_again:
                self._observer = self._observe()
            if self._observer is not None:
                self._arrange_watches(self._observer)

    def _arrange_watches(self, observer: Any) -> None:
        wanted: dict[tuple[str, bool], tuple[int, int]] = {}
        for root in self._roots:
            folder = os.path.isdir(root)
            # A file's folder, since editors replace files.
            place = root if folder else os.path.dirname(root)
            identity = _identity(place)
            if identity is not None:
                wanted[place, folder] = identity
        for key, (watch, identity) in list(self._watches.items()):
            if wanted.get(key) != identity:
                del self._watches[key]
                try:
                    observer.unschedule(watch)
                except (KeyError, OSError):
                    continue  # it went with its folder
        self.polling = False
        for key, identity in wanted.items():
            if key in self._watches:
                continue
            try:
                watch = observer.schedule(self._handler(), key[0], recursive=key[1])
            except FileNotFoundError:
                continue  # gone again; the next look sees
            except OSError as error:
                self._poll_instead(error)
                continue
            self._watches[key] = (watch, identity)

    def _handler(self) -> Any:
        from watchdog.events import FileSystemEvent, FileSystemEventHandler

        saw = self.saw

        class Handler(FileSystemEventHandler):
            def on_any_event(self, event: FileSystemEvent) -> None:
                if event.event_type in ("opened", "closed_no_write"):
                    return  # reading is no change
                if event.is_directory and event.event_type == "modified":
                    return  # what happened in it is told by itself
                for path in (event.src_path, event.dest_path):
                    if path:
                        saw(os.fsdecode(path), folder=event.is_directory)

        return Handler()

    # -- looking by ourselves ----------------------------------------------------------------

    def _pause(self, cost: float) -> float:
        base = POLL_SECONDS if self.polling else SAFETY_SECONDS
        return max(base, REST_FACTOR * cost)

    def _look(self) -> None:
        """Compare the folders with the last look."""
        began = time.monotonic()
        self._arrange()
        found, hidden = self._documents(self._roots)
        with self._wake:
            found = {path: state for path, state in found.items() if self._is_inside(path)}
            now = time.monotonic()
            for path in self._seen.keys() - found.keys():
                if path.startswith(hidden):
                    found[path] = self._seen[path]  # a folder cannot be read at this moment
            for path, state in found.items():
                if self._seen.get(path) != state:
                    self._note(path, now)
            for path in self._seen.keys() - found.keys():
                self._note(path, now)
            # What is gone stays known until it was handed over.
            self._seen = found | {p: s for p, s in self._seen.items() if p not in found}
            self._look_at = now + self._pause(now - began)

    def _documents(self, roots: Iterable[str]) -> tuple[dict[str, _State], tuple[str, ...]]:
        """The documents that are there, and the folders that could not be read."""
        found: dict[str, _State] = {}
        hidden: list[str] = []
        for root in roots:
            if os.path.isdir(root):
                self._rules[root] = rules = self._rules_of(root)  # ignore files change, too
                walked = walk_by(rules)
                hidden += (os.path.join(folder, "") for folder in walked.folders)
                paths: Iterable[str] = walked.files
            else:
                paths = (root,)
            for path in paths:
                state = _state(path)
                if state is not None:
                    found[path] = state
        return found, tuple(hidden)

    def _is_inside(self, path: str) -> bool:
        return any(path == root or path.startswith(os.path.join(root, "")) for root in self._roots)

    def _is_wanted(self, path: str) -> bool:
        """Whether a look would find the document."""
        return path in self._roots or any(
            rules.covers(path) for root, rules in self._rules.items() if root in self._roots
        )

    def _as_named(self, path: str) -> str:
        for root, named in self._roots.items():
            if path == root or path.startswith(os.path.join(root, "")):
                return named + path[len(root) :]
        return path

    # -- handing over ------------------------------------------------------------------------

    def _note(self, path: str, now: float) -> None:
        quiet = self._debounce(path)
        due = self._due.get(path)
        if due is None or due.failures:
            self._due[path] = _Due(now, now + quiet)
        else:
            due.at = min(now + quiet, due.first + PATIENCE * quiet)

    def _work(self) -> None:
        while True:
            with self._wake:
                now = time.monotonic()
                next_at = min([self._look_at, *(due.at for due in self._due.values())])
                if not self._stopping and next_at > now:
                    self._wake.wait(next_at - now)
                if self._stopping:
                    return
            if time.monotonic() >= self._look_at:
                self._look()
            self._hand_over()

    def _hand_over(self) -> None:
        with self._wake:
            now = time.monotonic()
            ready = {path: due for path, due in self._due.items() if due.at <= now}
            for path in ready:
                del self._due[path]
            kept = [path for path in sorted(ready) if self._is_news(path)]
        if not kept or self._stopping:
            return
        try:
            self._changed([self._as_named(path) for path in kept])
        except Exception as error:
            # Whatever it was: the next edit must still be seen.
            if self._failed is not None:
                self._failed(error)
            with self._wake:
                now = time.monotonic()
                for path in kept:
                    failures = ready[path].failures + 1
                    pause = min(RETRY_SECONDS * 2.0 ** (failures - 1), MAX_RETRY_SECONDS)
                    self._due.setdefault(path, _Due(now, now + pause, failures))
                    if _state(path) is None:
                        self._seen.setdefault(path, (0, 0, 0))  # its end is news again then

    def _is_news(self, path: str) -> bool:
        """Whether a change is one of a document, which is then known as it is now."""
        state = _state(path)
        if state is not None and self._is_wanted(path):
            self._seen[path] = state
            return True
        # Gone, or no document any more: news if it was one.
        return self._seen.pop(path, None) is not None


def _by_real_path(paths: Iterable[str]) -> dict[str, str]:
    return {os.path.realpath(path): os.path.abspath(path) for path in paths}


def _state(path: str) -> _State | None:
    """What tells that a document did not change; None for what is none."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _identity(folder: str) -> tuple[int, int] | None:
    try:
        status = os.stat(folder)
    except OSError:
        return None
    return status.st_dev, status.st_ino
