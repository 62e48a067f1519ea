"""How the command ends when its streams are closed, full or unread, and at Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-P", "-m", "memsearch._entry"]
#: Seconds that any one command may take before a test gives up on it.
PATIENCE = 120
#: Code before the command that closes or reopens a stream as a shell does.
WITHOUT = "import os, sys; os.close({}); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"


def run(*words: str, **how: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *words],
        stdout=how.get("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


@pytest.mark.parametrize("words", [["config", "path"], ["enqueue", "--help"]])
def test_a_full_disk_behind_stdout(words: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = run(*words, stdout=full.fileno())
    assert "Traceback" not in done.stderr
    if words[0] == "config":
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert "cannot be written: No space left" in done.stderr


@pytest.mark.parametrize("words", [["config", "list", "--resolved"], ["enqueue", "--help"]])
def test_nobody_reads(words: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = run(*words, stdout=write)
    finally:
        os.close(write)
    assert "Traceback" not in done.stderr
    assert done.stderr == ""


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_hook_whose_streams_are_closed(number: int, tmp_path: Path) -> None:
    """The hook is stored, ends well, and prints into no file of ours."""
    hook = f'{{"session_id": "s", "turn_id": "t", "cwd": "{tmp_path}"}}'
    done = subprocess.run(
        [
            *(sys.executable, "-c", WITHOUT.format(number)),
            *COMMAND[1:],
            *("enqueue", "--platform", "codex"),
        ],
        input=hook,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        env=os.environ | {"MEMSEARCH_WORKERS__AUTOSTART": "false"},
    )
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert done.stdout == ("" if number == 1 else "{}\n")
    home = Path(os.environ["MEMSEARCH_HOME"])
    assert (home / "state.db").exists() == (number != 0)
    for path in home.rglob("*.lock"):
        assert path.read_bytes() in (b"", b"\n") or b"{" not in path.read_bytes()


def test_ctrl_c_at_a_question() -> None:
    """What Ctrl-C ends has a shell's exit code for it, and says nothing more."""
    ours, theirs = pty.openpty()
    try:
        with subprocess.Popen(
            [*COMMAND, "reset"],
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A runner that ignores SIGINT hands that on.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.read(4) == b"Drop"
            # One that comes between the question and the wait for its answer is seen late.
            for _ in range(PATIENCE):
                process.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(1)
                    break
            assert process.poll() == 130
            assert process.stderr.read().strip() == b""
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_question_that_nobody_can_answer() -> None:
    done = subprocess.run(
        [*COMMAND, "reset"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 2
    assert "--yes" in done.stderr
