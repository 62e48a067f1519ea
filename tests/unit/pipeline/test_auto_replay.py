"""What a recovered provider owes is replayed, a turn's own fault is not."""

from builders import captured, died, summarized, write

from memsearch.pipeline import dead_letters
from memsearch.pipeline.auto_replay import MAX_PROBE_SECONDS, WINDOW_SECONDS, AutoReplay

NOW = 1_800_000_000.0


def dead(log) -> list[str]:
    return [letter.stream.rsplit(":", 1)[1] for letter in dead_letters.dead_letters(log)]


def test_a_success_after_the_outage_brings_all_of_it_back(log):
    for turn in ("a", "b", "c"):
        write(log, captured(turn, NOW), died(turn, NOW))
    write(log, captured("new", NOW), summarized("new", NOW + 1))
    assert AutoReplay(log).look(60, NOW + 2) == 3
    assert dead(log) == []
    assert log.value("SELECT COUNT(*) FROM task WHERE CAST(data AS TEXT) LIKE '%summarize%'") == 3


def test_a_success_before_the_deaths_proves_nothing(log):
    write(log, captured("old", NOW), summarized("old", NOW))
    write(log, captured("a", NOW), died("a", NOW + 1))
    assert AutoReplay(log).look(60, NOW + 2) == 0


def test_a_refused_turn_is_left_to_a_person(log):
    write(log, captured("a", NOW), died("a", NOW, kind="refused"))
    write(log, captured("new", NOW), summarized("new", NOW + 1))
    assert AutoReplay(log).look(60, NOW + 2) == 0
    assert dead(log) == ["a"]


def test_a_letter_older_than_the_window_is_left_to_a_person(log):
    write(log, captured("a", NOW), died("a", NOW - WINDOW_SECONDS - 10))
    write(log, captured("new", NOW), summarized("new", NOW))
    assert AutoReplay(log).look(60, NOW) == 0


def test_without_any_new_turn_one_letter_is_sent_ahead_after_the_wait(log):
    for turn in ("a", "b"):
        write(log, captured(turn, NOW), died(turn, NOW))
    replay = AutoReplay(log)
    assert replay.look(0.0, NOW) == 0  # the first look only sets the clock
    assert replay.look(0.0, NOW + 1) == 1
    assert dead(log) == ["b"]
    assert replay.look(0.0, NOW + 2) == 0, "one at a time"


def test_a_letter_that_dies_among_successes_is_not_replayed_again_and_again(log):
    replay = AutoReplay(log)
    write(log, captured("poison", NOW), died("poison", NOW))
    write(log, captured("x", NOW), summarized("x", NOW + 1))
    assert replay.look(60, NOW + 2) == 1
    write(log, captured("y", NOW), summarized("y", NOW + 3))
    write(log, died("poison", NOW + 4))
    write(log, captured("z", NOW), summarized("z", NOW + 5))
    for second in range(5):
        assert replay.look(60, NOW + 6 + second) == 0
    assert dead(log) == ["poison"]


def test_a_second_outage_owes_again(log):
    replay = AutoReplay(log)
    write(log, captured("a", NOW), died("a", NOW))
    write(log, captured("x", NOW), summarized("x", NOW + 1))
    assert replay.look(60, NOW + 2) == 1
    write(log, died("a", NOW + 3))  # down again before anybody succeeded
    write(log, captured("y", NOW), summarized("y", NOW + 4))
    assert replay.look(60, NOW + 5) == 1


def test_the_waits_between_letters_sent_ahead_are_bounded():
    assert MAX_PROBE_SECONDS <= 3600
