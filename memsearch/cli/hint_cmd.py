"""``hint`` as the help of the command line shows it; it runs without any of this."""

from __future__ import annotations

import click


@click.command(
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def hint(arguments: tuple[str, ...]) -> None:
    """Say whether there is a memory to search (for agents' hooks)."""
    from memsearch.hooks.hint import main

    raise SystemExit(main(list(arguments)))
