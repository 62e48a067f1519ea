"""``memsearch forget``: out of everything, shown before, and never captured again."""

import json
import os

import pytest
from world import Session, World

#: Words that only the turn to be forgotten holds.
MARK = "quokkafalcon"


def everywhere(world: World, needle: str = MARK) -> list[str]:
    """The files of home and project whose bytes hold a text."""
    return [
        str(path)
        for folder in (world.home, world.project)
        for path in folder.rglob("*")
        if path.is_file() and needle.encode() in path.read_bytes()
    ]


@pytest.fixture
def remembered(world: World, session: Session) -> tuple[World, Session, list[str]]:
    """Three turns in the journal; the middle one holds the words."""
    turns = []
    for words in ("the mail queue", f"the {MARK} plan", "the parser"):
        turns.append(session.turn(f"Explain {words} to me, please", f"I explained {words}."))
        reply = f"I explained {words}."
        world.hook(session.payload(turn=turns[-1], last_assistant_message=reply))
        world.drain()
    return world, session, turns


@pytest.mark.parametrize("how", ["turn", "text"])
@pytest.mark.parametrize("worker", [False, True])
def test_a_turn_goes_from_everywhere_and_stays_away(remembered, how, worker):
    world, session, turns = remembered
    human = world.memory / "MEMORY.md"
    human.write_bytes("\ufeffMine: the parser\r\n".encode())
    before = next(world.memory.glob("2*.md")).read_bytes()
    assert len(everywhere(world)) >= 3
    if worker:
        world.run("workers", "start")
    choice = ["--turn", turns[1]] if how == "turn" else ["--text", MARK.upper()]

    dry = json.loads(world.run("forget", *choice, "--dry-run", "--json").stdout)
    assert [entry["turn"] for entry in dry["entries"]] == [turns[1]]
    assert dry["texts"] >= 2
    assert dry["chunks"] >= 1
    assert next(world.memory.glob("2*.md")).read_bytes() == before
    assert "nobody can be asked" in world.run("forget", *choice, check=2).stderr

    world.run("forget", *choice, "--yes")
    journal = next(world.memory.glob("2*.md"))
    after = journal.read_bytes()
    start = before.index(b"### ", before.index(turns[0].encode()))
    end = before.index(b"### ", start + 4)
    # The test's three turns are of one session: the third stands behind the second.
    assert after == before[:start] + before[end:]
    assert human.read_bytes() == "\ufeffMine: the parser\r\n".encode()
    if worker:
        world.wait_for(lambda: everywhere(world) == [], 30)
    assert everywhere(world) == []
    assert all(found["turn"] != turns[1] for found in world.search(f"{MARK} plan"))
    assert world.search("mail queue")[0]["turn"] == turns[0]

    # A tombstone: neither a hook nor backfill nor a rebuilt log brings it back.
    world.run("workers", "stop", check=None)
    world.run("events", "rebuild")
    world.hook(session.payload(turn=turns[1], last_assistant_message="I explained it."))
    world.drain()
    world.run("backfill", "--yes")
    world.drain()
    assert world.entries() == [turns[0], turns[2]]
    assert everywhere(world) == []
    assert world.sql("SELECT state FROM turns WHERE turn = ?", turns[1]) == [("forgotten",)]


def test_a_dead_letter_and_an_entry_that_another_machine_wrote(world, session):
    turn = session.turn(f"Explain the {MARK} plan", f"The {MARK} plan it is.")
    world.hook(session.payload(turn=turn))
    down = {
        "MEMSEARCH_SUMMARIZE__PROVIDER": "openai",
        "MEMSEARCH_SUMMARIZE__BASE_URL": "http://127.0.0.1:9/v1",
        "MEMSEARCH_SUMMARIZE__API_KEY": "sk-test",
        "MEMSEARCH_RETRY__ATTEMPTS": "1",
    }
    assert world.drain(check=1, **down)["dead"] == 1
    world.memory.mkdir(parents=True, exist_ok=True)
    (world.memory / "2026-01-02.md").write_text(
        "# 2026-01-02\n\n## Session 10:00\n\n### 10:00\n"
        f"<!-- session:s-9 turn:t-9 transcript:~/.claude/x.jsonl -->\n- Of {MARK}\n\n"
        "### 10:05\n<!-- session:s-9 turn:t-10 transcript:~/.claude/x.jsonl -->\n- Other\n",
        "utf-8",
    )
    world.run("index")
    plan = json.loads(world.run("forget", "--text", MARK, "--yes", "--json").stdout)
    assert plan["dead_letters"] == 1
    assert sorted(plan["turns"]) == [f"turn:claude-code:{turn}", "turn:claude-code:t-9"]
    assert everywhere(world) == []
    assert world.entries() == ["t-10"]
    assert world.run("dead-letter", "list", "--json").stdout.strip() == "[]"


def test_a_day_and_a_session(remembered):
    world, session, turns = remembered
    other = Session(world)
    kept = other.turn("Explain the lexer to me, please", "I explained the lexer.")
    world.hook(other.payload(turn=kept))
    world.drain()
    world.run("forget", "--session", session.id, "--yes")
    assert world.entries() == [kept]
    assert everywhere(world) == []
    world.run("forget", "--day", other.at.strftime("%Y-%m-%d"), "--yes")
    assert world.entries() == []
    states = world.sql("SELECT DISTINCT state FROM turns")
    assert states == [("forgotten",)]
    assert len(turns) == 3


def test_wrong_usage_and_nothing_found(world):
    assert "one of --turn" in world.run("forget", check=2).stderr
    assert "one of --turn" in world.run("forget", "--turn", "a", "--text", "b", check=2).stderr
    assert "nothing of it" in world.run("forget", "--turn", "no-such-turn", "--dry-run").stderr
    # What cannot be looked into may hold it.
    world.memory.mkdir(parents=True, exist_ok=True)
    (world.memory / os.fsdecode(b"2026-01-10 (\xe9).md")).write_text(MARK, "utf-8")
    told = world.run("forget", "--text", MARK, "--yes", check=1).stderr
    assert r"(\xe9).md: its name is not UTF-8" in told


def test_what_was_put_aside_is_named_shown_and_deleted(world: World, session: Session) -> None:
    world.hook(session.payload(turn=session.turn("What is the mail queue?", "A heap of mails.")))
    world.drain()
    damaged = world.home / "state.db.damaged-20260101-000000"
    damaged.write_bytes(b"raw " + MARK.encode())
    folder = world.home / "milvus.db.damaged-20260101-000000"
    folder.mkdir()
    (folder / "part").write_bytes(MARK.encode())
    bad = world.home / "spool" / "bad" / "1.json"
    bad.parent.mkdir(parents=True)
    bad.write_text(MARK, encoding="utf-8")
    status = world.run("status", check=1).stdout
    assert str(damaged) in status
    assert str(folder) in status
    assert "spool/bad" in status
    assert "memsearch forget --put-aside" in status
    shown = json.loads(world.run("forget", "--put-aside", "--dry-run", "--json").stdout)
    assert shown == {"put_aside": [str(folder), str(damaged), str(bad)]}
    assert len(everywhere(world)) == 3
    assert "nobody can be asked" in world.run("forget", "--put-aside", check=2).stderr
    world.run("forget", "--put-aside", "--yes")
    assert everywhere(world) == []
    assert world.status()["put_aside"] == []
