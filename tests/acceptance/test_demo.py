"""``memsearch demo``: nothing of it stays, however it ends. Its way to the end: test_wheel.py."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memsearch.config.paths import Home
from memsearch.config.worker_lock import is_held

COMMAND = [sys.executable, "-P", "-m", "memsearch._entry", "demo"]
#: Seconds that anything may take here.
PATIENCE = 120.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder that temporary files go to, with a name that holds a space and Chinese."""
    made = tmp_path / "临时 files"
    made.mkdir()
    return made


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    running: list[subprocess.Popen[str]] = []

    def begin(*words: str) -> subprocess.Popen[str]:
        environ = dict(os.environ) | {
            "TMPDIR": str(folder),
            # What a user may have set must not reach the demo.
            "MEMSEARCH_SUMMARIZE__PROVIDER": "openai",
            "MEMSEARCH_WORKERS__AUTOSTART": "false",
            "MEMSEARCH_DISABLE": "1",
        }
        process = subprocess.Popen(
            [*COMMAND, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env=environ,
            start_new_session=True,
        )
        running.append(process)
        return process

    yield begin
    for process in running:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def read_until(process: subprocess.Popen[str], word: str) -> str:
    """What a process has said up to a line with that word."""
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if word in line:
            return said
    raise AssertionError(f"{word!r} never came:\n{said}\n{process.communicate()[1]}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("moment", ["the agent goes on", "capture"])
def test_a_stopped_demo_leaves_nothing_behind(
    start: Callable[..., subprocess.Popen[str]],
    folder: Path,
    number: signal.Signals,
    moment: str,
) -> None:
    process = start()
    said = read_until(process, moment)
    (place,) = folder.iterdir()
    assert str(place) in said.replace("\n", " ")
    home = Home(str(place / "home"))
    assert is_held(home)  # its worker lives
    if number is signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does it: to the whole group
    else:
        process.send_signal(number)
    rest = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, rest
    assert "Stopped." in rest[1]
    assert "nothing is left behind" in rest[0]
    assert list(folder.iterdir()) == []
    assert processes_of(str(place)) == []


def test_a_kept_demo_can_be_looked_at_and_its_worker_is_gone(
    start: Callable[..., subprocess.Popen[str]], folder: Path
) -> None:
    process = start("--keep")
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, out + err
    (place,) = folder.iterdir()
    assert f"Everything is kept in {place}" in out
    assert processes_of(str(place)) == []
    (journal,) = (place / "user" / "mailer" / ".memsearch" / "memory").glob("*.md")
    entries = journal.read_text("utf-8")
    assert entries.count("<!-- session:") == 2
    assert "Retry-After" in entries
    assert "磁盘写满" in entries
    for stage in ("capture", "summarize", "append", "chunk", "embed", "upsert"):
        assert len(re.findall(rf"✓ {stage} +[0-9.]+ m?s", out)) == 2, stage
    # The two answers come after the journal, each from its own turn.
    first, second = out.partition("A question in English")[2].split("A question in Chinese")
    assert "Retry-After" in first
    assert "磁盘写满" in second
    assert "\x1b" not in out
    assert "summarize.provider = extractive" in out.replace("\n", " ")


def test_a_demo_that_fails_says_why_and_leaves_nothing_behind(
    start: Callable[..., subprocess.Popen[str]], folder: Path
) -> None:
    # Room for the log and the journal, not for the model.
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("a small file system can only be mounted by root")
    try:
        process = start()
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 1
        assert "The demo failed: embed failed: " in err
        assert "No space left on device" in err
        assert "nothing is left behind" in out
        assert list(folder.iterdir()) == []
    finally:
        subprocess.run(["umount", folder], check=True)


def processes_of(folder: str) -> list[str]:
    """The processes whose environment names a folder, a moment after the command has ended."""
    found: list[str] = []
    for _ in range(20):
        found = [name for name in os.listdir("/proc") if name.isdigit() and _names(name, folder)]
        if not found:
            break
        time.sleep(0.05)
    return found


def _names(pid: str, folder: str) -> bool:
    try:
        environ = Path("/proc", pid, "environ").read_bytes()
    except OSError:
        return False
    return f"MEMSEARCH_HOME={folder}".encode() in environ
