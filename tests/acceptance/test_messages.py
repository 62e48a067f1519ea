"""The agent's last message, as a hook brings it, leaves no trace once it was captured."""

import random
import threading

import pytest
from world import Session, World

#: A made-up credential; it is what must not be found.
SECRET = "ghp_" + "Zq7" * 12


def holding(world: World, needle: str) -> list[str]:
    """The files of a home whose bytes hold a text."""
    return [
        str(path.relative_to(world.home))
        for path in world.home.rglob("*")
        if path.is_file() and needle.encode() in path.read_bytes()
    ]


def test_nothing_of_it_is_left_after_a_drain(world, session):
    reply = f"The deploy token is {SECRET}, it works now. " + "More words. " * 300
    turn = session.turn("Which token deploys the site?", reply)
    world.hook(session.payload(turn=turn, last_assistant_message=reply))
    assert "state.db-wal" in holding(world, SECRET), "the hook has no time to redact"
    world.drain()
    assert world.entries() == [turn]
    assert world.journal().count("[redacted:github-token]") == 1
    assert holding(world, SECRET) == []


def test_a_message_that_waits_for_a_replay_waits_redacted(world, session):
    message = f"It is {SECRET} and <private>plan FALCON</private> the end."
    turn = session.ask("Which token deploys the site?")
    transcript = session.path.read_bytes()
    session.path.unlink()
    world.hook(session.payload(turn=turn, last_assistant_message=message))
    assert world.drain(check=1)["dead"] == 1
    for needle in (SECRET, "FALCON"):
        assert holding(world, needle) == []
    session.path.write_bytes(transcript)
    world.run("dead-letter", "replay", "--all")
    world.drain()
    assert world.entries() == [turn]
    assert "[redacted:github-token]" in world.journal()


@pytest.mark.parametrize("hooks", [40])
def test_a_living_worker_wipes_what_many_hooks_at_once_brought(world, hooks):
    world.run("workers", "start")
    sizes = random.Random(7)

    def work() -> None:
        session = Session(world)
        for _ in range(hooks // 4):
            words = "x" * sizes.choice((5, 300, 900, 3000))
            reply = f"The token is {SECRET}. {words}"
            turn = session.turn("Which token deploys the site now?", reply)
            world.hook(session.payload(turn=turn, last_assistant_message=reply))

    workers = [threading.Thread(target=work) for _ in range(4)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    world.wait_for(lambda: world.memory.exists() and len(world.entries()) == hooks)
    world.wait_for(lambda: not holding(world, SECRET), 20)
    assert world.run("workers", "status", check=None).returncode == 0, "the worker lives on"
