"""``memsearch compact``: digests by month, the archive, and what a kill at any moment leaves."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from stub_llm import StubLLM
from world import COMMAND, PATIENCE, Session, World

#: Runs the command again and again, each time from the same files, and kills it right before its
#: Nth step on the disk; prints what each run has left. Forked, since starting costs more.
KILLED = """
import hashlib, json, os, pathlib, signal, sys
memory, archive = map(pathlib.Path, sys.argv[1:])
sys.argv[1:] = ["compact"]
import memsearch.cli.compact_cmd, memsearch.pipeline.compact, memsearch.workers.runner
from memsearch._entry import main
left = 0
def counted(name):
    real = getattr(os, name)
    def step(*arguments, **named):
        global left
        path = str(arguments[0])
        if name == "fsync":
            path = os.readlink(f"/proc/self/fd/{arguments[0]}")
        if path.startswith((str(memory), str(archive))):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **named)
    setattr(os, name, step)
def texts(folder):
    found = folder.iterdir() if folder.is_dir() else ()
    return {path.name: path.read_bytes().decode() for path in found}
kept = texts(memory)
number, status = 0, signal.SIGKILL
while status == signal.SIGKILL:
    number += 1
    for folder in (memory, archive):
        for name in texts(folder):
            (folder / name).unlink()
    for name, text in kept.items():
        (memory / name).write_bytes(text.encode())
    child = os.fork()
    if not child:
        left = number
        for name in ("replace", "rename", "unlink", "fsync", "open", "makedirs"):
            counted(name)
        os.dup2(2, 1)
        main()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = signal.SIGKILL if status == -9 else status
    print(json.dumps([status, texts(memory), texts(archive)]), flush=True)
"""


def old(days: int) -> datetime:
    return datetime.now(UTC).replace(hour=10, minute=0, second=0) - timedelta(days=days)


def write_journal(world: World, day: date, entries: int = 3, own: str = "") -> Path:
    """A journal as appends leave it, of turns that this machine does not know."""
    world.memory.mkdir(parents=True, exist_ok=True)
    text = f"# {day}\n\n## Session 10:00\n\n"
    for number in range(entries):
        turn = f"t-{day}-{number}"
        text += (
            f"### 10:{number:02d}\n<!-- session:s-1 turn:{turn}"
            f" transcript:~/.claude/projects/p/s-1.jsonl -->\n"
            f"- User asked for wombat{number} of {day}\n- Claude Code changed wombat{number}.py\n"
            f"- It ended well\n\n"
        )
    path = world.memory / f"{day}.md"
    path.write_text(text + own, encoding="utf-8")
    return path


def days_of(month_back: int, count: int) -> list[date]:
    first = date.today().replace(day=1)  # noqa: DTZ011 - the worlds run in UTC
    for _ in range(month_back):
        first = (first - timedelta(days=1)).replace(day=1)
    return [first + timedelta(days=3 * number) for number in range(count)]


def hashes(folder: Path) -> dict[str, str]:
    """SHA-256 by name of the journals in a folder."""
    if not folder.is_dir():
        return {}
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if re.match(r"\d{4}-", path.name)
    }


def archive_of(world: World) -> Path:
    return world.project / ".memsearch" / "archive"


def digests_of(world: World) -> str:
    return "".join(path.read_text("utf-8") for path in sorted(world.memory.glob("digest-*.md")))


def compact(world: World, *arguments: str, check: int = 0, **environ: str) -> dict[str, Any]:
    done = world.run("compact", "--json", *arguments, check=check, **environ)
    found: dict[str, Any] = json.loads(done.stdout) if done.stdout else {"error": done.stderr}
    return found


@pytest.fixture
def stub(world: World) -> Iterator[StubLLM]:
    with StubLLM() as made:
        world.settings |= {
            "MEMSEARCH_SUMMARIZE__PROVIDER": "openai",
            "MEMSEARCH_SUMMARIZE__BASE_URL": made.openai_url,
            "MEMSEARCH_SUMMARIZE__API_KEY": "sk-test",
        }
        yield made


def test_the_way_of_real_turns(world: World) -> None:
    """Captured, compacted, found, drilled into, and never written twice."""
    session = Session(world, at=old(45))
    turns = []
    for words in ("the numbat cache", "the quoll parser"):
        turns.append(session.turn(f"Explain {words} to me, please", f"I explained {words}."))
        world.hook(session.payload(turn=turns[-1], last_assistant_message="I explained it."))
        world.drain()
    (journal,) = world.memory.glob("2*.md")
    # A person changes one entry's words, and adds a note of their own.
    text = journal.read_text("utf-8").replace("the quoll parser", "the bettong lexer", 1)
    journal.write_text(text + "\n## Mine\n\nThe bandicoot decides.\n", "utf-8")
    today = world.memory / f"{date.today()}.md"  # noqa: DTZ011
    today.write_text(f"# {date.today()}\n\nStill being written\n", "utf-8")  # noqa: DTZ011
    before = journal.read_bytes()

    plan = compact(world, "--dry-run")
    assert [month["journals"] for month in plan["months"]] == [[str(journal)]]
    assert (plan["months"][0]["entries"], plan["months"][0]["own"]) == (1, 2)
    assert journal.exists()

    done = compact(world)
    archived = archive_of(world) / journal.name
    assert done["moved"] == [{"journal": str(journal), "archive": str(archived)}]
    assert archived.read_bytes() == before
    assert not journal.exists()
    assert today.exists()
    digest = digests_of(world)
    assert "numbat cache" in digest
    # What a person wrote is there word for word, the changed entry with its anchor.
    assert "## Mine\n\nThe bandicoot decides.\n" in digest
    assert f"turn:{turns[1]} " in digest
    assert f"turn:{turns[0]} " not in digest

    world.run("workers", "start")  # searches are cheaper with one
    assert world.search("bandicoot")[0]["source"].endswith(f"digest-{journal.name[:7]}.md")
    assert world.search("numbat cache", "--day", journal.stem)[0]["day"] == journal.stem
    found = world.search("numbat cache", "--kind", "archive")[0]
    assert (found["turn"], found["source"]) == (turns[0], f".memsearch/archive/{journal.name}")
    assert turns[0] in world.run("expand", found["chunk_hash"]).stdout
    assert "I explained the numbat cache." in world.run("transcript", found["chunk_hash"]).stdout
    listed = json.loads(world.run("list", "--archive", "--json").stdout)
    assert turns[0] in json.dumps(listed)

    # A second run, a repeated hook and a backfill add nothing.
    assert compact(world)["moved"] == []
    world.hook(session.payload(turn=turns[0], last_assistant_message="I explained it."))
    world.run("backfill", "--yes")
    world.drain()
    assert digests_of(world) == digest
    assert world.entries() == [turns[1]]  # the one that the digest holds word for word
    assert archived.read_bytes() == before


def test_what_comes_late_is_added_once(world: World) -> None:
    day = days_of(3, 1)[0]
    journal = write_journal(world, day, entries=2)
    written = journal.read_text("utf-8")
    compact(world)
    digest = world.memory / f"digest-{day.isoformat()[:7]}.md"
    first = digest.read_text("utf-8")
    with digest.open("a", encoding="utf-8") as file:
        file.write("\nA person adds the potoroo here.\n")
    # A turn of that day comes late; a sync brings a copy of what is archived.
    late = written.split("### 10:01")[0].replace("10:00", "11:30")
    late = late.replace(f"t-{day}-0", "t-late").replace("wombat0", "bilby")
    journal.write_text(late, "utf-8")
    copy = world.memory / f"{day} (conflicted copy).md"
    copy.write_bytes((archive_of(world) / journal.name).read_bytes())
    done = compact(world)
    assert len(done["moved"]) == 2
    text = digest.read_text("utf-8")
    assert text.startswith(first + "\nA person adds the potoroo here.\n")
    assert text.count("wombat0") == first.count("wombat0")
    assert text.count("User asked for bilby") == 1
    names = sorted(hashes(archive_of(world)))
    assert names == [f"{day} (conflicted copy).md", f"{day}.2.md", f"{day}.md"]


def test_models_are_asked_in_parts_and_not_twice(world: World, stub: StubLLM) -> None:
    days = days_of(3, 3)
    for day in days:
        write_journal(world, day, entries=12)
    key = "sk-ant-api03-" + "A1b2C3d4E5" * 9 + "AA"
    stub.default = f"say:- They changed wombats with {key}\\n- It ended well"
    # Twelve entries of about 120 characters do not fit into 1,000.
    small = {"MEMSEARCH_SUMMARIZE__MAX_INPUT_CHARS": "1000"}
    stub.order("fine", "fine", "400")
    assert "400" in compact(world, check=1, **small)["error"]
    asked = stub.calls("chat")
    assert len(hashes(world.memory)) == 3
    assert not archive_of(world).exists()
    assert digests_of(world) == ""
    done = compact(world, **small)
    assert len(done["moved"]) == 3
    # The two answers that were there already were not asked for again.
    parts = stub.calls("chat") - 1
    assert asked == 3
    assert parts >= 6
    digest = digests_of(world)
    assert "[redacted:" in digest
    assert key not in digest
    usage = world.status()["usage"]
    assert sum(row["calls"] for row in usage) >= parts
    assert world.sql("SELECT COUNT(*) FROM payloads") == [(1,)]  # of the failure alone


def test_a_spent_budget_leaves_everything_where_it_was(world: World, stub: StubLLM) -> None:
    for day in days_of(3, 2):
        write_journal(world, day)
    before = hashes(world.memory)
    spent = {"MEMSEARCH_BUDGET__DAILY_TOKENS": "1"}
    compact(world, check=1, **spent)  # the first call may go ahead alone
    error = compact(world, check=1, **spent)["error"]
    assert "tokens of today are spent" in error
    assert stub.calls("chat") == 1
    assert hashes(world.memory) == before
    assert len(compact(world)["moved"]) == 2
    assert stub.calls("chat") == 2


def test_a_journal_that_is_edited_meanwhile_stays(world: World, stub: StubLLM) -> None:
    one, two = (write_journal(world, day) for day in days_of(3, 2))
    stub.default = "slow:1"
    running = subprocess.Popen(
        [*COMMAND, "compact", "--json"],
        cwd=world.project,
        env=world.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    world.wait_for(lambda: stub.calls("chat") == 2)  # the first one is read and answered
    edited = one.read_text("utf-8").replace("It ended well", "It ended badly", 1)
    one.write_text(edited, "utf-8")
    done = json.loads(running.communicate(timeout=PATIENCE)[0])
    assert done["left"] == [{"path": str(one), "why": "somebody changed it meanwhile"}]
    assert [item["journal"] for item in done["moved"]] == [str(two)]
    assert one.read_text("utf-8") == edited
    assert one.stem not in digests_of(world)
    compact(world)
    assert (archive_of(world) / one.name).read_text("utf-8") == edited


def test_turns_on_their_way_hold_their_day_back(world: World, stub: StubLLM) -> None:
    session = Session(world, at=old(40))
    stub.default = "500"
    turn = session.turn("Explain the numbat cache to me", "I explained it.")
    world.hook(session.payload(turn=turn))
    world.drain(check=None)
    day = old(40).date()
    held = write_journal(world, day)
    other = write_journal(world, day - timedelta(days=1))
    stub.default = "fine"
    done = compact(world)
    assert [item["journal"] for item in done["moved"]] == [str(other)]
    assert done["left"] == [{"path": str(held), "why": "turns of that day are still on their way"}]


def test_killed_before_every_step(world: World) -> None:
    """Wherever it dies, every journal is whole in one place, and no digest lacks what moved."""
    months = [*days_of(3, 2), *days_of(2, 1)]
    for day in months:
        write_journal(world, day, own="\n## Mine\n\nThe bandicoot decides.\n")
    originals = {path.name: path.read_text("utf-8") for path in world.memory.iterdir()}
    killed = subprocess.run(
        [sys.executable, "-P", "-c", KILLED, str(world.memory), str(archive_of(world))],
        cwd=world.project,
        # Nothing is indexed meanwhile: its key is missing.
        env=world.environ | {"MEMSEARCH_EMBEDDING__PROVIDER": "openai"},
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    runs = [json.loads(line) for line in killed.stdout.splitlines()]
    assert len(runs) > 20, killed.stderr.decode()
    statuses = [status for status, _, _ in runs]
    assert set(statuses[:-1]) == {9}
    assert statuses[-1] == 1
    half = 0
    for number, (_, memory, archive) in enumerate(runs, 1):
        assert originals.items() <= (memory | archive).items(), number
        digest = "".join(text for name, text in memory.items() if name.startswith("digest-"))
        half += bool(archive) and len(archive) < 3
        for name in archive:
            assert f"<!-- end of {name}:" in digest, number
            assert f"- 10:02 User asked for wombat2 of {name[:10]}" in digest, number
    assert half  # it did die in the middle
    # From the middle on, the next run does the rest.
    memory, archive = next(run[1:] for run in runs if 0 < len(run[2]) < 3)
    for folder, texts in ((world.memory, memory), (archive_of(world), archive)):
        for path in folder.iterdir():
            path.unlink()
        for name, text in texts.items():
            (folder / name).write_text(text, "utf-8")
    (world.memory / ".memsearch-1-0a0b0c0d0e0f.tmp").write_text("half a digest", "utf-8")
    # Its exit code tells of the index, where a try of before may still wait for the next.
    world.run("compact", "--json", check=None)
    assert hashes(world.memory) == {}
    assert hashes(archive_of(world)).keys() == originals.keys()
    digest = digests_of(world)
    for day in months:
        for number in range(3):
            assert digest.count(f"User asked for wombat{number} of {day};") == 1
    assert digest.count("The bandicoot decides.") == 3
    assert not [name for name in os.listdir(world.memory) if name.endswith(".tmp")]


def test_by_the_worker_and_killed_there(world: World, stub: StubLLM) -> None:
    days = days_of(3, 4)
    for day in days:
        write_journal(world, day)
    originals = hashes(world.memory)
    stub.default = "slow:0.5"
    world.run("workers", "start")
    pid = world.status()["workers"]["pid"]
    asking = subprocess.Popen(
        [*COMMAND, "compact", "--json"],
        cwd=world.project,
        env=world.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    world.wait_for(lambda: stub.calls("chat") == 2)
    os.kill(pid, 9)
    # The asker finds no worker any more and goes on by itself, with what was answered.
    out, err = asking.communicate(timeout=PATIENCE)
    assert asking.returncode == 0, err.decode()
    assert len(json.loads(out)["moved"]) == 4
    assert hashes(archive_of(world)) == originals
    assert 4 <= stub.calls("chat") <= 5
    # What the killed call may have cost is counted.
    assert sum(row["calls"] for row in world.status()["usage"]) >= stub.calls("chat")


def test_a_scheduled_run_that_fails_is_told(world: World, stub: StubLLM) -> None:
    (day,) = days_of(3, 1)
    write_journal(world, day)
    world.run("index")  # the project is known
    world.settings["MEMSEARCH_COMPACT__SCHEDULE"] = "daily"
    stub.default = "400"
    world.run("workers", "start")
    world.wait_for(lambda: world.status()["compact"]["projects"])
    status = world.status()
    assert status["state"] == "degraded"
    (failed,) = status["compact"]["projects"]
    assert failed["failures"] == 1
    assert "compact.schedule: 1 runs in a row failed" in " ".join(status["reasons"])
    assert len(hashes(world.memory)) == 1
    world.run("workers", "stop")
    # A run by hand does not wait until its next try is due.
    stub.default = "fine"
    compact(world)
    assert hashes(archive_of(world)).keys() == {f"{day}.md"}


def test_a_provider_that_asked_to_wait_is_not_asked(
    world: World, session: Session, stub: StubLLM
) -> None:
    (day,) = days_of(3, 1)
    write_journal(world, day)
    stub.default = "429:7200"
    world.hook(session.payload(turn=session.turn("What is limited?", "Everything is.")))
    world.run("workers", "start")
    world.wait_for(lambda: world.sql("SELECT 1 FROM events WHERE type = 'StageFailed'"))
    refused = compact(world, check=1)
    assert "not asked yet" in json.dumps(refused)
    assert stub.calls("chat") == 1
    assert len(hashes(world.memory)) == 1


def test_on_schedule(world: World) -> None:
    (day,) = days_of(3, 1)
    write_journal(world, day)
    world.run("index")
    world.settings["MEMSEARCH_COMPACT__SCHEDULE"] = "weekly"
    world.run("workers", "start")
    world.wait_for(lambda: hashes(archive_of(world)))
    world.wait_for(lambda: world.status()["compact"]["projects"])
    status = world.status()
    assert status["state"] == "ok"
    assert status["compact"]["projects"][0]["last_success"]
    assert world.search("wombat1", "--kind", "digest")


def test_forget_takes_it_out_of_archive_and_digest(world: World) -> None:
    session = Session(world, at=old(45))
    turns = []
    for words in ("the numbat plan", "the quoll plan"):
        turns.append(session.turn(f"Explain {words} to me, please", f"I explained {words}."))
        world.hook(session.payload(turn=turns[-1]))
        world.drain()
    compact(world)
    assert "numbat" in digests_of(world)
    plan = json.loads(world.run("forget", "--text", "numbat", "--dry-run", "--json").stdout)
    assert len(plan["entries"]) == len(plan["digests"]) == 1
    assert plan["mentions"] == []
    world.run("forget", "--text", "numbat", "--yes")
    assert "numbat" not in digests_of(world)
    assert "quoll" in digests_of(world)
    left = [
        str(path)
        for folder in (world.home, world.project)
        for path in folder.rglob("*")
        if path.is_file() and b"numbat" in path.read_bytes()
    ]
    assert left == []
    assert world.search("quoll plan")
    assert compact(world)["moved"] == []
