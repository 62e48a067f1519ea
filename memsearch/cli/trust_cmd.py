"""``trust``: let a project's notes be put before an agent, whoever wrote them."""

from __future__ import annotations

import os

import click

from memsearch.cli import output
from memsearch.cli.home import current_home
from memsearch.cli.index_cmds import request_for
from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.project import resolve


@click.command()
@click.argument("folder", required=False, metavar="[DIR]")
@click.option("--revoke", is_flag=True, help="Trust it no longer.")
@click.option("--list", "show", is_flag=True, help="List what is trusted.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def trust(folder: str | None, revoke: bool, show: bool, as_json: bool) -> None:
    """Let a project's notes be put before an agent at the start of a session.

    Notes of turns that this machine captured always are. Those that came with a cloned
    repository, or that somebody wrote by hand, are searched at once, but injected only after
    this. Read them first: a note can ask an agent for something.

    \b
    Examples:
      memsearch trust
      memsearch trust ~/src/app
      memsearch trust --revoke
      memsearch trust --list
    """
    from memsearch.config import trust as trusting
    from memsearch.config.settings import load

    with output.reported():
        home = current_home(create=not show)
        if show:
            folders = sorted(trusting.trusted(home))
            if as_json:
                output.put_json(folders)
            elif not folders:
                output.note("nothing is trusted")
            for each in () if as_json else folders:
                output.put(output.clean(each))
            return
        settings = load(home, None, environ=os.environ, strict=True).settings
        project = resolve(
            request_for(folder)["cwd"],
            os.environ,
            isolate_worktrees=settings.project.isolate_worktrees,
            collections=settings.collections(),
        )
        try:
            changed = trusting.set_trusted(home, project.memory_dir, not revoke)
        except OSError as error:
            raise MemsearchError(
                f"{home.run}: {error.strerror}", kind=ErrorClass.PERMISSION
            ) from error
    if as_json:
        facts = {"memory_dir": project.memory_dir, "trusted": not revoke, "changed": changed}
        output.put_json(facts)
        return
    state = "trusted no longer" if revoke else "trusted"
    output.put(f"{output.clean(project.memory_dir)} is {state}{'' if changed else ' already'}")
