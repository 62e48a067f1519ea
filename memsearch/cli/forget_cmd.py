"""``forget``: a turn, a session, a day or a text taken out of everything, after it was shown."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from memsearch.cli import index_cmds, output
from memsearch.cli.home import current_home
from memsearch.config.errors import MemsearchError

if TYPE_CHECKING:
    from memsearch.config.paths import Home

#: Entries that are shown at the most before the question.
MAX_SHOWN = 40


@click.command()
@click.option("--turn", default="", metavar="ID", help="One turn, by its id.")
@click.option("--session", default="", metavar="ID", help="All turns of a session.")
@click.option("--day", default="", metavar="DAY", help="A day: YYYY-MM-DD, yesterday, 2d.")
@click.option("--text", default="", metavar="WORDS", help="Whatever holds these words.")
@click.option(
    "--put-aside", is_flag=True, help="What was damaged or no hook and was moved out of the way."
)
@click.option("--all-projects", is_flag=True, help="In all projects, not only this one.")
@click.option("--project", metavar="DIR", help="A folder of the project, instead of this one.")
@click.option("--dry-run", is_flag=True, help="Only show what would go.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; with --yes or --dry-run.")
def forget(
    turn: str,
    session: str,
    day: str,
    text: str,
    put_aside: bool,
    all_projects: bool,
    project: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Take a turn, a session, a day or a text out of everything that memsearch keeps.

    Out of the journals, the archive and the digests, the index, the embedding cache, the texts
    in the log, the dead letters, the spool and the copies of the log. It is shown first. What is
    left is the fact that there was a turn, so that it is not captured again. The agent's own
    transcript stays as it is, and so does a git history.

    \b
    Examples:
      memsearch forget --turn 7b0c5e3e-0f6e-4a53-9f4e-1f0d9a0b7a11 --dry-run
      memsearch forget --text "project falcon" --all-projects
      memsearch forget --day yesterday --yes
      memsearch forget --put-aside
    """
    if [bool(turn), bool(session), bool(day), bool(text.strip()), put_aside].count(True) != 1:
        raise click.UsageError(
            "say what to forget by one of --turn, --session, --day, --text, --put-aside"
        )
    if as_json and not (yes or dry_run):
        raise click.UsageError("--json goes with --yes or --dry-run")
    if put_aside:
        with output.reported():
            _forget_put_aside(dry_run=dry_run, yes=yes, as_json=as_json)
        return
    with output.reported():
        home = current_home(create=True)
        request = index_cmds.request_for(project) | {
            "turn": turn,
            "session": session,
            "day": _day(day),
            "text": text,
            "all_projects": all_projects,
        }
        plan: dict[str, Any] = {}
        left: list[str] = []
        if dry_run or not yes:
            plan = index_cmds.run(home, "forget", request | {"dry_run": True}, wait=False)
        if not dry_run:
            if not yes:
                _show(plan)
                if _is_empty(plan):
                    return
                _ask()
            plan = index_cmds.run(home, "forget", request, wait=True)
            left = _forget_in_instances(home, request)
    if as_json:
        output.put_json(plan)
    elif dry_run:
        _show(plan)
    else:
        output.put(
            f"forgotten: {len(plan['turns'])} turns, {len(plan['entries'])} entries,"
            f" {plan['texts']} texts in the log"
        )
        for place in plan["mentions"]:
            output.note(f"still said in {place}, which is yours to change")
    for failure in left:
        output.note(f"still in an index of the Python API: {failure}; forget once more")
    if left:
        raise SystemExit(output.DEGRADED)


def _forget_in_instances(home: Home, request: dict[str, Any]) -> list[str]:
    """Renew the indexes that instances of the Python API keep of the same Markdown.

    Returns:
        What could not be done, in words. The next call tries it again.
    """
    from memsearch.api import instances
    from memsearch.workers.asking import ask

    failed = []
    for instance in instances(home):
        environ = {name: text for name, text in os.environ.items() if "__" not in name}
        environ["MEMSEARCH_HOME"] = instance.root
        try:
            ask(instance, environ, "renew", request, wait=True)
        except MemsearchError as error:
            failed.append(f"{instance.root}: {error}")
    return failed


def _forget_put_aside(*, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Delete what was put aside, after it was shown."""
    from memsearch.pipeline import put_aside

    paths = [aside.path for aside in put_aside.everything(current_home())]
    if not as_json:
        for path in paths:
            output.put(output.clean(path))
        if not paths:
            output.note("nothing was put aside")
    if paths and not dry_run:
        if not yes:
            _ask()
        for path in paths:
            put_aside.delete(path)
    if as_json:
        output.put_json({"put_aside": paths})
    elif paths and not dry_run:
        output.put(f"deleted: {len(paths)}")


def _day(text: str) -> str:
    if not text:
        return ""
    from memsearch.recall.dates import local_today, parse_day

    return parse_day(text, local_today()).isoformat()


def _is_empty(plan: dict[str, Any]) -> bool:
    return not any(plan[name] for name in ("entries", "turns", "texts", "spooled", "digests"))


def _ask() -> None:
    if not output.is_sure("Forget all of this for good?"):
        output.note("nothing was forgotten")
        raise SystemExit(0)


def _show(plan: dict[str, Any]) -> None:
    if _is_empty(plan):
        output.note("nothing of it was found")
    for entry in plan["entries"][:MAX_SHOWN]:
        heading = output.clean(entry["heading"])
        output.put(f"{entry['path']}:{entry['line']}-{entry['end_line']}  {heading}")
    if len(plan["entries"]) > MAX_SHOWN:
        output.put(f"… and {len(plan['entries']) - MAX_SHOWN} entries more")
    output.put(
        f"{len(plan['turns'])} turns ({plan['dead_letters']} of them dead letters),"
        f" {plan['texts']} texts in the log, {plan['chunks']} pieces in the index and their"
        f" vectors, {len(plan['spooled'])} files in the spool, {len(plan['copies'])} copies of"
        " the log"
    )
    for said in plan["digests"]:
        output.put(f"made anew from the rest: what {said['digest']} says of {said['name']}")
    for place in plan["mentions"]:
        output.put(f"stays, since it is no entry: {place}")
