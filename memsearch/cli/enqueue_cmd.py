"""``enqueue`` as the help of the command line shows it; it runs without any of this."""

from __future__ import annotations

import click


@click.command(
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def enqueue(arguments: tuple[str, ...]) -> None:
    """Take note of a finished turn (for agents' hooks)."""
    from memsearch.hooks.enqueue import main

    raise SystemExit(main(list(arguments)))
