"""``search``, ``expand``, ``transcript`` and ``list``: from an answer to the words behind it.

With workers running these commands import little: the request goes over the socket and the
answer is printed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from memsearch import answers
from memsearch.cli import output
from memsearch.cli.home import start_for_next_time
from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import Home
from memsearch.config.project import working_folder
from memsearch.recall import requests

F = TypeVar("F", bound=Callable[..., Any])

_json_option = click.option(
    "--json",
    "--json-output",
    "-j",
    "as_json",
    is_flag=True,
    help="Print JSON; notes go to stderr.",
)
_project_option = click.option(
    "--project",
    metavar="DIR",
    help="A folder of the project, instead of the current one.",
)


def _date_options(command: F) -> F:
    for name, what in (
        ("--until", "Only what happened on this day or before."),
        ("--since", "Only what happened on this day or later."),
        ("--day", "Only what happened on this day: YYYY-MM-DD, today, yesterday, 7d, 2w."),
    ):
        command = click.option(name, metavar="DAY", default="", help=what)(command)
    return command


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="QUESTION...")
@click.option("--top-k", "-k", type=int, help="How many results (search.top_k, 5).")
@_json_option
@_date_options
@click.option("--platform", default="", help="Only from this agent, for instance claude-code.")
@click.option("--session", default="", help="Only from this conversation.")
@click.option(
    "--source-prefix",
    default="",
    metavar="PATH",
    help="Only from files whose path begins so; end it with / for a folder.",
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    metavar="KIND",
    help="Only entry, note, digest or archive. May be repeated.",
)
@click.option("--archive", is_flag=True, help="Search the archive too.")
@_project_option
@click.option("--all-projects", is_flag=True, help="Search every known project.")
def search(
    words: tuple[str, ...],
    top_k: int | None,
    as_json: bool,
    project: str | None,
    all_projects: bool,
    **narrowed: Any,
) -> None:
    """Search what is remembered, by meaning and by keyword.

    Each result has a score from 0 to 1 (within this answer) and an id, which expand and
    transcript take. What is not indexed yet is found by its words and says so.

    \b
    Examples:
      memsearch search "why did we drop redis" --since 2w
      memsearch search 备份脚本失败 --json
      memsearch search -k 10 --source-prefix docs/ retry policy
      memsearch search --all-projects "rate limit of the mail API"
      memsearch search --day yesterday --platform claude-code tests
      memsearch search -- --verbose        a question that begins with a dash

    Exit codes: 0, also when nothing is found; 1 when the index could not be read and the
    Markdown was read instead; 2 when the question or an option is wrong.
    """
    with output.reported():
        cwd, environ = _where(project)
        answer = _ask(
            "search",
            requests.search_request(
                _argument(" ".join(words)),
                cwd=cwd,
                environ=environ,
                today=_today(narrowed),
                top_k=top_k,
                all_projects=all_projects,
                **_arguments(narrowed),
            ),
            environ,
        )
    if as_json:
        output.put_json(answer["results"])
    elif answer["results"]:
        output.put_recalled(answers.results_text(answer["results"]))
    output.notes(answers.foreign_notes(answer["results"]))
    output.notes(answers.freshness_notes(answer["freshness"]))
    output.notes_told(answer["notes"])
    if not answer["results"] and not as_json:
        output.note("Nothing was found.")
    if answer["degraded"]:
        raise SystemExit(output.DEGRADED)


@click.command()
@click.argument("chunk", metavar="CHUNK_HASH")
@_json_option
@_project_option
def expand(chunk: str, as_json: bool, project: str | None) -> None:
    """Show the whole section around a search result, from its file as it is now.

    CHUNK_HASH is the id of a result, or its first 8 digits or more.

    \b
    Examples:
      memsearch expand 3f9c2a7e51d08b46
      memsearch expand 3f9c2a7e --json
    """
    with output.reported():
        cwd, environ = _where(project)
        answer = _ask(
            "expand",
            requests.expand_request(_argument(chunk), cwd=cwd, environ=environ),
            environ,
        )
    if as_json:
        output.put_json(answer)
    else:
        output.put_recalled(answers.section_text(answer))
        if answer["anchors"]:
            output.note(f"The words behind it: memsearch transcript {answer['chunk_hash']}")
    output.notes(answers.foreign_notes([answer]))
    output.notes_told(answer["notes"])


@click.command()
@click.argument("target", nargs=-1, required=True, metavar="HASH|ANCHOR|PATH")
@click.option("--turn", default="", help="The turn to show, instead of the anchor's.")
@click.option("--session", default="", help="The conversation, where a file holds several.")
@click.option(
    "--context", type=int, default=3, show_default=True, help="Turns before and after it."
)
@_json_option
@_project_option
def transcript(
    target: tuple[str, ...],
    turn: str,
    session: str,
    context: int,
    as_json: bool,
    project: str | None,
) -> None:
    """Show the conversation behind a search result: commands whole, outputs trimmed.

    The target is the id of a result, an anchor as it stands in a journal, or the path of a
    transcript, of which the last turns are shown. Only files under the agents' own folders
    are read.

    \b
    Examples:
      memsearch transcript 3f9c2a7e51d08b46
      memsearch transcript 3f9c2a7e51d08b46 --context 0
      memsearch transcript "session:… turn:… transcript:~/.claude/projects/…/x.jsonl"
      memsearch transcript ~/.claude/projects/-w-app/0b1c.jsonl --turn 77ab
    """
    with output.reported():
        cwd, environ = _where(project)
        answer = _ask(
            "transcript",
            requests.transcript_request(
                _target(target),
                cwd=cwd,
                environ=environ,
                turn=_argument(turn),
                session=_argument(session),
                context=context,
            ),
            environ,
        )
    if as_json:
        output.put_json(answer)
    else:
        output.put_recalled(answer["text"])
    output.notes_told(answer["notes"])


@click.command(name="list")
@_date_options
@click.option("--platform", default="", help="Only from this agent, for instance claude-code.")
@click.option("--session", default="", help="Only from this conversation.")
@click.option("--archive", is_flag=True, help="List what was archived too.")
@click.option("--full", is_flag=True, help="Show every note of an entry, not only the first.")
@_json_option
@_project_option
def list_entries(full: bool, as_json: bool, project: str | None, **narrowed: Any) -> None:
    """List what was remembered, newest last. Reads the journals; needs no index.

    \b
    Examples:
      memsearch list --day today
      memsearch list --since 7d --full
      memsearch list --since 2026-03-01 --until 2026-03-31 --json
      memsearch list --project ~/work/app
    """
    with output.reported():
        from memsearch.recall.listing import list_journals

        cwd, environ = _where(project)
        listing = list_journals(cwd, environ, **_arguments(narrowed))
    items = [item.as_dict() for item in listing.entries]
    if as_json:
        output.put_json(items)
    elif items:
        output.put_recalled(_listing_text(items, full=full))
    output.notes(answers.foreign_notes(items))
    output.notes_told(listing.notes)
    if not listing.entries and not as_json:
        output.note(f"No entries in {listing.memory_dir}.")


def _ask(operation: str, request: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    from memsearch.recall.backend import answer

    home = Home.from_env(environ)
    found = answer(operation, request, home, environ)
    start_for_next_time(home, environ)
    return found


def _where(project: str | None) -> tuple[str, dict[str, str]]:
    """The folder that is asked about, absolute, and the environment that goes with it."""
    environ = dict(os.environ)
    if project is None:
        return working_folder(environ), environ
    folder = os.path.abspath(os.path.expanduser(_argument(project)))
    if not os.path.isdir(folder):
        raise MemsearchError(f"--project: {folder} is no folder", kind=ErrorClass.CONFIG)
    # What is named on the command line wins over where the environment puts the memory.
    environ.pop("MEMSEARCH_DIR", None)
    return folder, environ


def _argument(text: str) -> str:
    """An argument as text: under an ASCII locale Python hands out undecoded bytes."""
    return os.fsencode(text).decode("utf-8", "replace")


def _arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options with their texts decoded."""
    return {
        name: _argument(value) if isinstance(value, str) else value
        for name, value in options.items()
    }


def _target(words: tuple[str, ...]) -> str:
    # An anchor pasted without quotes arrives as several words, a path with spaces as one.
    target = " ".join(words)
    if len(words) == 1 and os.path.exists(target):
        return os.path.abspath(target)
    return _argument(target)


def _today(narrowed: dict[str, Any]) -> str:
    """Today here, when a date was given; bad dates are refused before anything is asked."""
    from memsearch.recall.dates import local_today, parse_day

    today = local_today()
    for name in ("day", "since", "until"):
        if narrowed[name]:
            parse_day(narrowed[name], today, option=f"--{name}")
    return today.isoformat()


def _listing_text(items: Sequence[Mapping[str, Any]], *, full: bool) -> str:
    """Entries under their days: time, agent, session, the first note or all of them."""
    lines: list[str] = []
    day = ""
    for item in items:
        if item["day"] != day:
            day = item["day"]
            lines += ([""] if lines else []) + [day]
        mark = answers.FOREIGN if item["foreign"] else ""
        who = "  ".join(part for part in (item["platform"], item["session"][:8], mark) if part)
        lines.append(f"  {item['time'] or item['heading']}  {who}".rstrip())
        bullets = item["bullets"] if full else item["bullets"][:1]
        lines += (f"    - {output.shorten(bullet)}" for bullet in bullets)
        more = len(item["bullets"]) - len(bullets)
        if more > 0:
            lines.append(f"    ({more} more)")
    return "\n".join(lines)
