"""Thirty credentials go in by every way there is, and none comes out anywhere."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from credentials import CREDENTIALS, LOOK_ALIKES, found_in, told
from stub_llm import StubLLM
from test_backfill import agents  # noqa: F401 (a fixture)
from world import Session, World

#: Keys of an agent's records whose strings are words of a user, an agent or a tool.
WORDS = {"text", "output", "content", "message", "formatted_output", "aggregated_output", "stdout"}


def spoiled(value: Any, key: str = "") -> Any:
    """A record in which everybody says all credentials."""
    if isinstance(value, dict):
        return {name: spoiled(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [spoiled(inner, key) for inner in value]
    if isinstance(value, str) and key in WORDS and 3 < len(value) < 2_000 and "<" not in value:
        # Of different lengths, so that the cuts of long texts lie in all of them.
        return value + "\n" + "and so on " * (len(value) % 61) + "\n" + told()
    return value


def spoil_lines(path: Path) -> int:
    lines = path.read_text("utf-8").splitlines()
    made = [json.dumps(spoiled(json.loads(line)), ensure_ascii=False) for line in lines]
    path.write_text("\n".join(made) + "\n", encoding="utf-8")
    return sum(len(found_in(line.encode())) for line in made)


def spoil_table(path: Path, table: str, column: str) -> int:
    count = 0
    with closing(sqlite3.connect(path)) as db, db:
        for rowid, text in db.execute(f"SELECT rowid, {column} FROM {table}").fetchall():
            if isinstance(text, str):
                made = json.dumps(spoiled(json.loads(text)), ensure_ascii=False)
                db.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (made, rowid))
                count += len(found_in(made.encode()))
    return count


def places(world: World) -> dict[str, Callable[[], int]]:
    """How each agent's store comes to hold the credentials."""
    opencode = world.root / ".local" / "share" / "opencode" / "opencode.db"
    openclaw = world.root / ".openclaw" / "agents" / "main" / "agent" / "openclaw-agent.sqlite"
    codex = sorted((world.root / ".codex").rglob("rollout-*.jsonl"))
    claude = sorted((world.agent / "projects").rglob("*.jsonl"))
    return {
        "claude-code": lambda: sum(map(spoil_lines, claude)),
        "codex": lambda: sum(map(spoil_lines, codex)),
        "opencode": lambda: spoil_table(opencode, "part", "data"),
        "openclaw": lambda: spoil_table(openclaw, "transcript_events", "event_json"),
    }


def files_of(world: World) -> list[Path]:
    """Every file that memsearch may have written."""
    folders = (world.home, world.project)
    return [path for folder in folders for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("platform", ["claude-code", "codex", "opencode", "openclaw"])
def test_no_credential_reaches_a_file_a_model_or_a_log(
    agents: World,  # noqa: F811
    platform: str,
) -> None:
    world = agents
    planted = places(world)[platform]()
    assert planted > 5 * len(CREDENTIALS)
    with StubLLM() as stub:
        world.settings |= {
            "MEMSEARCH_SUMMARIZE__PROVIDER": "openai",
            "MEMSEARCH_SUMMARIZE__BASE_URL": stub.openai_url,
            "MEMSEARCH_SUMMARIZE__API_KEY": "sk-test",
            "MEMSEARCH_SUMMARIZE__MODEL": "stub",
            "MEMSEARCH_BUDGET__DAILY_TOKENS": "0",
        }
        # Hooks with the credentials in all that a hook may bring, of sessions that are there
        # and of one that is not, which becomes a dead letter.
        payload = {
            "session_id": "no-such-session",
            "transcript_path": str(world.root / "no such transcript.jsonl"),
            "cwd": str(world.project),
            "hook_event_name": "Stop",
            "last_assistant_message": "The end.\n" + f"{told()}\n" * 16,
            "prompt": told(),
            "tool_input": {"command": told()},
            "tool_response": told(),
        }
        world.run("enqueue", "--platform", platform, stdin=json.dumps(payload))
        torn = json.dumps(payload)[:-9]
        world.run("enqueue", "--platform", platform, stdin=torn)
        filled = json.loads(world.run("backfill", "--yes", "--platform", platform, "--json").stdout)
        # A model that fails: what is said of that is written down too.
        stub.order("400")
        world.drain(check=None)
        found = json.loads(world.run("search", "Which token deploys the site?", "--json").stdout)
        # The conversations themselves hold them; what is shown of them does not.
        first = next(item["chunk_hash"] for item in found if item["turn"])
        shown = (
            world.run("transcript", first, "--json").stdout + world.run("transcript", first).stdout
        )
        calls = stub.calls("chat")
        sent = "\n".join(json.dumps(each.body, ensure_ascii=False) for each in stub.requests)
    assert calls >= 3, filled
    assert "[redacted:" in sent
    assert world.entries()
    leaks = {str(path): found for path in files_of(world) if (found := found_in(path.read_bytes()))}
    assert leaks == {}
    assert found_in(sent.encode()) == set()
    assert "[redacted:" in shown
    assert found_in(shown.encode()) == set()
    for command in ("status", "dead-letter list", "list", "context"):
        assert found_in(world.run(*command.split(), check=None).stdout.encode()) == set(), command
    print(
        f"{platform}: {len(CREDENTIALS)} credentials at {planted} places of the transcripts and 4"
        f" of a hook; {calls} model calls, {len(files_of(world))} files: 0 found"
    )


def test_look_alikes_reach_the_model_as_they_are(world: World, session: Session) -> None:
    said = "\n".join(LOOK_ALIKES)
    turn = session.ask("Explain these lines, please:\n" + said)
    session.tool("cat lines.txt", said + "\n" + told(), turn)
    session.answer("They are all harmless:\n" + said)
    with StubLLM() as stub:
        world.settings |= {
            "MEMSEARCH_SUMMARIZE__PROVIDER": "openai",
            "MEMSEARCH_SUMMARIZE__BASE_URL": stub.openai_url,
            "MEMSEARCH_SUMMARIZE__API_KEY": "sk-test",
            "MEMSEARCH_SUMMARIZE__MODEL": "stub",
        }
        world.hook(session.payload(turn=turn))
        world.drain()
        sent = stub.requests[0].user_text
    survived = [text for text in LOOK_ALIKES if sent.count(text) >= 2]
    assert set(LOOK_ALIKES) - set(survived) == set()
    assert found_in(sent.encode()) == set()
    print(f"{len(survived)} of {len(LOOK_ALIKES)} look-alikes reached the model as they are")
