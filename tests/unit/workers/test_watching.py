"""Watching on a real file system: what is told, once, whatever happens to files and folders."""

from __future__ import annotations

import errno
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from watchdog.observers import Observer

from memsearch.sinks.ignoring import Rules
from memsearch.workers import watching
from memsearch.workers.watching import Watcher

#: Seconds of quiet in these tests.
QUIET = 0.1


class Told:
    """What a watcher has told, safe between threads."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.notices: list[str] = []
        self.failures: list[str] = []
        self.fail: list[Exception] = []

    def changed(self, paths: Any) -> None:
        self.calls.append(tuple(Path(path).name for path in paths))
        if self.fail:
            raise self.fail.pop(0)

    @property
    def names(self) -> set[str]:
        return {name for call in self.calls for name in call}

    def wait_for(self, done: Callable[[], object]) -> None:
        deadline = time.monotonic() + 60
        while not done():
            assert time.monotonic() < deadline, (self.calls, self.notices)
            time.sleep(0.02)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def watch(told: Told) -> Iterator[Callable[..., Watcher]]:
    made: list[Watcher] = []

    def start(*paths: Path, **how: Any) -> Watcher:
        how.setdefault("debounce", QUIET)
        made.append(
            Watcher(
                [str(path) for path in paths],
                told.changed,
                failed=lambda error: told.failures.append(str(error)),
                notice=told.notices.append,
                **how,
            )
        )
        return made[-1]

    yield start
    for each in made:
        each.stop()


@pytest.fixture(params=["told", "polled"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Once with the system's watches, once without any."""
    monkeypatch.setattr(watching, "SAFETY_SECONDS", 0.3)
    monkeypatch.setattr(watching, "POLL_SECONDS", 0.1)
    if request.param == "polled":

        def full(self: Any) -> None:
            raise OSError(errno.EMFILE, "Too many open files")

        monkeypatch.setattr(Observer, "start", full)
    return str(request.param)


def replaced(path: Path, text: str) -> None:
    """Saved as many editors do it."""
    draft = path.with_name(f".{path.name}.swp")
    draft.write_text(text, "utf-8")
    os.replace(draft, path)


def test_each_kind_of_change_is_told(
    tmp_path: Path, told: Told, watch: Callable[..., Watcher], way: str
) -> None:
    (tmp_path / "old.md").write_text("x", "utf-8")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "moved.md").write_text("x", "utf-8")
    (tmp_path / "in").mkdir()
    shutil.move(tmp_path / "old.md", tmp_path / "in" / "old.md")
    watcher = watch(tmp_path / "in")
    assert watcher.polling == (way == "polled")
    for step in (
        lambda: (tmp_path / "in" / "new.md").write_text("x", "utf-8"),
        lambda: replaced(tmp_path / "in" / "new.md", "other"),
        lambda: (tmp_path / "in" / "old.md").unlink(),
        lambda: shutil.move(tmp_path / "out", tmp_path / "in" / "out"),
        lambda: shutil.move(tmp_path / "in" / "out", tmp_path / "away"),
    ):
        told.calls.clear()
        step()
        told.wait_for(lambda: told.calls)
    assert told.names == {"moved.md"}


def test_a_folder_that_is_made_anew_is_watched_again(
    tmp_path: Path, told: Told, watch: Callable[..., Watcher], way: str
) -> None:
    place = tmp_path / "notes"
    place.mkdir()
    (place / "a.md").write_text("x", "utf-8")
    watch(place)
    for _ in range(2):
        told.calls.clear()
        shutil.rmtree(place)
        told.wait_for(lambda: told.names == {"a.md"})
        told.calls.clear()
        place.mkdir()
        (place / "a.md").write_text("y", "utf-8")
        told.wait_for(lambda: told.names == {"a.md"})


def test_what_is_no_document_or_left_out_is_not_told(
    tmp_path: Path, told: Told, watch: Callable[..., Watcher], way: str
) -> None:
    (tmp_path / ".memsearchignore").write_text("drafts\n", "utf-8")
    watch(tmp_path, rules=lambda root: Rules(root, ["*.tmp.md"]))
    for name in (
        *(".a.md.swp", "b.md~", "c.tmp", ".#d.md", "#e.md#", "4913", "f.tmp.md"),
        *("drafts/g.md", ".git/h.md", "node_modules/i.md", "sub/.obsidian/j.md"),
        os.fsdecode(b"not-utf8-\xff.md"),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x", "utf-8")
    (tmp_path / "link.md").symlink_to(tmp_path / "b.md~")
    vanished = tmp_path / "vanished.md"
    vanished.write_text("x", "utf-8")
    vanished.unlink()
    (tmp_path / "last.md").write_text("x", "utf-8")
    told.wait_for(lambda: "last.md" in told.names)
    time.sleep(3 * QUIET)
    # One that was there for a moment may have been seen to go.
    assert told.names - {"vanished.md"} == {"last.md"}


def test_replacing_again_and_again_ends_with_the_last_state(
    tmp_path: Path, told: Told, watch: Callable[..., Watcher], way: str
) -> None:
    watcher = watch(tmp_path)
    held: list[str] = []
    real = told.changed

    def changed(paths: Any) -> None:
        real(paths)
        held[:] = [Path(path).read_text("utf-8") for path in paths if Path(path).exists()]

    watcher._changed = changed
    for number in range(200):
        replaced(tmp_path / "a.md", f"state {number}")
    told.wait_for(lambda: held == ["state 199"])


def test_one_that_never_rests_is_told_all_the_same(
    tmp_path: Path, told: Told, watch: Callable[..., Watcher]
) -> None:
    watch(tmp_path, debounce=0.2)
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.wait(0.02):
            number += 1
            (tmp_path / "a.md").write_text(f"{number}", "utf-8")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        told.wait_for(lambda: told.calls)
    finally:
        stop.set()
        writer.join()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSPC])
@pytest.mark.parametrize("where", ["__init__", "start", "schedule"])
def test_at_the_systems_limits_polling_takes_over_and_says_so(
    tmp_path: Path,
    told: Told,
    watch: Callable[..., Watcher],
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    where: str,
) -> None:
    def full(*arguments: Any, **named: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(watching, "POLL_SECONDS", 0.1)
    monkeypatch.setattr(watching, "OBSERVE_SECONDS", 0.1)
    with monkeypatch.context() as limited:
        limited.setattr(Observer, where, full)
        watcher = watch(tmp_path)
        assert watcher.polling
        (tmp_path / "a.md").write_text("x", "utf-8")
        told.wait_for(lambda: told.names == {"a.md"})
    assert len(told.notices) == 1
    assert "limit" in told.notices[0]
    assert "0.1 s" in told.notices[0]
    told.wait_for(lambda: not watcher.polling)  # there is room again


def test_what_the_system_does_not_tell_is_found(
    tmp_path: Path,
    told: Told,
    watch: Callable[..., Watcher],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A queue that overflowed, a network drive, a folder whose watch could not be had."""
    monkeypatch.setattr(watching, "SAFETY_SECONDS", 0.2)
    monkeypatch.setattr(Watcher, "saw", lambda self, path, folder=False: None)
    watcher = watch(tmp_path)
    assert not watcher.polling
    (tmp_path / "a.md").write_text("x", "utf-8")
    told.wait_for(lambda: told.names == {"a.md"})


def test_failures_are_tried_again_and_the_next_edit_is_seen(
    tmp_path: Path, told: Told, watch: Callable[..., Watcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "RETRY_SECONDS", 0.05)
    told.fail = [OSError("the disk is away"), RuntimeError("whatever")]
    watch(tmp_path)
    (tmp_path / "a.md").write_text("x", "utf-8")
    told.wait_for(lambda: len(told.calls) == 3)
    assert told.failures == ["the disk is away", "whatever"]
    # One that goes while it waits for another try is told as gone.
    told.calls.clear()
    told.fail = [OSError("again")]
    (tmp_path / "b.md").write_text("x", "utf-8")
    told.wait_for(lambda: told.calls == [("b.md",)] or told.calls == [("b.md",), ("b.md",)])
    (tmp_path / "b.md").unlink()
    told.wait_for(lambda: len(told.calls) >= 2)
    (tmp_path / "c.md").write_text("x", "utf-8")
    told.wait_for(lambda: "c.md" in told.names)


def test_links_are_told_as_they_were_named(
    tmp_path: Path, told: Told, watch: Callable[..., Watcher]
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "named").symlink_to("real")
    paths: list[str] = []
    watcher = watch(tmp_path / "named")
    watcher._changed = paths.extend
    (tmp_path / "real" / "a.md").write_text("x", "utf-8")
    told.wait_for(lambda: paths)
    assert paths == [str(tmp_path / "named" / "a.md")]


def test_places_come_and_go(tmp_path: Path, told: Told, watch: Callable[..., Watcher]) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    watcher = watch(one, must_exist=False)
    two.mkdir()
    (two / "there.md").write_text("x", "utf-8")
    watcher.set_paths([str(one), str(two)])
    told.wait_for(lambda: told.names == {"there.md"})  # a new place's documents are news
    (two / "a.md").write_text("x", "utf-8")
    (one / "b.md").write_text("x", "utf-8")
    told.wait_for(lambda: told.names == {"there.md", "a.md", "b.md"})
    watcher.set_paths([str(one)])
    (two / "c.md").write_text("x", "utf-8")
    (one / "d.md").write_text("x", "utf-8")
    told.wait_for(lambda: "d.md" in told.names)
    time.sleep(3 * QUIET)
    assert "c.md" not in told.names
