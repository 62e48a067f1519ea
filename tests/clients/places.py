"""Where an agent may work: folders that belong to one project, and one that does not."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from machine import Machine

#: Name → folder below the home. All but ``outside`` belong to the machine's project.
PLACES = {
    "deep": "a link/src/deep",
    "tree": "work tree",
    "outside": "no repository",
}
#: What is searched for; the answer holds other words.
QUESTION = "At which position does it lie?"


def make_places(machine: Machine) -> None:
    """A subdirectory behind a symlink, a linked worktree, and a folder outside of git."""
    (machine.project / "src" / "deep").mkdir(parents=True)
    (machine.root / "a link").symlink_to(machine.project)
    (machine.root / PLACES["outside"]).mkdir()
    argv = ["git", "worktree", "add", "-q", "-b", "tree", str(machine.root / PLACES["tree"])]
    subprocess.run(argv, cwd=machine.project, check=True, capture_output=True)


def assert_filed(machine: Machine, words: str) -> None:
    """What was said in each place (``words`` with its name) lies in the journal of its project.

    And nowhere else, and nobody made a memory folder in a place that is none.
    """
    for name in PLACES:
        asked = machine.times_asked(words.format(name))
        assert asked == (0 if name == "outside" else 1), (name, machine.journal())
    outside = machine.root / PLACES["outside"] / ".memsearch" / "memory"
    written = "".join(path.read_text("utf-8") for path in outside.glob("*.md"))
    assert written.count(words.format("outside")) == 1
    assert not (machine.root / PLACES["tree"] / ".memsearch").exists()
    assert not (machine.root / PLACES["deep"] / ".memsearch").exists()


def assert_found(machine: Machine, secret: str, ask: Callable[[str], None]) -> None:
    """What was said in one place is found in those of its project alone.

    By the agent's tool (``ask`` gets the name of a place) and by the command there.
    """
    for name, at in PLACES.items():
        machine.model.clear()
        ask(name)
        found = machine.search(QUESTION, cwd=machine.root / at)
        by_command = any(secret in each["content"] for each in found)
        expected = name != "outside"
        assert (machine.recalled(secret), by_command) == (expected, expected), name
