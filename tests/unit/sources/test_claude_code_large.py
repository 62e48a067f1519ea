"""Files that are far larger than memory should be (T6)."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from memsearch.sources import jsonl
from memsearch.sources.base import Pointer
from memsearch.sources.claude_code import ClaudeCode

Transcript = Any  # of conftest, which cannot be imported here

FAR = datetime(2099, 1, 1, tzinfo=UTC)
MEGABYTE = 1_000_000

READ = """
import json, sys
from datetime import datetime, UTC
from memsearch.sources.base import Pointer
from memsearch.sources.claude_code import ClaudeCode

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

path, tail = sys.argv[1], sys.argv[2] == "tail"
before = peak()
pointer = Pointer("claude-code", "s", path, turn="p9" if tail else None)
reading = ClaudeCode().read(
    pointer,
    start=None if tail else 0,
    not_before=datetime(2099, 1, 1, tzinfo=UTC) if tail else None,
)
turns = [
    [turn.id, [item.text[:40] for item in turn.items if item.kind == "user"], len(turn.items)]
    for turn in reading.turns
]
print(json.dumps({"kb": peak() - before, "turns": turns, "skipped": reading.skipped}))
"""


def write_large(t: Transcript, path: Path) -> None:
    """About 300 MB: images, files and outputs of 30 MB a line, and lines that are none."""
    image_data = b"A" * (30 * MEGABYTE)
    text = b"word and \\n" * (30 * MEGABYTE // 11)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:

        def line(record: Any, inside: bytes = b"") -> None:
            before, _, after = json.dumps(record).encode().partition(b"@@")
            file.writelines((before, inside, after, b"\n"))

        for n in (1, 9):
            image = {"type": "image", "source": {"type": "base64", "data": "@@"}}
            words = {"type": "text", "text": f"picture {n}"}
            line(t.user([image, words], f"p{n}"), image_data)
            line(t.call(f"c{n}", "Edit", file_path="/a.py"))
            more = {"toolUseResult": {"originalFile": "@@", "filePath": "/a.py"}}
            line(t.result(f"c{n}", "edited", **more), text)
            line("@@", image_data)
            line({"type": "user", "message": ["@@"]}, b'y", "' * (6 * MEGABYTE))
            file.write(b"\0" * (30 * MEGABYTE) + b"\n")
            line(t.answer(f"done {n}"))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    return tmp_path_factory.mktemp("large") / "session.jsonl"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs the peak of /proc")
def test_lines_of_30_mb_in_bounded_memory(transcript: Transcript, large: Path) -> None:
    write_large(transcript, large)
    assert large.stat().st_size > 290 * MEGABYTE
    for mode in ("whole", "tail"):
        done = subprocess.run(
            [sys.executable, "-c", READ, str(large), mode],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        answer = json.loads(done.stdout)
        assert answer["kb"] < 100_000
        first = ["p1", ["[image]\npicture 1"], 3]
        last = ["p9", ["[image]\npicture 9"], 3]
        assert answer["turns"] == ([first, last] if mode == "whole" else [last])
        assert (
            answer["skipped"] == {"not an object": 2, "too long": 2}
            if mode == "whole"
            else {"not an object": 1, "too long": 1}
        )
    large.unlink()


class Counting(io.FileIO):
    """A real file that counts the bytes that are read from it."""

    read_bytes = 0

    def readinto(self, buffer: Any, /) -> int | None:
        size = super().readinto(buffer)
        Counting.read_bytes += size or 0
        return size

    def read(self, size: int | None = -1, /) -> bytes | None:
        data = super().read(-1 if size is None else size)
        Counting.read_bytes += len(data or b"")
        return data


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> type[Counting]:
    def opened(path: str) -> BinaryIO:
        return io.BufferedReader(Counting(path), jsonl.BUFFER_BYTES)

    Counting.read_bytes = 0
    monkeypatch.setattr(jsonl, "_open", opened)
    return Counting


@pytest.fixture
def sixty(transcript: Transcript) -> Transcript:
    """60 MB in 600 turns of 100 kB."""
    t = transcript
    t.path.parent.mkdir(parents=True, exist_ok=True)
    with t.path.open("w") as file:
        for n in range(600):
            records = [t.user(f"do {n}", f"p{n}"), t.call(f"c{n}", command="cat")]
            records += [t.result(f"c{n}", "x" * 99_000), t.answer(f"did {n}")]
            file.writelines(json.dumps(record) + "\n" for record in records)
    return t


def test_the_tail_of_60_mb_reads_only_the_tail(sixty: Transcript, counted: type[Counting]) -> None:
    assert sixty.path.stat().st_size > 59 * MEGABYTE
    reading = sixty.read("p599", start=None, not_before=FAR)
    assert [turn.id for turn in reading.turns] == ["p599"]
    assert counted.read_bytes < MEGABYTE
    counted.read_bytes = 0
    again = sixty.read("p599", start=reading.resume)
    assert again.turns == reading.turns
    assert counted.read_bytes < MEGABYTE // 2


def test_a_conversation_in_60_mb_reads_only_its_part(
    sixty: Transcript, counted: type[Counting]
) -> None:
    turns = ClaudeCode().conversation(str(sixty.path), "s", "p590", context=2)
    assert [turn.id for turn in turns] == [f"p{n}" for n in range(588, 593)]
    assert counted.read_bytes < 4 * MEGABYTE


def test_a_hooked_turn_that_is_absent_is_not_looked_for_for_ever(
    sixty: Transcript, counted: type[Counting]
) -> None:
    reading = sixty.read("absent", start=None, not_before=FAR)
    assert reading.turns == ()
    assert counted.read_bytes < 8 * MEGABYTE


def test_a_hole_of_gigabytes_before_the_tail(
    transcript: Transcript, counted: type[Counting]
) -> None:
    t = transcript
    tail = t.write(t.user("before", "p1"), t.user("go", "p2"), t.answer("done")).read_bytes()
    with t.path.open("wb") as file:
        file.write(json.dumps(t.user("first", "p0")).encode() + b"\n")
        file.seek(3_000 * MEGABYTE)
        file.write(b"\n" + tail)
    pointer = Pointer("claude-code", "s", str(t.path), turn="p2")
    reading = ClaudeCode().read(pointer, start=None, not_before=FAR)
    assert [turn.id for turn in reading.turns] == ["p2"]
    assert counted.read_bytes < MEGABYTE


def test_a_turn_of_very_many_steps_in_bounded_memory(transcript: Transcript) -> None:
    t = transcript
    t.path.parent.mkdir(parents=True, exist_ok=True)
    step = json.dumps(t.call("@@", command="make @@")), json.dumps(t.result("@@", "o" * 2_000))
    with t.path.open("w") as file:
        file.write(json.dumps(t.user("go", "p9")) + "\n")
        for n in range(15_000):
            number = t.base()["uuid"]
            for line in step:
                file.write(line.replace("@@", f"c{n}").replace("uuid-", f"{number}-") + "\n")
        file.write(json.dumps(t.answer("done")) + "\n")
    done = subprocess.run(
        [sys.executable, "-c", READ, str(t.path), "tail"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    answer = json.loads(done.stdout)
    assert answer["kb"] < 25_000  # what the turn keeps of each step would be 32,000
    assert answer["turns"][0][:2] == ["p9", ["go"]]
    assert 50 < answer["turns"][0][2] < 500
