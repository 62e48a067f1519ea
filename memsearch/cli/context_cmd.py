"""``context`` as the help of the command line shows it; it runs without any of this."""

from __future__ import annotations

import click


@click.command(
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def context(arguments: tuple[str, ...]) -> None:
    """Print the recent notes of this project, as agents get them."""
    from memsearch.hooks.context import main

    raise SystemExit(main(list(arguments)))
