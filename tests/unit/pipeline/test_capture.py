"""The pure decisions of the capture stage."""

import dataclasses
from datetime import UTC, datetime

import pytest

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.pipeline.stages.capture import excluded, holds, hooked_turn, settle
from memsearch.sources.base import Item, Pointer, Turn


def turn(name: str, *said: str, state="finished", **fields) -> Turn:
    items = (Item("user", "a question"), *(Item("assistant", text) for text in said))
    return Turn(
        platform="claude-code",
        id=name,
        session="s",
        at=datetime(2026, 3, 3, tzinfo=UTC),
        cwd="/w",
        items=items,
        state=state,
        anchor={"transcript": "/t"},
        **fields,
    )


def pointer(name: str | None) -> Pointer:
    return Pointer("claude-code", "s", "/t", turn=name)


def settled(turns, name, message=None, *, last=False, known=False) -> list[Turn]:
    return settle(list(turns), pointer(name), message, last, known)


def test_a_whole_turn_is_taken_as_it_is():
    turns = [turn("a", "done"), turn("b", "all done now")]
    assert settled(turns, "b", "all  done\nnow") == turns


@pytest.mark.parametrize(
    "turns",
    [
        [],
        [turn("other", "x")],
        [turn("b", state="open")],
        [turn("b", "first part")],
    ],
    ids=["empty", "another turn", "open", "without the last message"],
)
def test_what_is_not_whole_yet_is_waited_for(turns):
    with pytest.raises(MemsearchError) as error:
        settled(turns, "b", "the end")
    assert error.value.kind is ErrorClass.NOT_YET


def test_at_the_last_look_the_payload_completes_the_turn():
    (completed,) = settled([turn("b", "first part", state="open")], "b", "the end", last=True)
    assert completed.state == "finished"
    assert [item.text for item in completed.items][1:] == ["first part", "the end"]


def test_at_the_last_look_an_interrupted_turn_stays_interrupted():
    (completed,) = settled([turn("b", state="interrupted")], "b", "the end", last=True)
    assert completed.state == "interrupted"


def test_at_the_last_look_a_turn_that_is_not_there_is_a_bad_file():
    with pytest.raises(MemsearchError) as error:
        settled([turn("other", "x")], "b", last=True)
    assert error.value.kind is ErrorClass.BAD_FILE


def test_a_known_turn_is_not_waited_for():
    assert settled([], "b", "the end", known=True) == []


def test_a_private_turn_gets_no_words_from_the_payload():
    private = dataclasses.replace(turn("b"), items=(), private=True)
    assert settled([private], "b", "a secret", last=True) == [private]


def test_an_alias_names_the_turn_that_went_on():
    turns = [turn("a", "x", aliases=("task-1",)), turn("b", "y")]
    assert hooked_turn(turns, pointer("task-1")) is turns[0]
    assert hooked_turn(turns, pointer(None)) is turns[1]
    assert hooked_turn(turns, pointer("nobody")) is None


@pytest.mark.parametrize(
    ("message", "expected"),
    [("all done", True), ("  ALL done", False), ("", True), ("done here", True), ("gone", False)],
)
def test_the_last_message_is_known_again_whatever_the_white_space(message, expected):
    assert holds(turn("b", "first", "all\n  done", "here"), message) is expected


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ([], False),
        (["/w/private"], True),
        (["/w/*"], True),
        (["/w"], True),
        (["/w/priv"], False),
        (["~/x"], False),
    ],
)
def test_projects_are_excluded_by_globs_on_their_path(patterns, expected):
    assert excluded("/w/private", patterns) is expected
