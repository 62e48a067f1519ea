"""Never lost, never twice, never silent: one fault at a time. The storms are beside it."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from stub_llm import StubLLM
from world import COMMAND, Session, World

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import Home
from memsearch.pipeline.engine import Engine
from memsearch.pipeline.events import Event, EventType
from memsearch.pipeline.log import EventLog


@pytest.fixture
def stub():
    with StubLLM() as running:
        yield running


@pytest.fixture
def modelled(world, stub):
    """The world, with the stub as its model and short waits."""
    world.settings |= {
        "MEMSEARCH_SUMMARIZE__PROVIDER": "openai",
        "MEMSEARCH_SUMMARIZE__BASE_URL": stub.openai_url,
        "MEMSEARCH_SUMMARIZE__API_KEY": "sk-test",
        "MEMSEARCH_SUMMARIZE__MODEL": "stub",
        "MEMSEARCH_RETRY__BASE_SECONDS": "0.2",
        "MEMSEARCH_RETRY__ATTEMPTS": "3",
    }
    return world


def send(world: World, session: Session, number: int, **fields) -> list[str]:
    """So many turns, each hooked."""
    turns = []
    for index in range(number):
        turn = session.turn(f"Look into topic{index} of {session.id} now", f"Done topic{index}.")
        world.hook(session.payload(turn=turn, **fields))
        turns.append(turn)
    return turns


def letters(world: World) -> list[dict]:
    return json.loads(world.run("dead-letter", "list", "--json").stdout)


def open_streams(world: World) -> int:
    return sum(
        world.sql(f"SELECT COUNT(*) FROM {table} WHERE state = 'open'")[0][0]
        for table in ("hooks", "turns", "documents")
    )


# -- the provider -----------------------------------------------------------------------------


def test_two_failures_and_then_an_answer_is_one_entry(modelled, session, stub):
    stub.order("500", "429:0.1")
    turns = send(modelled, session, 1)
    modelled.drain("--wait")
    assert modelled.entries() == turns
    assert stub.calls("chat") == 3


def test_a_provider_that_asks_to_wait_is_left_alone_whatever_waits(modelled, session, stub):
    stub.order("429:2")
    turns = send(modelled, session, 12)
    modelled.drain("--wait")
    first, *others = (each.at for each in stub.of("chat"))
    # Four at a time: those that were under way when it said so, and what their threads took
    # before they heard of it; all of the others wait.
    assert sum(at < first + 2 for at in others) <= 7
    assert modelled.entries() == turns
    assert len(modelled.sql("SELECT 1 FROM events WHERE type = 'StageFailed'")) == 1


@pytest.mark.parametrize(
    ("order", "rounds"),
    [(["fine", *["429:0.5"] * 4], 7), (["fine", *["429"] * 3], 9)],
    ids=["with its end", "without"],
)
def test_a_limit_lets_no_long_queue_die(modelled, session, stub, order, rounds):
    # One request of each round passes; more turns than requests at once wait, to the end.
    stub.order(*order * rounds)
    turns = send(modelled, session, 12)
    modelled.drain("--wait")
    assert not modelled.sql("SELECT 1 FROM events WHERE type = 'DeadLettered'")
    assert modelled.entries() == turns


def test_a_long_pause_is_told_with_its_end_and_uses_up_no_only_try(modelled, session, stub):
    modelled.settings["MEMSEARCH_RETRY__ATTEMPTS"] = "1"
    modelled.settings["MEMSEARCH_RETRY__AUTO_REPLAY"] = "false"
    stub.default = "429:7300"
    send(modelled, session, 8)
    modelled.drain(check=None)
    # Those that were asked are dead, as the setting wants it; the others were not asked.
    assert 1 <= stub.calls("chat") <= 4
    status = modelled.status()
    assert status["dead_letters"]["total"] <= stub.calls("chat")
    assert status["turns"]["open"] >= 4
    (reason,) = [each for each in status["reasons"] if "summarize fails" in each]
    assert " in 2 h, or now by memsearch dead-letter replay --waiting: " in reason


def test_what_waits_for_a_provider_is_tried_now_when_asked(modelled, session, stub):
    stub.order(*["429:7300"] * 4)
    turns = send(modelled, session, 6)
    worker = modelled.start("workers", "--foreground")
    waits = "SELECT COUNT(*) FROM turns WHERE state = 'open' AND error_class = 'rate_limit'"
    modelled.wait_for(lambda: modelled.sql(waits) == [(6,)])
    stub.forget()  # from now on it answers
    assert json.loads(modelled.run("dead-letter", "replay", "--waiting", "--json").stdout) == {
        "count": 6
    }
    assert worker.wait(60) == 0
    modelled.wait_for(lambda: modelled.memory.exists() and modelled.entries() == turns)


def test_another_provider_is_asked_at_once_for_what_waits_for_the_one_before(
    modelled, session, stub
):
    for name in [name for name in modelled.settings if "SUMMARIZE" in name]:
        key = name.removeprefix("MEMSEARCH_SUMMARIZE__").lower()
        value = modelled.settings.pop(name)
        modelled.run("config", "set", f"summarize.platforms.claude-code.{key}", value)
    stub.default = "429:7300"
    turns = send(modelled, session, 6)
    worker = modelled.start("workers", "--foreground")
    try:
        waits = "SELECT COUNT(*) FROM turns WHERE state = 'open' AND error_class = 'rate_limit'"
        modelled.wait_for(lambda: modelled.sql(waits) == [(6,)])
        modelled.run("config", "set", "summarize.platforms.claude-code.provider", "extractive")
        modelled.wait_for(lambda: modelled.memory.exists() and modelled.entries() == turns)
    finally:
        worker.terminate()
        worker.wait(20)


def test_a_turn_forgotten_during_a_pause_is_sent_to_nobody(modelled, session, stub):
    send(modelled, session, 1)
    log = EventLog(str(modelled.home / "state.db"))
    engine = Engine(Home(str(modelled.home)), modelled.environ, log)
    engine.run("capture", modelled.sql("SELECT stream FROM hooks")[0][0])
    [(turn,)] = modelled.sql("SELECT stream FROM turns WHERE stage = 'summarize'")
    refusal = MemsearchError("slow down", kind=ErrorClass.RATE_LIMIT, retry_after=2)
    engine.pacing.heard(("openai", stub.openai_url, "stub"), refusal, 0)
    for _ in range(2):
        engine.run("summarize", turn)
        log_after = modelled.sql("SELECT type FROM events WHERE stream = ?", turn)
        assert log_after == [("TurnCaptured",)]
        assert modelled.sql("SELECT COUNT(*) FROM schedule") != [(0,)]
    with log.transaction() as tx:
        tx.append(Event(turn, EventType.TURN_FORGOTTEN, {}))
    time.sleep(engine.pacing.left(("openai", stub.openai_url, "stub")))
    engine.run("summarize", turn)
    engine.close()
    log.close()
    assert stub.calls("chat") == 0


@pytest.mark.parametrize("fault", ["500", "garbage", "empty", "none", "prose", "thinking-only"])
def test_a_model_that_keeps_failing_writes_nothing_and_says_why(modelled, session, stub, fault):
    stub.default = fault
    send(modelled, session, 1)
    assert modelled.drain("--wait", check=1)["dead"] == 1
    assert not modelled.memory.exists()
    letter = letters(modelled)[0]
    assert (letter["stage"], letter["attempts"]) == ("summarize", 3)
    assert letter["error"]
    shown = json.loads(modelled.run("dead-letter", "show", letter["id"], "--json").stdout)
    assert [each["attempt"] for each in shown["tries"]] == [1, 2, 3]
    assert "topic0" in shown["turn"]
    assert shown["replay"].endswith(letter["id"])


@pytest.mark.parametrize(("fault", "kind"), [("401", "credentials"), ("400", "bad_request")])
def test_what_cannot_be_mended_by_waiting_is_tried_once(modelled, session, stub, fault, kind):
    stub.default = fault
    send(modelled, session, 1)
    modelled.drain("--wait", check=1)
    assert stub.calls("chat") == 1
    assert letters(modelled)[0]["reason"] == kind


def test_an_outage_ends_and_its_dead_letters_go_through_by_themselves(modelled, session, stub):
    stub.default = "503"
    turns = send(modelled, session, 3)
    worker = modelled.start("workers", "--foreground")
    try:
        died = "SELECT COUNT(DISTINCT stream) FROM events WHERE type = 'DeadLettered'"
        modelled.wait_for(lambda: modelled.sql(died) == [(3,)])
        assert not modelled.memory.exists()
        assert modelled.status()["state"] == "degraded"
        stub.default = "fine"
        modelled.wait_for(lambda: sorted(modelled.entries()) == sorted(turns))
        assert letters(modelled) == []
    finally:
        worker.terminate()
        worker.wait(20)


def test_a_turn_that_fails_while_others_succeed_is_replayed_once_and_then_left(
    modelled, session, stub
):
    stub.order("500", "500", "500")
    send(modelled, session, 1)
    modelled.drain("--wait", check=1)
    stub.default = "fine"
    worker = modelled.start("workers", "--foreground")
    try:
        modelled.wait_for(lambda: modelled.memory.exists() and len(modelled.entries()) == 1)
    finally:
        worker.terminate()
        worker.wait(20)
    assert letters(modelled) == []


def test_automatic_replay_can_be_switched_off(modelled, session, stub):
    modelled.settings["MEMSEARCH_RETRY__AUTO_REPLAY"] = "false"
    stub.default = "503"
    send(modelled, session, 1)
    modelled.drain("--wait", check=1)
    stub.default = "fine"
    send(modelled, Session(modelled), 1)
    modelled.drain("--wait")
    assert len(letters(modelled)) == 1


def test_a_replay_by_hand_puts_the_entry_into_its_own_day(modelled, stub):
    stub.default = "401"
    old = datetime.now(UTC) - timedelta(days=3)
    session = Session(modelled, at=old)
    turns = send(modelled, session, 1)
    modelled.drain(check=1)
    stub.default = "fine"
    today = Session(modelled)
    send(modelled, today, 1)
    modelled.settings["MEMSEARCH_RETRY__AUTO_REPLAY"] = "false"
    modelled.drain()
    modelled.run("dead-letter", "replay", "--all", "--stage", "summarize")
    modelled.drain()
    file = modelled.memory / f"{session.at:%Y-%m-%d}.md"
    assert turns[0] in file.read_text("utf-8")


def test_a_discarded_letter_lets_go_of_what_waited_and_stays_discarded(modelled, session, stub):
    stub.default = "401"
    send(modelled, session, 2)
    modelled.drain(check=1)
    first, second = letters(modelled)
    modelled.run("dead-letter", "discard", first["id"], second["id"])
    assert letters(modelled) == []
    modelled.drain()
    assert not modelled.memory.exists()
    refused = modelled.run("dead-letter", "replay", first["id"], check=2)
    assert "is no dead letter" in refused.stderr


def test_an_earlier_turn_in_backoff_holds_the_later_ones_back(modelled, session, stub):
    stub.order("500", "500")
    turns = send(modelled, session, 4)
    modelled.drain("--wait")
    assert modelled.entries() == turns


def test_a_model_that_never_answers_is_said_and_does_not_hold_the_worker(modelled, session, stub):
    stub.default = "never"
    modelled.settings |= {
        "MEMSEARCH_SUMMARIZE__TIMEOUT_SECONDS": "1.5",
        "MEMSEARCH_RETRY__BASE_SECONDS": "30",
    }
    send(modelled, session, 1)
    modelled.start("workers", "--foreground")
    modelled.wait_for(lambda: modelled.status()["state"] == "degraded", 30)
    status = modelled.run("status", check=1)
    assert "summarize" in status.stdout
    modelled.settings["MEMSEARCH_SUMMARIZE__TIMEOUT_SECONDS"] = "600"
    modelled.run("workers", "stop")
    again = modelled.start("workers", "--foreground")
    modelled.run("dead-letter", "list")
    started = time.monotonic()
    modelled.wait_for(lambda: modelled.run("workers", "status", check=None).returncode == 0)
    modelled.run("workers", "stop")
    assert again.wait(1) is not None
    assert time.monotonic() - started < 60
    assert not modelled.memory.exists()


def test_a_spent_budget_waits_and_a_raised_cap_drains_it(modelled, stub):
    stub.tokens = (400, 100)
    modelled.settings["MEMSEARCH_BUDGET__DAILY_TOKENS"] = "2000"
    session = Session(modelled)
    turns = send(modelled, session, 12)
    modelled.drain()
    assert stub.calls("chat") == 4
    assert modelled.entries() == turns[: len(modelled.entries())]
    status = modelled.status()
    assert status["state"] == "paused"
    assert status["budget"] == {"daily_tokens": 2000, "spent": 2000, "paused_turns": 8}
    assert any("budget" in reason for reason in status["reasons"])
    assert modelled.run("status").returncode == 0
    modelled.settings["MEMSEARCH_BUDGET__DAILY_TOKENS"] = "100000"
    modelled.drain()
    assert modelled.entries() == turns
    assert modelled.status()["state"] == "ok"


def test_tokens_of_a_call_that_was_killed_are_not_forgotten(modelled, session, stub):
    stub.default = "never"
    send(modelled, session, 1)
    worker = modelled.start("workers", "--foreground")
    modelled.wait_for(lambda: stub.calls("chat") == 1)
    worker.kill()
    worker.wait()
    stub.default = "fine"
    modelled.drain()
    usage = modelled.status()["usage"]
    assert sum(row["estimated"] for row in usage) == 1
    assert len(modelled.entries()) == 1


# -- the database -----------------------------------------------------------------------------


def test_a_hundred_hooks_while_the_database_is_held_lose_nothing(world, session):
    world.hook(session.payload("SessionStart"))
    turns = [session.turn(f"Question {n} about the build", f"Answer {n} to it.") for n in range(3)]
    held = sqlite3.connect(world.home / "state.db", isolation_level=None)
    held.execute("BEGIN IMMEDIATE")
    payload = world.root / "payload.json"
    payload.write_text(json.dumps(session.payload(turn=turns[-1])), encoding="utf-8")
    with contextlib.ExitStack() as files:
        hooks = [
            subprocess.Popen(
                [*COMMAND, "enqueue", "--platform", "claude-code"],
                stdin=files.enter_context(payload.open("rb")),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=world.environ,
            )
            for _ in range(100)
        ]
    released = threading.Timer(3.0, lambda: None)
    released.start()
    outcomes = [hook.communicate() for hook in hooks]
    released.join()
    held.execute("ROLLBACK")
    held.close()
    assert {hook.returncode for hook in hooks} == {0}
    assert {out for out, _ in outcomes} == {b"{}\n"}
    spooled = len(list((world.home / "spool").glob("*.json")))
    stored = world.sql("SELECT COUNT(*) FROM hooks")[0][0] - 1
    assert spooled + stored == 100
    assert spooled > 0
    world.drain()
    assert world.sql("SELECT COUNT(*) FROM hooks") == [(101,)]
    assert list((world.home / "spool").glob("*.json")) == []
    assert world.entries() == turns


def test_a_file_in_the_spool_that_cannot_be_read_is_put_aside_and_shown(world, session):
    world.hook(session.payload("SessionStart"))
    (world.home / "spool").mkdir(exist_ok=True)
    (world.home / "spool" / "x.json").write_text("{", encoding="utf-8")
    world.drain()
    status = world.status()
    assert status["state"] == "degraded"
    assert status["spool"]["bad"] == 1


@pytest.mark.parametrize("running", [False, True], ids=["stopped", "running"])
@pytest.mark.parametrize("shadow", ["task", "schedule", "turns", "documents", "hooks", "usage"])
def test_a_deleted_table_of_the_queue_or_the_projections_comes_back(
    world, session, shadow, running
):
    first = send(world, session, 2)
    worker = world.start("workers", "--foreground") if running else None
    if running:
        world.wait_for(lambda: world.memory.exists() and world.entries() == first)
        world.wait_for(lambda: not open_streams(world))
    with contextlib.closing(sqlite3.connect(world.home / "state.db", timeout=30)) as db:
        db.execute(f"DROP TABLE {shadow}")
        db.commit()
    second = send(world, session, 2)
    if worker is not None:
        world.wait_for(lambda: world.entries() == first + second, 100)
        worker.terminate()
        worker.wait(20)
    else:
        world.drain()
        assert world.entries() == first + second
    assert len(world.search("topic0", "-k", "10")) >= 1
    world.run("events", "rebuild")
    assert world.status()["turns"]["done"] == 4


@pytest.mark.parametrize("running", [False, True], ids=["stopped", "running"])
@pytest.mark.parametrize("shadow", ["milvus.db", "embeddings.db"])
def test_a_deleted_index_or_cache_comes_back_whole(world, session, shadow, running):
    import shutil

    turns = send(world, session, 3)
    world.drain()
    worker = None
    if running:
        world.run("workers", "start")
        world.search("topic1")
    path = world.home / shadow
    if path.is_dir():
        shutil.rmtree(path)
    else:
        for each in world.home.glob(shadow + "*"):
            each.unlink()
    world.run("index")
    if running:
        world.run("workers", "stop")
    del worker
    world.drain()
    found = world.search("topic1 now", "-k", "10")
    assert {each["turn"] for each in found} == set(turns)
    assert all(each["ranks"]["dense"] for each in found)


def test_events_rebuild_gives_what_was_there(world, session):
    send(world, session, 2)
    world.drain()
    before = world.status()
    world.run("events", "rebuild")
    after = world.status()
    for key in ("turns", "documents", "usage", "last_success"):
        assert after[key] == before[key]


def test_a_damaged_log_is_put_aside_and_the_last_good_copy_goes_on(world, session):
    first = send(world, session, 2)
    world.drain()
    assert (world.home / "state.db.backup-1").exists()
    path = world.home / "state.db"
    data = bytearray(path.read_bytes())
    data[4096 : len(data) : 7] = b"\xa5" * len(data[4096 : len(data) : 7])
    path.write_bytes(data)
    for leftover in ("state.db-wal", "state.db-shm"):
        (world.home / leftover).unlink(missing_ok=True)
    second = session.turn("Does a damaged log lose a turn?", "No, it waits in the spool.")
    world.hook(session.payload(turn=second))
    status = world.run("status", check=1)
    assert "state.db" in status.stderr + status.stdout
    world.drain()
    assert list(world.home.glob("state.db.damaged-*"))
    assert world.entries() == [*first, second]


def test_a_damaged_log_without_a_copy_is_refused_with_a_clear_word(world, session):
    (world.home / "state.db").write_bytes(b"this is no database at all" * 400)
    turn = session.turn("Is a broken file replaced by an empty one?", "Never.")
    world.hook(session.payload(turn=turn))
    refused = world.run("workers", "--drain", check=1)
    assert "damaged" in refused.stderr
    assert (world.home / "state.db").read_bytes().startswith(b"this is no database")
    assert len(list((world.home / "spool").glob("*.json"))) == 1


# -- the disk -----------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 3 MB, as root; else the test is not run and says so."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip("a small file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Fill a file system to its last block."""
    filler = folder / "filler"
    for size in (65536, 4096, 1):
        descriptor = os.open(filler, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        with contextlib.suppress(OSError):
            while True:
                os.write(descriptor, b"x" * size)
        os.close(descriptor)
    return filler


def test_a_full_disk_under_the_journal_is_waited_out(world, session, small_disk):
    memory = world.project / ".memsearch"
    memory.symlink_to(small_disk)
    filler = fill(small_disk)
    turns = send(world, session, 2)
    worker = world.start("workers", "--foreground")
    try:
        world.wait_for(
            lambda: world.sql("SELECT error_class FROM turns WHERE state = 'open' AND attempts > 0")
        )
        assert world.sql("SELECT DISTINCT error_class FROM turns WHERE attempts > 0") == [
            ("disk_full",)
        ]
        assert world.status()["state"] == "degraded"
        filler.unlink()
        world.wait_for(lambda: world.entries() == turns, 90)
    finally:
        worker.terminate()
        worker.wait(20)


def test_a_full_disk_under_the_home_is_said_and_loses_no_accepted_turn(
    tmp_path, models_dir, small_disk
):
    world = World(tmp_path / "machine", models_dir)
    world.home = small_disk / "home"
    world.home.mkdir()
    (world.home / "models").symlink_to(models_dir)
    session = Session(world)
    first = send(world, session, 1)
    filler = fill(small_disk)
    turn = session.turn("What happens when the disk is full?", "The hook says so.")
    done = world.hook(session.payload(turn=turn))
    assert done.stdout == "{}\n"
    assert "the disk of MEMSEARCH_HOME is full" in json.dumps(world.status()["reasons"])
    filler.unlink()
    accepted = world.sql("SELECT COUNT(*) FROM hooks")[0][0] + len(
        list((world.home / "spool").glob("*.json")) if (world.home / "spool").exists() else []
    )
    if accepted == 1:
        assert "not stored" in done.stderr
    # The next hook of the session brings along what the full disk kept out.
    third = session.turn("And now that there is room again?", "All is caught up.")
    world.hook(session.payload(turn=third))
    world.drain("--wait", check=None)
    assert world.entries() == [*first, turn, third]


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes into read-only folders")
def test_a_journal_folder_that_cannot_be_written_is_named(world, session):
    world.memory.mkdir(parents=True)
    world.memory.chmod(0o500)
    send(world, session, 1)
    world.drain(check=None)
    world.memory.chmod(0o700)
    assert str(world.memory) in json.dumps(world.status(), ensure_ascii=False)


def test_a_read_only_file_system_under_the_journal_is_named(world, session, small_disk):
    (world.project / ".memsearch").symlink_to(small_disk)
    (small_disk / "memory").mkdir()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    world.settings |= {"MEMSEARCH_RETRY__ATTEMPTS": "2", "MEMSEARCH_RETRY__BASE_SECONDS": "0.1"}
    turns = send(world, session, 1)
    world.drain("--wait", check=1)
    assert letters(world)[0]["reason"] == "permission"
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    world.run("dead-letter", "replay", "--all")
    world.drain("--wait")
    assert world.entries() == turns


#: The command, with a log that once cannot be written: what the stage was to do has then left
#: the queue, and no event tells of it.
_UNRECORDED = """
from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.pipeline.stages import table

chunk, failed = table.STAGES["chunk"], []

def once(engine, key):
    if not failed:
        failed.append(key)
        raise MemsearchError("state.db: disk full", kind=ErrorClass.DISK_FULL)
    chunk(engine, key)

table.STAGES["chunk"] = once
from memsearch._entry import main
raise SystemExit(main())
"""


def test_a_task_that_a_full_disk_took_is_found_by_the_same_drain(world, session):
    send(world, session, 1)
    done = subprocess.run(
        [sys.executable, "-P", "-c", _UNRECORDED, "workers", "--drain", "--json"],
        cwd=world.project,
        env=world.environ,
        capture_output=True,
        timeout=180,
        check=False,
    )
    counts = json.loads(done.stdout)
    assert "stage_unrecorded" in (world.home / "logs" / "worker.log").read_text("utf-8")
    assert (counts["indexed"], counts["waiting"], counts["stalled"]) == (1, 0, False)
    assert done.returncode == 0


# -- the journal --------------------------------------------------------------------------------


def test_an_entry_that_a_person_deleted_does_not_come_back(world, session):
    turns = send(world, session, 2)
    world.drain()
    journal = next(world.memory.glob("*.md"))
    text = journal.read_text("utf-8")
    kept = text[: text.index(f"turn:{turns[1]}")].rsplit("###", 1)[0]
    # The log says that the append was long ago.
    with contextlib.closing(sqlite3.connect(world.home / "state.db")) as db:
        db.execute("DROP TRIGGER events_keep")
        db.execute("UPDATE events SET at = '2020-01-01T00:00:00.000Z' WHERE type = 'TurnAppended'")
        db.commit()
    journal.write_text(kept, encoding="utf-8")
    world.hook(session.payload(turn=turns[1]))
    world.hook(session.payload("SessionEnd", reason="other"))
    world.drain()
    third = send(world, session, 1)
    world.drain()
    assert world.entries() == [turns[0], *third]


def test_an_editors_whole_save_within_a_minute_loses_no_entry(world, session):
    first = send(world, session, 1)
    world.drain()
    journal = next(world.memory.glob("*.md"))
    opened = journal.read_text("utf-8")  # a person opens the file in an editor
    worker = world.start("workers", "--foreground")
    try:
        second = send(world, session, 1)
        world.wait_for(lambda: world.entries() == first + second)
        journal.write_text(opened + "\nA note of mine.\n", encoding="utf-8")
        world.wait_for(lambda: world.entries() == first + second)
        assert "A note of mine." in world.journal()
    finally:
        worker.terminate()
        worker.wait(20)


def test_a_person_editing_with_renames_and_fifty_appends_keep_everything(world, session):
    send(world, session, 1)
    world.drain()
    journal = next(world.memory.glob("*.md"))
    worker = world.start("workers", "--foreground")
    over = threading.Event()
    lines = 0

    def edit() -> None:
        nonlocal lines
        while not over.wait(0.3):
            text = journal.read_text("utf-8")
            lines += 1
            fresh = journal.with_suffix(".tmp")
            fresh.write_text(text + f"human line {lines}\n", encoding="utf-8")
            os.replace(fresh, journal)

    editor = threading.Thread(target=edit)
    editor.start()
    try:
        turns = send(world, session, 30)
        world.wait_for(lambda: len(set(world.entries())) == 31, 120)
    finally:
        over.set()
        editor.join()
        worker.terminate()
        worker.wait(20)
    assert set(turns) <= set(world.entries())
    assert len(world.entries()) == 31
    for number in range(1, lines + 1):
        assert f"human line {number}\n" in world.journal()


def test_over_midnight_each_turn_lies_in_its_own_day(world):
    session = Session(world, at=datetime(2026, 3, 3, 23, 59, 30, tzinfo=UTC))
    before = session.turn("A question just before midnight", "An answer before it.")
    session.at = datetime(2026, 3, 4, 0, 0, 5, tzinfo=UTC)
    after = session.turn("A question just after midnight", "An answer after it.")
    world.hook(session.payload(turn=before))
    world.hook(session.payload(turn=after))
    world.drain()
    assert before in (world.memory / "2026-03-03.md").read_text("utf-8")
    assert after in (world.memory / "2026-03-04.md").read_text("utf-8")
    assert "## Session 00:00" in (world.memory / "2026-03-04.md").read_text("utf-8")


# -- the workers --------------------------------------------------------------------------------


def test_two_workers_started_at_once_are_one(world, session):
    turns = send(world, session, 3)
    workers = [world.start("workers", "--foreground") for _ in range(4)]
    world.wait_for(lambda: world.memory.exists() and world.entries() == turns)
    alive = [worker for worker in workers if worker.poll() is None]
    assert len(alive) == 1
    alive[0].terminate()
    alive[0].wait(20)


def test_the_pid_in_the_lock_file_is_not_believed(world, session):
    (world.home / "run").mkdir(exist_ok=True)
    (world.home / "run" / "worker.lock").write_text(str(os.getpid()), encoding="ascii")
    turns = send(world, session, 1)
    world.drain()
    assert world.entries() == turns
    assert world.run("workers", "stop").stdout.strip() == "no worker runs"


def test_a_worker_that_is_told_to_end_ends_and_gives_back_what_it_was_at(modelled, session, stub):
    stub.default = "slow:30"
    turns = send(modelled, session, 2)
    worker = modelled.start("workers", "--foreground")
    modelled.wait_for(lambda: stub.calls("chat") >= 1)
    started = time.monotonic()
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(10) == 0
    assert time.monotonic() - started < 10
    assert letters(modelled) == []
    # A drain that is told to end has not worked all, and does not say so.
    asked = stub.calls("chat")
    draining = modelled.start("workers", "--drain")
    modelled.wait_for(lambda: stub.calls("chat") > asked)
    draining.send_signal(signal.SIGINT)
    assert draining.wait(60) == 130
    assert letters(modelled) == []
    stub.default = "fine"
    modelled.drain()
    assert modelled.entries() == turns


def test_a_worker_with_nothing_to_do_ends_by_itself_and_the_next_hook_starts_one(world, session):
    world.settings |= {
        "MEMSEARCH_WORKERS__AUTOSTART": "true",
        "MEMSEARCH_WORKERS__IDLE_EXIT_MINUTES": "0.02",
    }
    first = send(world, session, 1)
    world.wait_for(lambda: world.memory.exists() and world.entries() == first)
    world.wait_for(lambda: world.run("workers", "status", check=None).returncode == 1)
    second = send(world, session, 1)
    world.wait_for(lambda: world.entries() == first + second)


def test_a_worker_that_dies_at_once_is_not_started_at_every_hook(world, session):
    world.settings["MEMSEARCH_WORKERS__AUTOSTART"] = "true"
    (world.home / "state.db").write_bytes(b"this is no database at all" * 400)
    for _ in range(8):
        world.hook(session.payload("Stop", turn="x" * 36))
    time.sleep(1)
    log = world.home / "logs" / "worker.log"
    world.wait_for(log.exists)
    assert log.read_text("utf-8").count('"worker_died"') <= 2


#: The command, whose worker takes a copy of its own file for the one that it was loaded from.
_COPIED = """
import os, shutil, sys
from memsearch.workers import runner

shutil.copy(runner.__file__, os.environ["COPY"])
runner.__file__ = os.environ["COPY"]
runner._LOADED = runner._identity(runner.__file__)
from memsearch._entry import main
raise SystemExit(main())
"""


@pytest.mark.parametrize("how", ["upgraded", "removed"])
def test_a_worker_ends_when_its_package_is_replaced(world, session, tmp_path, how):
    copy = tmp_path / "runner.py"
    worker = subprocess.Popen(
        [sys.executable, "-P", "-c", _COPIED, "workers", "--foreground"],
        cwd=world.project,
        env=world.environ | {"COPY": str(copy)},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    world.started.append(worker)
    turns = send(world, session, 1)
    world.wait_for(lambda: world.entries() == turns)
    assert worker.poll() is None
    other = tmp_path / "other.py"
    other.write_bytes(copy.read_bytes())
    os.replace(other, copy) if how == "upgraded" else copy.unlink()
    assert worker.wait(60) == 0
    assert "package replaced" in (world.home / "logs" / "worker.log").read_text("utf-8")
    turns += send(world, session, 1)
    world.drain("--wait")
    assert world.entries() == turns


def test_a_killed_rebuild_and_a_killed_index_leave_everything_answering(world, session):
    turns = send(world, session, 2)
    world.drain()
    for command in (("events", "rebuild"), ("index", "--force")):
        for delay in (0.05, 0.3, 0.6, 0.9):
            running = world.start(*command)
            time.sleep(delay)
            running.kill()
            running.wait()
            assert {each["turn"] for each in world.search("topic1 topic0 now")} == set(turns)
    world.drain()
    assert {each["turn"] for each in world.search("topic1 topic0 now")} == set(turns)


def test_no_text_of_a_turn_is_in_the_logs(modelled, session, stub):
    stub.order("500", "prose")
    send(modelled, session, 2)
    modelled.drain("--wait")
    logs = "".join(path.read_text("utf-8") for path in (modelled.home / "logs").iterdir())
    assert "topic0" not in logs
    assert "Look into" not in logs
