"""Cases from the field, one by one: what others' tools of this kind got wrong."""

import contextlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from stub_llm import StubLLM
from world import COMMAND, Session, World


@pytest.fixture
def stub():
    with StubLLM() as running:
        yield running


@pytest.fixture
def worker(world):
    """A worker that lives and listens."""
    started = world.start("workers", "--foreground")
    world.wait_for(lambda: listens(world))
    return started


def listens(world: World) -> bool:
    done = world.run("workers", "status", "--json", check=None)
    return bool(json.loads(done.stdout)["listening"])


def socket_path(world: World) -> str:
    from memsearch.config.paths import Home

    return Home(str(world.home)).socket


def write(world: World, name: str, text: str) -> Path:
    path = world.memory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


# -- hooks --------------------------------------------------------------------------------------


def test_a_stop_after_the_sessions_end_is_an_entry_all_the_same(world, session):
    turn = session.turn("Is a job bound to its session?", "No, it lives in the log.")
    world.hook(session.payload("SessionEnd", reason="other"))
    world.hook(session.payload(turn=turn))
    world.drain()
    assert world.entries() == [turn]


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"session_id": "x", "transcript_path": "/no/such/file.jsonl", "hook_event_name": "Stop"},
        {"session_id": "x", "transcript_path": "/", "hook_event_name": "Stop"},
        {"session_id": 5, "transcript_path": ["a"], "stop_hook_active": True},
        {"session_id": "x" * 5000, "transcript_path": "/t\u0000", "hook_event_name": "Stop"},
    ],
    ids=["empty", "missing", "a folder", "wrong types", "odd texts"],
)
def test_a_hook_says_nothing_that_could_wake_the_agent_again(world, payload):
    done = world.hook(payload)
    assert (done.returncode, done.stdout) == (0, "{}\n")
    world.drain("--wait", check=None)
    assert world.status()["turns"] == {}


def test_a_hook_that_starts_a_worker_holds_no_output_open(world, session):
    world.settings["MEMSEARCH_WORKERS__AUTOSTART"] = "true"
    turn = session.turn("Does the agent wait for the worker?", "Only for the hook.")
    payload = world.root / "payload.json"
    payload.write_text(json.dumps(session.payload(turn=turn)), encoding="utf-8")
    shell = '"$@" < "$PAYLOAD" | cat; echo done'
    done = subprocess.run(
        ["sh", "-c", shell, "sh", *COMMAND, "enqueue", "--platform", "claude-code"],
        env=world.environ | {"PAYLOAD": str(payload)},
        capture_output=True,
        timeout=20,
        check=True,
    )
    assert done.stdout == b"{}\ndone\n"
    world.wait_for(lambda: world.memory.exists() and world.entries() == [turn])


def test_a_last_message_of_five_megabytes_is_an_entry(world, session):
    turn = session.ask("Print the whole log please")
    world.hook(session.payload(turn=turn, last_assistant_message="line of the log\n" * 330_000))
    world.drain("--wait")
    assert world.entries() == [turn]


def test_an_environment_with_nothing_in_it_is_enough_for_a_hook(world, session):
    turn = session.turn("What does a bare environment change?", "Nothing at all.")
    bare = {"PATH": os.environ["PATH"], "MEMSEARCH_HOME": str(world.home)}
    bare |= {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    bare["MEMSEARCH_WORKERS__AUTOSTART"] = "false"
    done = subprocess.run(
        [*COMMAND, "enqueue", "--platform", "claude-code"],
        input=json.dumps(session.payload(turn=turn)).encode(),
        env=bare,
        capture_output=True,
        timeout=20,
        check=True,
    )
    assert done.stdout == b"{}\n"
    world.drain()
    assert world.entries() == [turn]


def test_the_last_line_that_is_written_after_the_hook_is_waited_for(world, session):
    turn = session.ask("What was the cause of the flaky test?")
    world.hook(session.payload(turn=turn))
    late = threading.Timer(0.6, session.answer, ("A clock that was not frozen.",))
    late.start()
    world.drain()
    late.join()
    assert world.entries() == [turn]
    assert "not frozen" in world.journal()


def test_a_hook_of_a_turn_that_was_captured_late_leaves_no_dead_letter(world, session, worker):
    session.turn("A first question to begin with", "An answer to begin with.")
    hidden = session.path.with_suffix(".later")
    session.path.rename(hidden)
    turn = "00000000-0000-4000-8000-000000000001"
    world.hook(session.payload(turn=turn))
    world.wait_for(lambda: world.sql("SELECT 1 FROM hooks WHERE state = 'dead'"))
    hidden.rename(session.path)
    session.turn("The question of the late file", "Its answer.", turn=turn)
    second = session.turn("And the next question", "And the next answer.")
    world.hook(session.payload(turn=second))
    world.wait_for(lambda: not world.sql("SELECT 1 FROM hooks WHERE state <> 'done'"))
    assert {turn, second} <= set(world.entries())
    assert json.loads(world.run("dead-letter", "list", "--json").stdout) == []


def test_our_own_summaries_are_never_captured(world):
    from memsearch.pipeline.summarizers import prompt

    mine = Session(world)
    words = f"{prompt.PROMPT_MARK}\n\n{prompt.FENCE_START}\nuser:\n| hello\n{prompt.FENCE_END}"
    turn = mine.turn(words, "- A note\n- Another note")
    world.hook(mine.payload(turn=turn))
    other = Session(world)
    kept = other.turn("A real question of a person", "A real answer to it.")
    world.hook(other.payload(turn=kept))
    world.drain("--wait", check=None)
    assert world.entries() == [kept]


def test_sessions_without_a_turn_make_no_journal(world):
    for _ in range(3):
        world.hook(Session(world).payload("SessionStart", source="startup"))
    world.drain()
    assert not world.memory.exists()
    assert world.status()["state"] == "ok"


def test_trivial_turns_are_counted_and_not_kept(world, session):
    for words, reply in (("ok", "Fine."), ("HEARTBEAT", "HEARTBEAT_OK"), ("thanks", "Welcome!")):
        world.hook(session.payload(turn=session.turn(words, reply)))
    world.drain()
    assert not world.memory.exists()
    assert sum(world.status()["skipped"].values()) == 3


# -- the queue ----------------------------------------------------------------------------------


def test_thousands_of_old_dead_letters_cost_a_worker_nothing(world, session):
    world.hook(session.payload("SessionStart", source="startup"))
    world.drain()
    with contextlib.closing(sqlite3.connect(world.home / "state.db")) as db:
        for number in range(3000):
            stream, at = f"turn:claude-code:old{number}", "2026-01-01T10:00:00.000Z"
            facts = {
                "platform": "claude-code",
                "turn": f"old{number}",
                "session": "s",
                "day": "2026-01-01",
                "time": "10:00",
                "at": at,
            }
            failure = {"stage": "summarize", "error_class": "server", "attempts": 5}
            insert = "INSERT INTO events(id, stream, type, at, data) VALUES (?, ?, ?, ?, ?)"
            for kind, data in (("TurnCaptured", facts), ("DeadLettered", failure)):
                db.execute(insert, (f"{kind}{number}", stream, kind, at, json.dumps(data)))
        db.commit()
    world.run("events", "rebuild")
    assert world.status()["dead_letters"]["total"] == 3000
    worker = world.start("workers", "--foreground")
    world.wait_for(lambda: listens(world))
    time.sleep(2)
    before = cpu_seconds(worker.pid)
    time.sleep(4)
    assert cpu_seconds(worker.pid) - before < 0.6
    world.run("dead-letter", "discard", "--older", "7d")
    assert world.status()["dead_letters"]["total"] == 0


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_hook_that_comes_while_somebody_asks_for_the_worker_still_starts_one(world, session):
    world.settings["MEMSEARCH_WORKERS__AUTOSTART"] = "true"
    world.hook(session.payload("SessionStart", source="startup"), MEMSEARCH_WORKERS__AUTOSTART="0")
    from memsearch.config import worker_lock
    from memsearch.config.paths import Home

    os.close(worker_lock.take_lock(Home(str(world.home))))
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            worker_lock.is_held(Home(str(world.home)))

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        turn = session.turn("Who starts the worker now?", "The hook does, as ever.")
        world.hook(session.payload(turn=turn))
        world.wait_for(lambda: world.memory.exists() and world.entries() == [turn])
    finally:
        over.set()
        asking.join()


def test_a_worker_whose_lock_file_was_deleted_makes_room(world, session, worker):
    shutil.rmtree(world.home / "run")
    assert worker.wait(20) == 0
    turn = session.turn("Who is the worker now?", "A new one.")
    world.hook(session.payload(turn=turn), MEMSEARCH_WORKERS__AUTOSTART="true")
    world.wait_for(lambda: world.memory.exists() and world.entries() == [turn])


def test_a_worker_that_starts_while_the_log_is_held_waits_for_it(world, session):
    turn = session.turn("What if another program holds the log?", "It is waited for.")
    world.hook(session.payload(turn=turn))
    held = sqlite3.connect(world.home / "state.db", isolation_level=None)
    held.execute("BEGIN IMMEDIATE")
    worker = world.start("workers", "--foreground")
    time.sleep(18)  # longer than one connection waits
    assert worker.poll() is None
    held.execute("ROLLBACK")
    held.close()
    world.wait_for(lambda: world.memory.exists() and world.entries() == [turn])


def test_a_file_that_cannot_be_taken_out_of_the_spool_holds_nothing_up(world, session):
    (world.home / "spool" / "0.json").mkdir(parents=True)
    turn = session.turn("What does a stuck file in the spool hold up?", "Only itself.")
    world.hook(session.payload(turn=turn))
    world.start("workers", "--foreground")
    world.wait_for(lambda: world.memory.exists() and world.entries() == [turn])
    log = (world.home / "logs" / "worker.log").read_text("utf-8")
    assert log.count('"spool_failed"') == 1


def test_a_first_hook_that_was_killed_too_early_leaves_a_home_that_works(world, session):
    (world.home / "state.db").touch()
    turn = session.turn("What is an empty log?", "A new one.")
    payload = session.payload(turn=turn)
    (world.home / "spool").mkdir(exist_ok=True)
    record = {
        "id": "1" * 32,
        "at": "2026-03-03T10:00:00.000Z",
        "data": {
            "platform": "claude-code",
            "session": session.id,
            "path": payload["transcript_path"],
            "cwd": payload["cwd"],
            "turn": turn,
            "event": "Stop",
        },
        "message": None,
    }
    (world.home / "spool" / "a.json").write_text(json.dumps(record), encoding="utf-8")
    world.drain()
    assert world.entries() == [turn]


def test_stopping_names_nobody_elses_process(world, session):
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        from memsearch.config import worker_lock
        from memsearch.config.paths import Home

        home = Home(str(world.home))
        home.create()
        Path(home.worker_lock).write_text(str(bystander.pid), encoding="ascii")
        # A hook has taken the lock for a worker that has not come up yet.
        lock = worker_lock.take_lock(home)
        threading.Timer(1.0, os.close, (lock,)).start()
        assert world.run("workers", "stop").stdout.strip() == "no worker runs"
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


# -- the service --------------------------------------------------------------------------------


def test_fifty_questions_at_once_are_all_answered(world, session):
    turn = session.turn("Why is the cache keyed by content?", "So that moved text is known.")
    world.hook(session.payload(turn=turn))
    world.drain()
    worker = world.start("workers", "--foreground")
    world.wait_for(lambda: listens(world))
    from memsearch.recall import client

    request = {"cwd": str(world.project), "environ": {}, "query": "cache keyed", "top_k": 3}
    path = socket_path(world)
    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(lambda _: client.ask(path, "search", request), range(150)))
    assert {answer["results"][0]["turn"] for answer in answers} == {turn}
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(10) == 0


def test_clients_that_never_send_neither_block_others_nor_the_end(world, session, worker):
    path = socket_path(world)
    silent = []
    for begun in (
        b"",
        b"POST /v1/search HTTP/1.1\r\nContent-Length: 100\r\n\r\n{",
        b"\x00\xff",
    ) * 20:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(path)
        connection.sendall(begun)
        silent.append(connection)
    try:
        assert world.search("anything") == []
        started = time.monotonic()
        world.run("workers", "stop")
        assert time.monotonic() - started < 10
        assert worker.wait(1) == 0
    finally:
        for connection in silent:
            connection.close()


def test_a_huge_request_is_refused_and_costs_no_memory(world, worker):
    before = resident_mib(worker.pid)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(socket_path(world))
        connection.sendall(
            b"POST /v1/search HTTP/1.1\r\nHost: x\r\nContent-Length: 300000000\r\n\r\n"
        )
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(300):
                connection.sendall(b" " * 1_000_000)
        with contextlib.suppress(ConnectionResetError):
            assert b" 400 " in connection.recv(4096).split(b"\r\n")[0]
    assert resident_mib(worker.pid) - before < 60
    assert world.search("anything") == []


def resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def test_a_home_too_long_for_a_socket_is_asked_all_the_same(tmp_path, models_dir):
    world = World(tmp_path / ("a-long-name" * 12), models_dir)
    session = Session(world)
    turn = session.turn("How long may a path be?", "As long as you like.")
    world.hook(session.payload(turn=turn))
    world.drain()
    world.start("workers", "--foreground")
    try:
        world.wait_for(lambda: listens(world))
        assert [each["turn"] for each in world.search("how long path")] == [turn]
    finally:
        world.stop()


def test_a_home_that_cannot_listen_still_captures(world, session):
    place = Path(socket_path(world))
    place.mkdir(parents=True)
    (place / "x").touch()
    turn = session.turn("What if no socket can be made?", "Notes are taken all the same.")
    world.hook(session.payload(turn=turn))
    world.start("workers", "--foreground")
    world.wait_for(lambda: world.memory.exists() and world.entries() == [turn])
    assert not listens(world)
    world.stop()
    shutil.rmtree(place)


# -- the index ----------------------------------------------------------------------------------


def test_indexing_one_folder_forgets_nothing_of_another(world, worker):
    first, second = world.root / "A", world.root / "B"
    for folder in (first, second):
        folder.mkdir()
        for name in ("x", "y"):
            (folder / f"{name}.md").write_text(f"# {folder.name}\n\nabout {folder.name}{name}\n")
    world.run("index", str(first), str(second))
    (first / "x.md").unlink()
    world.run("index", str(second))
    assert sources(world, "Ax") >= {"x.md"}
    world.run("index", str(first))
    assert [name for name in found(world) if name.endswith("A/x.md")] == []
    assert len(found(world)) == 3


def found(world: World) -> list[str]:
    return [path for (path,) in world.sql("SELECT path FROM documents WHERE state = 'done'")]


def sources(world: World, query: str) -> set[str]:
    return {os.path.basename(each["source"]) for each in world.search(query, "-k", "10")}


def test_a_file_that_goes_comes_back_and_goes_again(world, worker):
    path = write(world, "note.md", "# Note\n\nzanzibar spices\n")
    other = write(world, "other.md", "# Other\n\nnothing else\n")
    for _ in range(2):
        world.run("index")
        assert "note.md" in sources(world, "zanzibar")
        path.rename(path.with_suffix(".away"))
        world.run("index")
        assert "note.md" not in sources(world, "zanzibar")
        path.with_suffix(".away").rename(path)
    world.run("index")
    world.run("index")
    assert "note.md" in sources(world, "zanzibar")
    assert other.exists()


def test_odd_files_stop_no_other_and_editors_files_are_no_documents(world, worker):
    write(world, "good.md", "# Good\n\nquartz crystal\n")
    (world.memory / "bytes.md").write_bytes(b"# Bytes\n\ninvalid \xff\xfe here obsidian\n")
    (world.memory / "bom.md").write_bytes("\ufeff# Bom\r\n\r\nmalachite\r\n".encode())
    for name in (".x.md.swp", "x.md~", "x.tmp", ".#x.md", "4913", "#x.md#"):
        (world.memory / name).write_text("# Temp\n\nquartz crystal\n", encoding="utf-8")
    world.run("index")
    assert sources(world, "quartz crystal") <= {"good.md", "bytes.md", "bom.md"}
    assert "bytes.md" in sources(world, "obsidian")
    assert "bom.md" in sources(world, "malachite")


def test_a_question_without_an_answer_changes_nothing(world):
    write(world, "note.md", "# Note\n\na single line\n")
    world.run("index")
    before = snapshot(world)
    world.search("xyzzy plugh nonsense")
    assert snapshot(world) == before


def snapshot(world: World) -> dict[str, tuple[int, int]]:
    files = [path for path in (world.home / "milvus.db").rglob("*") if path.is_file()]
    files.append(world.home / "state.db")
    # A lock's file is opened by whoever reads; it says nothing about the rows.
    return {
        str(path): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in files
        if "lock" not in path.name.lower()
    }


def test_searching_before_anything_was_indexed_and_after_all_is_gone(world, worker):
    assert world.search("anything") == []
    path = write(world, "note.md", "# Note\n\nonly this\n")
    world.run("index")
    path.unlink()
    world.run("index")
    assert world.search("only this") == []


def test_an_index_that_is_killed_again_and_again_always_answers(world):
    for number in range(12):
        write(world, f"n{number}.md", f"# N{number}\n\nword{number} of the first time\n")
    world.run("index")
    for number in range(5):
        write(world, f"n{number}.md", f"# N{number}\n\nword{number} of another time\n")
        running = world.start("index", "--force")
        time.sleep(0.3 + 0.25 * number)
        running.kill()
        running.wait()
        assert "n7.md" in sources(world, "word7")
    world.run("index")
    assert "n3.md" in sources(world, "word3 another time")


def test_a_hundred_searches_beside_twenty_writes(world, worker):
    write(world, "base.md", "# Base\n\ngranite foundation\n")
    world.run("index")
    from memsearch.recall import client

    request = {"cwd": str(world.project), "environ": {}, "query": "granite foundation"}
    path = socket_path(world)

    def change(number: int) -> None:
        write(world, f"n{number}.md", f"# N\n\nbasalt number {number}\n")
        client.ask(path, "index", {"cwd": str(world.project), "environ": {}})

    with ThreadPoolExecutor(12) as pool:
        changes = [pool.submit(change, number) for number in range(20)]
        searches = [pool.submit(client.ask, path, "search", request) for _ in range(100)]
        for each in (*changes, *searches):
            each.result()
    assert all(each.result()["results"] for each in searches)
    world.drain()
    assert len(found(world)) == 21


def test_a_slow_embedder_gets_all_turns_in_the_end_and_a_broken_one_is_said(world, stub):
    stub.embeddings_default = "slow:0.3"
    world.settings |= {
        "MEMSEARCH_EMBEDDING__PROVIDER": "openai",
        "MEMSEARCH_EMBEDDING__BASE_URL": stub.openai_url,
        "MEMSEARCH_EMBEDDING__API_KEY": "sk-test",
        "MEMSEARCH_EMBEDDING__MODEL": "stub-embed",
        "MEMSEARCH_RETRY__BASE_SECONDS": "0.3",
    }
    session = Session(world)
    worker = world.start("workers", "--foreground")
    turns = []
    for number in range(15):
        turn = session.turn(f"Question {number} about the tide", f"Answer {number} about the moon.")
        world.hook(session.payload(turn=turn))
        turns.append(turn)
    world.wait_for(
        lambda: (
            world.sql("SELECT COUNT(*) FROM turns WHERE state = 'done'") == [(15,)]
            and not world.sql("SELECT 1 FROM documents WHERE state = 'open'")
        )
    )
    # Each write of the journal asks at most once, however many turns are on their way.
    assert {each["turn"] for each in world.search("tide moon", "-k", "15")} == set(turns)
    stub.embeddings_default = "500"
    last = session.turn("What happens when it breaks?", "Then it is said.")
    world.hook(session.payload(turn=last))
    world.wait_for(lambda: world.status()["state"] == "degraded")
    assert any("embed" in reason for reason in world.status()["reasons"])
    assert worker.poll() is None


def test_a_milvus_that_was_away_gets_what_it_missed_by_itself(world, session):
    world.settings |= {
        "MEMSEARCH_MILVUS__URI": "http://127.0.0.1:9",
        "MEMSEARCH_RETRY__BASE_SECONDS": "0.1",
        "MEMSEARCH_RETRY__ATTEMPTS": "2",
    }
    turn = session.turn("Is a document lost while Milvus is down?", "No, it is a dead letter.")
    world.hook(session.payload(turn=turn))
    world.drain("--wait", check=1)
    letter = json.loads(world.run("dead-letter", "list", "--json").stdout)[0]
    assert (letter["stage"], letter["reason"]) == ("upsert", "network")
    assert world.entries() == [turn]
    del world.settings["MEMSEARCH_MILVUS__URI"]
    world.start("workers", "--foreground")
    world.wait_for(lambda: json.loads(world.run("dead-letter", "list", "--json").stdout) == [])
    world.wait_for(lambda: not world.sql("SELECT 1 FROM documents WHERE state <> 'done'"))
    assert [each["turn"] for each in world.search("Milvus down document")] == [turn]


@pytest.fixture
def read_only(tmp_path):
    """A folder whose file system can be made read-only, as root; else it is not run."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a file system cannot be mounted here")

    def remount(how: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{how}", str(folder)], check=True)

    yield folder, remount
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_home_that_cannot_be_written_stops_no_agent_and_is_said(world, session, read_only):
    folder, remount = read_only
    world.home = folder / "home"
    first = session.turn("Is this home writable?", "For the moment it is.")
    world.hook(session.payload(turn=first))
    remount("ro")
    second = session.turn("And is it now?", "Not any more.")
    done = world.hook(session.payload(turn=second))
    assert done.stdout == "{}\n"
    assert "not stored" in done.stderr
    assert "Traceback" not in done.stderr
    for command in (("status",), ("workers", "--drain"), ("dead-letter", "list")):
        refused = world.run(*command, check=None)
        assert "Traceback" not in refused.stderr
        assert refused.returncode in (0, 1)
    remount("rw")
    (world.home / "models").symlink_to(world.models) if not (world.home / "models").exists() else 0
    third = session.turn("And again?", "Again it is.")
    world.hook(session.payload(turn=third))
    world.drain()
    assert world.entries() == [first, second, third]
