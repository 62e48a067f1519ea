"""Every command explains itself."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from memsearch.cli.main import cli
from memsearch.hooks import context, enqueue, hint


def commands(
    group: click.Group, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context_ = click.Context(group)
    for name in group.list_commands(context_):
        command = group.get_command(context_, name)
        assert command is not None
        yield (*words, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))


ALL = dict(commands(cli))
#: What hooks run prints a text of its own, without click.
OWN = {("context",): context.HELP, ("enqueue",): enqueue.HELP, ("hint",): hint.HELP}


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_a_help_has_an_example_and_exit_codes(words: tuple[str, ...]) -> None:
    text = OWN.get(words)
    if text is None:
        done = CliRunner().invoke(cli, [*words, "--help"], prog_name="memsearch")
        assert done.exit_code == 0
        text = done.output
    assert "Example" in text
    assert f"memsearch {' '.join(words)}" in text.split("Example", 1)[1]
    assert text.count("Exit codes:") == 1 or words == ("enqueue",)


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_every_option_says_what_it_does(words: tuple[str, ...]) -> None:
    for option in ALL[words].params:
        if isinstance(option, click.Option):
            assert option.help, f"{words}: {option.name}"
