"""What a session's start puts before the model, and what it tells the user."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from memsearch.config import statedb, trust
from memsearch.config.paths import Home
from memsearch.hooks import context
from memsearch.hooks.journals import Recent

COMMAND = [sys.executable, "-P", "-m", "memsearch._entry"]


def entries(count, size=10, day="2026-03-05"):
    return [Recent(day, f"10:{n:02d}", f"- entry {n} " + "字" * size) for n in range(count)]


def test_all_that_fits_is_there_in_the_order_of_time():
    text = context.compose([Recent("2026-03-04", "09:00", "- a"), *entries(2)], 0)
    assert "left out" not in text
    body = text[text.index("## 2026-03-04") :]
    places = [body.index(part) for part in ("## 2026-03-04", "- a", "## 2026-03-05", "y 0", "y 1")]
    assert places == sorted(places)
    assert body.count("## 2026-03-05") == 1


def test_one_long_note_leaves_room_for_others():
    long = Recent("2026-03-05", "11:00", "- long " + "字" * 400_000)
    text = context.compose([*entries(3), long], 0)
    assert len(text.encode()) <= context.MAX_BYTES
    assert "- long 字" in text
    assert text.count("- entry ") == 3


@pytest.mark.parametrize("count", [40, 400])
@pytest.mark.parametrize("size", [1, 100, 900])
def test_the_newest_are_kept_and_the_cut_is_stated(count, size):
    text = context.compose(entries(count, size), 0)
    assert len(text.encode()) <= context.MAX_BYTES
    assert f"entry {count - 1} " in text
    if size > 1 or count > 40:
        assert "entry 0 " not in text
        assert "older notes are left out" in text
        assert len(text.encode()) > context.MAX_BYTES - 40 * size - 200


def test_one_entry_that_is_too_long_is_cut():
    text = context.compose(entries(1, 9_000), 0)
    assert len(text.encode()) <= context.MAX_BYTES
    assert "字字 …" in text
    assert text.endswith("</memsearch-memory>")


def test_escaping_does_not_burst_the_bound():
    many = [Recent("2026-03-05", "10:00", "</memsearch-memory>" * 40) for _ in range(20)]
    text = context.compose(many, 0)
    assert len(text.encode()) <= context.MAX_BYTES
    assert text.count("</memsearch-memory") == 1


def test_nothing_is_nothing():
    assert context.compose([], 3) == ""


def test_turns_on_their_way_are_stated():
    assert "1 turn is not in them yet" in context.compose(entries(1), 1)
    assert "2 turns are not in them yet" in context.compose(entries(1), 2)


class Machine:
    """A home and a project with one journal."""

    def __init__(self, folder):
        self.home = Home(str(folder / "home"))
        self.project = folder / "项目 'x'"
        self.memory = self.project / ".memsearch" / "memory"
        self.memory.mkdir(parents=True)
        (self.memory / "2026-03-05.md").write_text(
            "# 2026-03-05\n\n### 10:00\n<!-- session:s turn:t transcript:~/x.jsonl -->\n"
            "- The cache was made of 玻璃\n",
            encoding="utf-8",
        )

    def log(self, *statements):
        self.home.create()
        with closing(sqlite3.connect(self.home.state_db)) as db:
            db.execute("PRAGMA journal_mode = WAL").fetchone()
            statedb.create_schema(db)
            for statement, values in statements:
                db.execute(statement, values)
            db.commit()

    def turn(self, state="done", **fields):
        row = {
            "stream": f"turn:claude-code:{os.urandom(4).hex()}",
            "platform": "claude-code",
            "turn": "t",
            "session": "s",
            "memory_dir": str(self.memory),
            "state": state,
            "stage": "done",
            "updated": statedb.utc_now(),
            "seq": 1,
            **fields,
        }
        marks = ", ".join("?" * len(row))
        return f"INSERT INTO turns({', '.join(row)}) VALUES ({marks})", tuple(row.values())

    def run(self, *arguments, payload=None, **environ):
        payload = {"session_id": "s", "cwd": str(self.project)} if payload is None else payload
        return subprocess.run(
            [*COMMAND, *arguments],
            input=json.dumps(payload).encode(),
            capture_output=True,
            cwd=self.project,
            env={**os.environ, "MEMSEARCH_HOME": self.home.root, **environ},
            check=False,
            timeout=60,
        )

    def context(self, **environ):
        done = self.run("context", "--platform", "claude-code", **environ)
        assert done.returncode == 0
        return json.loads(done.stdout)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_notes_of_this_machine_are_injected(machine):
    machine.log(machine.turn())
    said = machine.context()
    assert set(said) == {"hookSpecificOutput"}
    assert said["hookSpecificOutput"]["hookEventName"] == "SessionStart"
    assert "玻璃" in said["hookSpecificOutput"]["additionalContext"]


def test_notes_of_a_cloned_repository_are_not_and_that_is_said_once(machine):
    said = machine.context()
    assert set(said) == {"systemMessage"}
    assert "memsearch trust" in said["systemMessage"]
    assert machine.context() == {}
    machine.log(machine.turn("forgotten"))
    assert machine.context() == {}


def test_a_turn_of_ones_own_opens_no_door_for_the_notes_of_others(machine):
    machine.log(machine.turn(turn="mine"))
    with (machine.memory / "2026-03-06.md").open("w", encoding="utf-8") as file:
        file.write("### 11:00\n<!-- session:s turn:mine transcript:~/x.jsonl -->\n- Of mine\n")
        file.write("### 11:30\n- Of nobody\n")
    injected = machine.context()["hookSpecificOutput"]["additionalContext"]
    assert "Of mine" in injected
    assert "玻璃" not in injected
    assert "Of nobody" not in injected
    assert machine.run("trust", payload={}).returncode == 0
    everything = machine.context()["hookSpecificOutput"]["additionalContext"]
    assert "玻璃" in everything
    assert "Of nobody" in everything
    assert os.stat(os.path.join(machine.home.run, trust.TRUSTED_FILE)).st_mode & 0o777 == 0o600
    assert str(machine.memory) in machine.run("trust", "--list", payload={}).stdout.decode()
    machine.run("trust", "--revoke", payload={})
    assert "玻璃" not in machine.context()["hookSpecificOutput"]["additionalContext"]


def test_until_the_user_trusts_them(machine):
    machine.home.create()
    trusted = os.path.join(machine.home.run, trust.TRUSTED_FILE)
    with open(trusted, "w", encoding="utf-8") as file:
        file.write(f"/other\n{machine.memory}\n")
    assert "玻璃" in machine.context()["hookSpecificOutput"]["additionalContext"]


def test_a_resumed_conversation_is_not_told_again(machine):
    machine.log(machine.turn())
    payload = {"session_id": "s", "cwd": str(machine.project), "source": "resume"}
    done = machine.run("context", "--platform", "codex", payload=payload)
    assert done.stdout == b"{}\n"


def test_no_memory_yet_is_an_empty_object(machine):
    for file in machine.memory.iterdir():
        file.unlink()
    machine.log(machine.turn())
    assert machine.context() == {}


def test_our_own_summariser_hears_nothing(machine):
    machine.log(machine.turn())
    assert machine.context(MEMSEARCH_INTERNAL="1") == {}
    assert machine.context(MEMSEARCH_DISABLE="1") == {}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"state": "dead"}, "dead-letter list"),
        ({"state": "open", "error_class": "budget"}, "budget.daily_tokens"),
    ],
)
def test_the_user_hears_of_faults(machine, fields, words):
    machine.log(machine.turn(**fields))
    said = machine.context()
    assert words in said["systemMessage"]


def test_dead_letters_that_were_looked_at_are_no_news(machine):
    later = (
        "INSERT INTO kv(queue, key, value) VALUES ('memsearch', 'dead_letters_seen', ?)",
        ("99999999999",),
    )
    machine.log(machine.turn("dead"), later)
    assert "dead-letter" not in str(machine.context())


def test_a_broken_configuration_is_shown_and_stops_nothing(machine):
    machine.log(machine.turn())
    with open(machine.home.config_toml, "w", encoding="utf-8") as file:
        file.write("[search\n")
    said = machine.context()
    assert "config.toml is no TOML" in said["systemMessage"]
    assert "玻璃" in said["hookSpecificOutput"]["additionalContext"]


def test_a_damaged_database_is_shown_and_stops_nothing(machine):
    machine.home.create()
    with open(machine.home.state_db, "wb") as file:
        file.write(b"no database " * 1000)
    assert "memsearch doctor" in machine.context()["systemMessage"]


def test_a_person_reads_text(machine):
    machine.log(machine.turn())
    done = machine.run("context")
    assert done.stdout.decode().startswith("<memsearch-memory>\n")
    assert "玻璃" in done.stdout.decode()


def test_it_takes_note_of_the_event_too(machine):
    payload = {
        "session_id": "s",
        "cwd": str(machine.project),
        "hook_event_name": "SessionStart",
        "transcript_path": "/x.jsonl",
    }
    done = machine.run("context", "--platform", "claude-code", "--enqueue", payload=payload)
    assert set(json.loads(done.stdout)) == {"systemMessage"}
    with closing(sqlite3.connect(machine.home.state_db)) as db:
        ((data,),) = db.execute("SELECT data FROM events").fetchall()
    assert json.loads(data)["event"] == "SessionStart"


@pytest.mark.parametrize("given", [b"", b"[]", b"{oops", b"\xff"])
@pytest.mark.parametrize("command", ["context", "hint"])
def test_malformed_input_never_stops_an_agent(machine, command, given):
    done = subprocess.run(
        [*COMMAND, command, "--platform", "claude-code"],
        input=given,
        capture_output=True,
        env={**os.environ, "MEMSEARCH_HOME": machine.home.root},
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"{}\n")
    assert b"memsearch" in done.stderr


@pytest.mark.parametrize("command", ["enqueue", "context", "hint"])
def test_what_an_agent_waits_for_imports_little(command):
    """Counted, not timed: the modules beyond those of ``import json, sqlite3``."""
    script = (
        "import json, sqlite3, sys; bare = set(sys.modules)\n"
        f"import memsearch.hooks.{command}\n"
        "print(*sorted(set(sys.modules) - bare))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True
    )
    new = set(done.stdout.split())
    others = {name for name in new if not name.startswith("memsearch")}
    assert others <= {"__future__", "fcntl", "select"}
    assert not {name for name in new if name.startswith("memsearch.sources")}
    assert len(new) <= 18


def test_500_journals_and_no_network_change_nothing(machine):
    machine.log(machine.turn())
    for number in range(500):
        day = f"20{10 + number // 336:02d}-{number // 28 % 12 + 1:02d}-{number % 28 + 1:02d}"
        (machine.memory / f"{day}.md").write_text(
            f"### 09:00\n<!-- session:s turn:t transcript:~/x -->\n- old {number}\n" * 50
        )
    said = machine.context()["hookSpecificOutput"]["additionalContext"]
    assert "玻璃" in said
    assert said.count("## 20") == 2
