"""Backfill: everything that the agents keep, captured once, at its own date."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from stub_llm import StubLLM
from world import Session, World

from memsearch.pipeline.summarizers.prompt import PROMPT_MARK

DATA = Path(__file__).parents[1] / "data"
#: Turns of the recordings that make an entry, by agent.
RECORDED = {"claude-code": 20, "codex": 11, "opencode": 12, "openclaw": 8}


@pytest.fixture
def agents(world: World) -> World:
    """A machine on which all recordings were made, in its project."""
    for source in sorted((DATA / "claude-code" / "projects").rglob("*.jsonl")):
        relocate(source, world.agent / source.relative_to(DATA / "claude-code"), world)
    for source in sorted((DATA / "codex" / "sessions").rglob("*.jsonl")):
        relocate(source, world.root / ".codex" / source.relative_to(DATA / "codex"), world)
    opencode = world.root / ".local" / "share" / "opencode" / "opencode.db"
    opencode.parent.mkdir(parents=True)
    shutil.copy(DATA / "opencode" / "opencode.db", opencode)
    with closing(sqlite3.connect(opencode)) as db, db:
        db.execute("UPDATE session SET directory = ?", (str(world.project),))
    openclaw = world.root / ".openclaw" / "agents" / "main" / "agent" / "openclaw-agent.sqlite"
    openclaw.parent.mkdir(parents=True)
    with closing(sqlite3.connect(openclaw)) as db, db:
        # Its own DDL cannot be written by every SQLite, so the tables are copied without.
        db.execute("ATTACH ? AS recorded", (str(DATA / "openclaw" / "openclaw-agent.sqlite"),))
        for name in ("session_nodes", "session_windows", "transcript_events"):
            db.execute(f"CREATE TABLE {name} AS SELECT * FROM recorded.{name}")
        rows = db.execute("SELECT rowid, event_json FROM transcript_events WHERE seq = 0")
        for rowid, text in rows.fetchall():
            event = json.loads(text) | {"cwd": str(world.project)}
            db.execute(
                "UPDATE transcript_events SET event_json = ? WHERE rowid = ?",
                (json.dumps(event, ensure_ascii=False), rowid),
            )
    return world


def relocate(source: Path, target: Path, world: World) -> None:
    """Copy a transcript as if it had been written in the world's project."""
    target.parent.mkdir(parents=True, exist_ok=True)
    lines = []
    for line in source.read_text("utf-8").splitlines():
        lines.append(json.dumps(moved(json.loads(line), str(world.project)), ensure_ascii=False))
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")
    rest(target)


def moved(value: Any, project: str) -> Any:
    if isinstance(value, dict):
        return {
            key: project
            if key == "cwd" and str(inner).startswith("/home/dev/")
            else moved(inner, project)
            for key, inner in value.items()
        }
    return [moved(inner, project) for inner in value] if isinstance(value, list) else value


def backfill(world: World, *arguments: str, **more: Any) -> dict[str, Any]:
    done = world.run("backfill", *arguments, "--json", **more)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def streams(world: World) -> list[str]:
    return [stream for (stream,) in world.sql("SELECT stream FROM turns ORDER BY stream")]


def captured_events(world: World) -> Counter[str]:
    rows = world.sql("SELECT stream FROM events WHERE type IN ('TurnCaptured', 'TurnSkipped')")
    return Counter(stream for (stream,) in rows)


def test_all_recordings_dry_run_kill_at_half_and_again(agents: World) -> None:
    world = agents
    dry = backfill(world, "--dry-run")
    assert not (world.home / "state.db").exists()
    assert dry["problems"] == []
    assert {name: each["new"] for name, each in dry["platforms"].items()} == RECORDED
    assert (dry["known"], dry["running"], dry["gone"], dry["captured"]) == (0, 0, 0, 0)
    total = sum(RECORDED.values())

    half = kill_at_half(world, total)
    again = backfill(world)
    assert (again["new"], again["known"]) == (total - half, half)
    assert again["captured"] == total - half
    assert Counter(stream.split(":")[1] for stream in streams(world)) == RECORDED
    assert set(captured_events(world).values()) == {1}
    assert backfill(world)["captured"] == 0

    counts = world.drain()
    assert (counts["appended"], counts["waiting"]) == (total, 0)
    assert world.status()["dead_letters"]["total"] == 0
    entries = Counter(world.entries())
    assert set(entries.values()) == {1}
    assert {stream.split(":", 2)[2] for stream in streams(world)} == set(entries)
    print(
        f"dry run: {RECORDED}; captured before the kill: {half}, after it: {total - half};"
        f" third run: 0; entries: {len(entries)}, each once"
    )
    for key in ("transcript:", "rollout:", "db:"):
        assert f" {key}~/" in world.journal()
    found = world.search("gateway turn", "--platform", "openclaw")[0]
    shown = world.run("transcript", found["chunk_hash"]).stdout
    assert "gateway turn [[SH: echo gw]]" in shown
    assert "echo gw" in shown


def kill_at_half(world: World, total: int) -> int:
    """Run backfill and kill it in the middle; how many turns it had captured by then."""
    running = world.start("backfill", "--yes")
    deadline = time.monotonic() + 60
    while not (world.home / "state.db").exists():
        assert time.monotonic() < deadline
        time.sleep(0.001)
    with closing(sqlite3.connect(world.home / "state.db", timeout=0, isolation_level=None)) as db:
        while True:
            assert time.monotonic() < deadline
            try:
                (half,) = db.execute("SELECT count(*) FROM turns").fetchone()
                if half < total // 2:
                    continue
                db.execute("BEGIN IMMEDIATE")  # whatever it wants to write now has to wait
            except sqlite3.OperationalError:
                continue
            break
        (half,) = db.execute("SELECT count(*) FROM turns").fetchone()
        running.kill()
        running.wait(30)
        db.execute("ROLLBACK")
    assert 0 < half < total
    return int(half)


def old_sessions(world: World, number: int) -> list[tuple[Session, list[str]]]:
    """Sessions of one turn each and a half, over ten days that have passed."""
    made = []
    for n in range(number):
        at = datetime.now(UTC).replace(hour=12) - timedelta(days=20 + n % 10, minutes=n)
        session = Session(world, at=at)
        turns = [
            session.turn(f"Question {n}.{k} about the parser", f"Answer {n}.{k} of the parser")
            for k in range(2)
        ]
        rest(session.path)
        made.append((session, turns))
    return made


def rest(path: Path) -> None:
    """Let a transcript look as if nobody had written to it for an hour."""
    os.utime(path, (time.time() - 3_600,) * 2)


def test_f1_thirty_old_sessions_then_a_live_hook(world: World) -> None:
    made = old_sessions(world, 30)
    dry = backfill(world, "--dry-run", "--since", "25d")
    assert dry["new"] == 2 * sum(
        session.at.date() >= (datetime.now(UTC) - timedelta(days=25)).date() for session, _ in made
    )
    kill_at_half(world, 60)
    assert backfill(world)["captured"] > 0
    session, turns = made[0]
    live = session.turn("And now live, what about the lexer?", "The lexer is fine.")
    world.hook(session.payload(turn=live))
    world.hook(session.payload(turn=turns[1]))
    world.drain()
    assert Counter(world.entries()) == Counter([live, *(turn for _, each in made for turn in each)])
    days = {session.at.astimezone(UTC).strftime("%Y-%m-%d") for session, _ in made[1:]}
    assert {path.stem for path in world.memory.glob("*.md")} >= days
    for session, turns in made[1:]:
        day = session.at.astimezone(UTC).strftime("%Y-%m-%d")
        text = (world.memory / f"{day}.md").read_text("utf-8")
        assert all(f"turn:{turn} " in text for turn in turns)


def test_two_runs_at_once(world: World) -> None:
    made = old_sessions(world, 20)
    running = [world.start("backfill", "--yes") for _ in range(3)]
    assert [each.wait(60) for each in running] == [0, 0, 0]
    assert captured_events(world) == {
        f"turn:claude-code:{turn}": 1 for _, turns in made for turn in turns
    }


def test_what_a_hook_captured_is_known(world: World, session: Session) -> None:
    turn = session.turn("Why is the sky blue over the build?", "Because it is green.")
    world.hook(session.payload(turn=turn))
    world.drain()
    rest(session.path)
    found = backfill(world)
    assert (found["turns"], found["known"], found["captured"]) == (1, 1, 0)


def test_excluded_private_and_trivial_turns_and_secrets(world: World, session: Session) -> None:
    secret = "sk-ant-api03-" + "Ab3" * 30
    session.turn(f"Use the key {secret} for the deployment", "I used it.")
    session.turn("<private>all of this is mine</private>", "Fine.")
    session.turn("ok", "Done.")
    rest(session.path)
    excluded = {"MEMSEARCH_CAPTURE__EXCLUDE": json.dumps([str(world.project)])}
    kept_out = backfill(world, **excluded)
    assert kept_out["platforms"]["claude-code"]["skipped"] == {"project is excluded": 3}
    assert kept_out["captured"] == 0
    found = backfill(world)
    assert found["platforms"]["claude-code"]["skipped"] == {"private": 1, "acknowledgement": 1}
    assert found["captured"] == 1
    everything = b"".join(path.read_bytes() for path in world.home.glob("state.db*"))
    assert secret.encode() not in everything
    assert b"all of this is mine" not in everything


def test_q10_our_own_summarisers_sessions_are_nobodys(world: World) -> None:
    for words in ("Why is the sky blue over the build?", "And green below?"):
        session = Session(world)
        session.turn(words, "Because of the light.")
        rest(session.path)
    ours = Session(world)
    ours.turn(f"{PROMPT_MARK}\n\nSummarise the turn below.", "- The user asked.")
    rest(ours.path)
    first = backfill(world)
    assert (first["captured"], first["platforms"]["claude-code"]["foreign"]) == (2, 1)
    assert backfill(world)["captured"] == 0
    assert len(streams(world)) == 2


def test_a_turn_that_was_forgotten_stays_forgotten(world: World, session: Session) -> None:
    turn = session.turn("Remember the password of the cellar", "I will.")
    rest(session.path)
    backfill(world)
    with closing(sqlite3.connect(world.home / "state.db")) as db, db:
        db.execute("UPDATE turns SET state = 'forgotten', stage = 'done'")
        db.execute("DELETE FROM payloads")
    found = backfill(world)
    assert (found["known"], found["captured"]) == (1, 0)
    assert captured_events(world) == {f"turn:claude-code:{turn}": 1}


def test_it_asks_before_it_spends(world: World, session: Session) -> None:
    session.turn("Explain the retry policy of the mail queue", "Five tries, half an hour.")
    rest(session.path)
    with StubLLM() as stub:
        settings = {
            "MEMSEARCH_SUMMARIZE__PROVIDER": "openai",
            "MEMSEARCH_SUMMARIZE__BASE_URL": stub.url,
            "MEMSEARCH_SUMMARIZE__API_KEY": "sk-test",
            "MEMSEARCH_SUMMARIZE__MODEL": "stub",
        }
        refused = world.run("backfill", check=2, **settings)
        assert "nobody can be asked" in refused.stderr
        assert "about" in refused.stdout
        assert world.sql("SELECT count(*) FROM turns") == [(0,)]
        found = backfill(world, "--yes", **settings)
        assert found["tokens"] > 100
        assert (found["captured"], found["providers"]) == (1, ["openai"])
        assert stub.calls("chat") == 0
        world.drain(**settings)
        assert stub.calls("chat") == 1


def test_by_platform_and_project(agents: World, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    only = backfill(agents, "--dry-run", "--platform", "codex")
    assert only["new"] == RECORDED["codex"]
    assert list(only["platforms"]) == ["codex"]
    deep = agents.project / "src"
    deep.mkdir()
    assert backfill(agents, "--dry-run", "--project", ".", cwd=deep)["new"] == sum(
        RECORDED.values()
    )
    assert backfill(agents, "--dry-run", "--project", str(other))["turns"] == 0
    assert "known are" in agents.run("backfill", "--platform", "emacs", check=2).stderr
    assert "no folder" in agents.run("backfill", "--project", "/no/where", check=2).stderr


def test_a_project_that_is_gone_and_a_file_that_cannot_be_read(
    agents: World, session: Session
) -> None:
    gone = Session(agents)
    gone.turn("What was here?", "A project.")
    here = json.dumps(str(agents.project), ensure_ascii=False)
    text = gone.path.read_text("utf-8").replace(here, '"/no/such/project"')
    gone.path.write_text(text, "utf-8")
    rest(gone.path)
    database = agents.root / ".local" / "share" / "opencode" / "opencode.db"
    database.write_bytes(b"no database " * 1000)
    found = backfill(agents, "--dry-run")
    assert found["gone"] == 1
    assert (found["platforms"]["opencode"]["turns"], len(found["problems"])) == (0, 1)
    assert str(database) in found["problems"][0]
    assert found["platforms"]["openclaw"]["new"] == RECORDED["openclaw"]
