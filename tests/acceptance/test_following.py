"""Turns of agents without hooks: a real worker follows what they write."""

from __future__ import annotations

import json

from world import Session, World


def test_a_turn_without_any_hook_is_journaled(world: World, session: Session) -> None:
    session.turn("What was said before memsearch was here?", "Nothing of note.")
    world.settings["MEMSEARCH_CAPTURE__TAIL"] = "true"
    world.start("workers", "--foreground")
    sql = "SELECT count(*) FROM events WHERE type = 'HookReceived' AND data LIKE '%TailStarted%'"
    world.wait_for(lambda: (world.home / "state.db").exists() and world.sql(sql)[0][0] == 4)
    first = Session(world)
    turns = [first.turn("Why is refreshToken() slow in E77?", "It asks the network each time.")]
    turns.append(first.turn("And how is it made fast?", "By a cache of one minute."))
    world.wait_for(lambda: world.entries() == turns)
    assert json.loads(world.run("workers", "status", "--json").stdout)
    turns.append(first.turn("Is the cache shared?", "It is one for each process."))
    world.wait_for(lambda: world.entries() == turns)
