"""The first turn, the whole way: hook, worker, journal, index, recall."""

import json
import subprocess
import threading

import pytest
from stub_llm import StubLLM
from world import COMMAND, Session


def test_a_turn_is_journaled_indexed_and_found(world, session):
    words = "Why does refreshToken() fail with E1042 in src/auth/login.ts?"
    turn = session.turn(
        words, "The clock is skewed by 90 s.", command="pytest -k 'auth and not slow'"
    )
    assert world.hook(session.payload(turn=turn)).stdout == "{}\n"
    counts = world.drain()
    assert (counts["captured"], counts["appended"], counts["waiting"]) == (1, 1, 0)

    journal = world.journal()
    day = session.at.strftime("%Y-%m-%d")
    assert [path.name for path in world.memory.glob("*.md")] == [f"{day}.md"]
    assert journal.startswith(f"# {day}\n")
    anchor = f"<!-- session:{session.id} turn:{turn} transcript:"
    assert journal.count(anchor) == 1
    bullets = [line for line in journal.splitlines() if line.startswith("- ")]
    assert 2 <= len(bullets) <= 6
    assert "refreshToken" in journal

    for question in ("E1042", "refresh token", "src/auth/login.ts"):
        best = world.search(question)[0]
        assert best["turn"] == turn, question
        assert best["ranks"]["keyword"] == 1, question
    shown = world.run("expand", best["chunk_hash"]).stdout
    assert anchor in shown
    assert all(bullet in shown for bullet in bullets)
    talk = world.run("transcript", best["chunk_hash"]).stdout
    assert "pytest -k 'auth and not slow'" in talk
    assert "The clock is skewed by 90 s." in talk


def test_a_chinese_question_of_two_words_finds_its_entry_by_keywords_alone(world, session):
    for number in range(3):
        session.turn(f"Rename variable number {number} please, everywhere", "Renamed it.")
    turn = session.turn(
        "修复 GitHub 备份脚本上传超时的问题", "已把超时改为 300 秒，备份脚本恢复正常。"
    )
    world.hook(session.payload(turn=turn))
    world.drain()
    found = world.search("备份 脚本")
    assert found[0]["turn"] == turn
    assert found[0]["ranks"]["keyword"] == 1


def test_the_same_payload_again_and_six_at_once_leave_one_entry_and_one_call(world, session):
    turn = session.turn("Explain the retry policy of the mail queue", "Five tries, half an hour.")
    with StubLLM() as stub:
        settings = {
            "MEMSEARCH_SUMMARIZE__PROVIDER": "openai",
            "MEMSEARCH_SUMMARIZE__BASE_URL": stub.openai_url,
            "MEMSEARCH_SUMMARIZE__API_KEY": "sk-test",
            "MEMSEARCH_SUMMARIZE__MODEL": "stub",
        }
        world.settings |= settings
        for _ in range(2):
            world.hook(session.payload(turn=turn))
        world.drain()
        hooks = [
            threading.Thread(target=world.hook, args=(session.payload(turn=turn),))
            for _ in range(6)
        ]
        for hook in hooks:
            hook.start()
        for hook in hooks:
            hook.join()
        world.drain()
        assert world.sql("SELECT COUNT(*) FROM events WHERE type = 'HookReceived'") == [(8,)]
        assert stub.calls("chat") == 1
    assert world.entries() == [turn]


def test_with_workers_search_asks_them_and_without_it_answers_by_itself(world, session):
    turn = session.turn("Which port does the staging database listen on?", "It listens on 6543.")
    world.hook(session.payload(turn=turn))
    world.drain()

    def found_by_all(number: int) -> None:
        outcomes: list[list[dict]] = []
        askers = [
            threading.Thread(target=lambda: outcomes.append(world.search("staging database port")))
            for _ in range(number)
        ]
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join()
        assert [found[0]["turn"] for found in outcomes] == [turn] * number

    found_by_all(5)
    world.run("workers", "start")
    answered = "SELECT COUNT(*) FROM events"
    before = world.sql(answered)
    found_by_all(20)
    assert world.sql(answered) == before, "reading never writes"
    # The worker holds Milvus Lite: only through its socket can anybody have read it.
    assert json.loads(world.run("workers", "status", "--json").stdout)["listening"]
    world.run("workers", "stop")
    found_by_all(1)


def test_a_hook_starts_one_worker_that_does_all_the_rest(world, session):
    turn = session.turn("Where do we keep the feature flags?", "In config/flags.toml.")
    world.settings["MEMSEARCH_WORKERS__AUTOSTART"] = "true"
    payload = json.dumps(session.payload(turn=turn))
    hooks = [
        subprocess.Popen(
            [*COMMAND, "enqueue", "--platform", "claude-code"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=world.project,
            env=world.environ,
        )
        for _ in range(10)
    ]
    # The pipe ends with the hook, though the worker that one of them started lives on.
    assert [hook.communicate(payload.encode(), timeout=60)[0] for hook in hooks] == [b"{}\n"] * 10
    world.wait_for(lambda: world.memory.exists() and world.entries() == [turn])
    log = (world.home / "logs" / "worker.log").read_text("utf-8")
    assert log.count('"worker_started"') == 1
    world.wait_for(lambda: world.search("feature flags")[:1] != [])


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_the_locale_changes_nothing(world, session, locale):
    turn = session.turn("把日志级别改成 debug 并解释原因", "已改为 debug，便于排查。")
    environ = {"LC_ALL": locale, "LANG": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    world.hook(session.payload(turn=turn), **environ)
    world.drain(**environ)
    assert "日志级别" in world.journal()
    assert world.search("日志级别", **environ)[0]["turn"] == turn


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ("", "empty"),
        ("{", "not JSON"),
        ("[]", "not an object"),
        ('{"cwd": "/x"}', "session_id"),
        (b"\xff\xfe\x00", "not JSON"),
    ],
)
def test_malformed_input_is_said_and_stops_no_agent(world, payload, reason):
    done = world.run("enqueue", "--platform", "claude-code", stdin=payload)
    assert done.stdout == "{}\n"
    assert reason in done.stderr
    assert reason in (world.home / "logs" / "hooks.log").read_text("utf-8")
    strict = world.run("enqueue", "--platform", "claude-code", "--strict", stdin=payload, check=2)
    assert reason in strict.stderr


def test_a_transcript_that_does_not_exist_becomes_a_dead_letter_that_can_be_replayed(
    world, session
):
    turn = "7b0c5e3e-0000-4000-8000-000000000001"
    world.hook(session.payload(turn=turn, last_assistant_message="the end"))
    assert world.drain(check=1)["dead"] == 1
    letters = json.loads(world.run("dead-letter", "list", "--json").stdout)
    assert letters[0]["stage"] == "capture"
    assert str(session.path) in letters[0]["error"]
    session.turn("What was that about the missing transcript?", "the end", turn=turn)
    world.run("dead-letter", "replay", letters[0]["id"])
    world.drain()
    assert world.entries() == [turn]


def test_hooks_of_a_session_without_a_word_are_no_fault(world, session):
    for event in ("SessionStart", "UserPromptSubmit", "SessionEnd"):
        world.hook(session.payload(event, turn="7b0c5e3e-0000-4000-8000-000000000002"))
    counts = world.drain()
    assert (counts["captured"], counts["dead"]) == (0, 0)
    assert world.status()["state"] == "ok"
    assert not world.memory.exists()


def test_a_torn_last_line_is_read_when_it_is_whole(world, session):
    turn = session.ask("Which linter do we run in the pre-commit hook?")
    session.answer("We run ruff, with the settings of pyproject.toml.")
    whole = session.path.read_bytes()
    session.path.write_bytes(whole[:-40])
    world.hook(session.payload(turn=turn))
    worker = world.start("workers", "--drain")
    session.path.write_bytes(whole)
    worker.wait(60)
    assert world.entries() == [turn]
    assert "ruff" in world.journal()


def test_the_last_message_of_the_payload_stands_in_for_a_line_that_never_comes(world, session):
    turn = session.ask("Which linter do we run in the pre-commit hook?")
    world.hook(session.payload(turn=turn, last_assistant_message="It is ruff, version nine."))
    world.drain()
    assert world.entries() == [turn]
    assert "ruff, version nine" in world.journal()
    assert world.sql("SELECT body FROM payloads WHERE body LIKE '%version nine.'") == []


def test_invalid_utf8_in_a_transcript_loses_nothing_around_it(world, session):
    turn = session.turn("Check the encoding of the import file", "It is latin-1.")
    data = session.path.read_bytes().replace(b"latin-1", b"latin-1 \xff\xfe")
    session.path.write_bytes(b"\x00\xff garbage\n" + data)
    world.hook(session.payload(turn=turn))
    world.drain()
    assert world.entries() == [turn]


def test_an_unreadable_transcript_is_named(world, session):
    turn = session.turn("Anything at all to remember", "Yes, a thing.")
    session.path.unlink()
    session.path.mkdir()
    world.hook(session.payload(turn=turn))
    world.drain(check=1)
    letters = json.loads(world.run("dead-letter", "list", "--json").stdout)
    assert [str(session.path) in letter["error"] for letter in letters] == [True]


def test_an_unknown_key_stops_a_person_and_not_a_capture(world, session):
    (world.home / "config.toml").write_text("[serch]\ntop_k = 3\n", encoding="utf-8")
    turn = session.turn("Does a broken configuration lose turns?", "No, defaults are used.")
    world.hook(session.payload(turn=turn))
    world.drain()
    assert world.entries() == [turn]
    refused = world.run("search", "broken configuration", check=2)
    assert "serch" in refused.stderr
    assert "search" in refused.stderr
    status = world.status()
    assert any("serch" in reason for reason in status["reasons"])


def test_while_the_rules_of_the_user_cannot_be_read_nothing_is_captured(world, session):
    """A broken file must not switch redact.patterns off, nor lose a turn."""
    config = world.home / "config.toml"
    rule = "[redact]\npatterns = ['ACME-[0-9]{4}']\n"
    config.write_text(rule + "[capture\n", encoding="utf-8")
    key = "ghp_" + "Zq7" * 12
    said = f"The ticket is ACME-4711 and the key {key}."
    turn = session.turn("Which ticket is it that we work on?", said)
    world.hook(session.payload(turn=turn, last_assistant_message=said))
    world.run("workers", "start")

    def reasons() -> str:
        return " ".join(world.status()["reasons"])

    world.wait_for(lambda: "wait until the configuration is mended" in reasons())
    assert not world.memory.exists()
    (waiting,) = world.status()["waiting"]
    assert (waiting["stage"], waiting["count"]) == ("capture", 1)
    assert "1 hooks and 0 turns wait until the configuration is mended" in reasons()
    assert "config.toml" in reasons()
    # What the hook brought waits without what the built-in rules know.
    logs = [*world.home.glob("state.db*")]
    world.wait_for(lambda: all(key.encode() not in path.read_bytes() for path in logs))
    # A mistake in a rule holds it up as well as a file that is no TOML.
    config.write_text("[redact]\npatterns = 'ACME-[0-9]{4}'\n", encoding="utf-8")
    world.wait_for(lambda: "redact.patterns" in reasons())
    assert not world.memory.exists()
    config.write_text(rule, encoding="utf-8")
    world.wait_for(lambda: world.memory.exists() and world.entries() == [turn])
    assert "ACME-4711" not in world.journal()
    assert world.journal().count("[redacted:custom]") == 1
    assert world.status()["dead_letters"]["total"] == 0


def test_memsearch_dir_moves_files_and_collection_together(world, session):
    elsewhere = world.root / "elsewhere 别处"
    turn = session.turn("Put the memory somewhere else please", "It is elsewhere now.")
    environ = {"MEMSEARCH_DIR": str(elsewhere)}
    world.hook(session.payload(turn=turn), **environ)
    world.drain()
    assert not world.memory.exists()
    assert turn in "".join(path.read_text("utf-8") for path in elsewhere.rglob("*.md"))
    assert world.search("memory elsewhere", **environ)[0]["turn"] == turn
    assert world.search("memory elsewhere") == []
    stats = json.loads(world.run("stats", "--json", **environ).stdout)
    assert (stats["documents"], stats["chunks"]) == (1, 1)


def test_two_projects_do_not_see_each_other(world, session):
    other = world.root / "other"
    other.mkdir()
    turn = session.turn("The secret ingredient is cardamom, remember it", "Noted: cardamom.")
    world.hook(session.payload(turn=turn))
    world.drain()
    assert world.search("cardamom", cwd=other) == []
    assert world.search("cardamom", "--all-projects", cwd=other)[0]["turn"] == turn
    deep = world.project / "src" / "deep"
    deep.mkdir(parents=True)
    assert world.search("cardamom", cwd=deep)[0]["turn"] == turn


def test_disabled_or_internal_hooks_do_nothing(world, session):
    turn = session.turn("Nothing of this is to be kept", "Nothing is.")
    for name in ("MEMSEARCH_DISABLE", "MEMSEARCH_INTERNAL"):
        assert world.hook(session.payload(turn=turn), **{name: "1"}).stdout == "{}\n"
    assert not (world.home / "state.db").exists()


def test_reset_drops_the_index_and_index_makes_it_anew(world, session):
    turn = session.turn("How is the cache invalidated on deploy?", "By a version prefix.")
    world.hook(session.payload(turn=turn))
    world.drain()
    before = world.journal()
    world.run("reset", "--yes")
    assert json.loads(world.run("stats", "--json").stdout)["chunks"] == 0
    world.run("index")
    assert world.search("cache invalidated on deploy")[0]["ranks"]["dense"] == 1
    assert world.journal() == before


def test_the_second_session_of_a_day_gets_its_own_heading(world):
    first, second = Session(world), Session(world)
    for session in (first, second, first):
        turn = session.turn(f"A question of {session.id} about logging", "An answer to it.")
        world.hook(session.payload(turn=turn))
        world.drain()
    assert world.journal().count("## Session ") == 3
