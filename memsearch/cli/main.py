"""The ``memsearch`` command: which commands there are, each loaded when it is called."""

from __future__ import annotations

import importlib
from typing import Any

import click

from memsearch import __version__
from memsearch._entry import INTERRUPTED

#: Command: where it is, and what it does in one line. Nothing is imported to print the list.
COMMANDS: dict[str, dict[str, tuple[str, str]]] = {
    "Recall": {
        "search": ("recall_cmds:search", "Find what was remembered, by meaning and by keyword."),
        "expand": ("recall_cmds:expand", "Show the whole section that a result comes from."),
        "transcript": ("recall_cmds:transcript", "Show the conversation behind an entry."),
        "list": ("recall_cmds:list_entries", "List the journal's entries."),
        "mcp": ("mcp_cmd:mcp", "Serve the memory tools over MCP."),
        "tool": ("mcp_cmd:tool", "Call one memory tool (for agents' plugins)."),
        "context": ("context_cmd:context", "Print the recent notes, as agents get them."),
        "hint": ("hint_cmd:hint", "Say whether there is a memory (for agents' hooks)."),
    },
    "Capture": {
        "enqueue": ("enqueue_cmd:enqueue", "Take note of a finished turn (for agents' hooks)."),
        "backfill": ("backfill_cmd:backfill", "Capture past conversations of all agents."),
        "workers": ("workers_cmds:workers", "Run, start, stop or look at the background worker."),
        "status": ("status_cmd:status", "Say what works, what waits, what failed, and why."),
        "dead-letter": (
            "dead_letter_cmds:dead_letter",
            "List, show, replay or discard what gave up.",
        ),
        "forget": ("forget_cmd:forget", "Take a turn, a session, a day or a text out of it all."),
        "events": ("events_cmds:events", "Show the event log; rebuild what is folded from it."),
    },
    "Index": {
        "index": ("index_cmds:index", "Bring the index up to date with Markdown files."),
        "stats": ("index_cmds:stats", "Count a project's documents and chunks."),
        "watch": ("watch_cmd:watch", "Index what changes in folders, until it is told to end."),
        "compact": ("compact_cmd:compact", "Turn old journals into digests; archive them."),
        "reset": ("index_cmds:reset", "Drop a project's index; its Markdown stays."),
    },
    "Set-up": {
        "install": ("install_cmd:install", "Install memsearch in agents."),
        "uninstall": ("install_cmd:uninstall", "Take memsearch out of agents again."),
        "doctor": ("doctor_cmd:doctor", "Say what is set up, agent by agent, and what to do."),
        "model": ("model_cmd:model", "Fetch an embedding model that does not come with it."),
        "config": ("config_cmd:config", "Show and change settings."),
        "trust": ("trust_cmd:trust", "Let notes that were not written here be injected."),
        "demo": ("demo_cmd:demo", "Drive a recorded turn the whole way, in a temporary home."),
    },
}


#: What a command's help ends with, unless it says itself what its exit codes mean.
EXIT_CODES = (
    "Exit codes: 0 when it is done; 1 when something did not work; 2 when the call, an id or a"
    " setting is wrong, and nothing was done; 130 after Ctrl-C."
)


def with_exit_codes(command: click.Command) -> click.Command:
    """A command whose help, and that of its own commands, says what its exit codes mean."""
    if "Exit codes:" not in (command.help or ""):
        command.epilog = EXIT_CODES
    if isinstance(command, click.Group):
        for each in command.commands.values():
            with_exit_codes(each)
    return command


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [name for family in COMMANDS.values() for name in family]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        for family in COMMANDS.values():
            if cmd_name in family:
                module, _, attribute = family[cmd_name][0].partition(":")
                loaded = getattr(importlib.import_module(f"memsearch.cli.{module}"), attribute)
                assert isinstance(loaded, click.Command)
                return with_exit_codes(loaded)
        return None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; Ctrl-C ends it as shells expect, at a question too."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, click.Abort) as error:
            # A question that got no answer because its input ended is aborted as well.
            if not isinstance(error, KeyboardInterrupt) and not isinstance(
                error.__context__, KeyboardInterrupt
            ):
                raise
            click.echo(err=True)  # behind the ^C that the terminal shows
            raise click.exceptions.Exit(INTERRUPTED) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            import difflib

            near = difflib.get_close_matches(name, self.list_commands(ctx), n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"There is no command {name!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        for title, family in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(name, help_) for name, (_, help_) in family.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="memsearch")
def cli() -> None:
    """Long-term memory for coding agents, in Markdown that you can open, read and edit.

    Each finished turn of an agent becomes a few notes in .memsearch/memory/YYYY-MM-DD.md of
    its project. Search them from any agent, or here:

    \b
      memsearch search "why did we change the retry policy"
      memsearch list --day yesterday
      memsearch status

    Every command explains itself: memsearch COMMAND --help.
    """


with_exit_codes(cli)
