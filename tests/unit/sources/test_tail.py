"""When the last turn of a conversation without hooks is over, and where plugins are looked for."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from memsearch.sources.base import Item, State, Turn
from memsearch.sources.tail import has_plugin, settled

CUT = "This turn was cut off before it ended."


def turn(*items: Item, state: State = "open", private: bool = False) -> Turn:
    at = datetime(2026, 3, 25, tzinfo=UTC)
    return Turn("codex", "t", "s", at, None, items, state, {}, private=private)


ASKED = Item("user", "why?")
TOOL = Item("tool", "ls", name="shell")
ANSWER = Item("assistant", "because")
NOTE = Item("note", "3 steps left out here")


@pytest.mark.parametrize(
    ("items", "state", "last"),
    [
        ((ASKED, ANSWER), "finished", ANSWER.text),
        ((ASKED, ANSWER, NOTE), "finished", NOTE.text),
        ((ASKED, TOOL), "interrupted", CUT),
        ((ASKED,), "interrupted", CUT),
        ((), "interrupted", CUT),
    ],
)
def test_how_a_turn_of_a_resting_conversation_ended(
    items: tuple[Item, ...], state: State, last: str
) -> None:
    after = settled(turn(*items))
    assert (after.state, after.items[-1].text) == (state, last)


@pytest.mark.parametrize("state", ["finished", "interrupted"])
def test_one_that_has_ended_stays_as_it_is(state: State) -> None:
    before = turn(ASKED, state=state)
    assert settled(before) is before


def test_a_private_one_gets_no_words() -> None:
    after = settled(turn(private=True))
    assert (after.state, after.items) == ("finished", ())


def test_plugins(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    opencode, openclaw = tmp_path / ".config" / "opencode", tmp_path / ".openclaw"
    for folder in (opencode / "plugin", openclaw):
        folder.mkdir(parents=True)
    (opencode / "plugin" / "mine.js").touch()
    (opencode / "opencode.json").write_text('{"plugin": ["other"]}', encoding="utf-8")
    (openclaw / "openclaw.json").write_text('{"plugins": {}}', encoding="utf-8")
    assert not has_plugin("opencode", environ)
    assert not has_plugin("openclaw", environ)
    (opencode / "opencode.json").write_text('{"plugin": ["memsearch"]}', encoding="utf-8")
    (openclaw / "openclaw.json").write_text('{"entries": {"memsearch": {}}}', encoding="utf-8")
    assert has_plugin("opencode", environ)
    assert has_plugin("openclaw", environ)
    assert not has_plugin("codex", environ)
    (opencode / "opencode.json").unlink()
    (opencode / "plugin" / "memsearch.js").touch()
    assert has_plugin("opencode", environ)
