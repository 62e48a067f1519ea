"""``index``, ``stats`` and ``reset``: the shadow of the Markdown, made, counted, dropped."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from memsearch.cli import output
from memsearch.cli.home import current_home, open_log
from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.project import working_folder

if TYPE_CHECKING:
    from memsearch.config.paths import Home

#: Starts what waits for somebody to agree to its cost.
COMMAND = "memsearch index --force"


def _project_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--project", metavar="DIR", help="A folder of the project, instead of the current one."
    )(command)


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option(
    "--force",
    is_flag=True,
    help="Also what did not change; agrees to what embedding costs at a provider.",
)
@_project_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def index(paths: tuple[str, ...], force: bool, project: str | None, as_json: bool) -> None:
    """Bring the index up to date with Markdown files.

    Without PATH: the memory of the project. A folder's vanished files, and a folder that is
    gone, leave the index; a file that is named changes nothing else. What did not change costs
    nothing. Workers do this by themselves for the memory of known projects; memsearch watch
    does it for others.

    In a folder, hidden folders, node_modules and links are passed over, and what
    indexing.exclude, a .memsearchignore or an ignore file that indexing.ignore_files names
    leaves out (patterns as in .gitignore). A file that is named is indexed whatever they say.

    Another model (memsearch config set embedding.model) makes another index beside the old
    one, which answers by keywords until the new one takes its place. Where embedding costs
    money, a changed model or a mass of new text waits: the estimate is shown, and a yes at
    the question or --force starts it. Exit 1 while it waits.

    \b
    Examples:
      memsearch index
      memsearch index ./docs/
      memsearch index --force
    """
    with output.reported():
        home = current_home(create=True)
        request = request_for(project) | {
            "paths": [os.path.abspath(path) for path in paths],
            "force": force,
        }
        answer = run(home, "index", request, wait=True)
        if answer["waiting"] and not as_json and sys.stdin.isatty() and sys.stderr.isatty():
            output.note(_cost(answer["waiting"]))
            if click.confirm("Embed them now?", err=True):
                answer = run(home, "index", request | {"agreed": True}, wait=True)
    if as_json:
        output.put_json(answer)
    else:
        output.put(
            f"{answer['seen']} files seen, {answer['queued']} changed,"
            f" {answer['chunks']} chunks in the index"
        )
        if answer.get("excluded"):
            output.put(f"{answer['excluded']} left the index, since a pattern leaves them out")
    for failure in answer["failed"]:
        output.note(f"not indexed: {failure}")
    if answer["waiting"]:
        output.note(f"not indexed yet: {_cost(answer['waiting'])}; {COMMAND} starts it")
    if answer["failed"] or answer["waiting"]:
        raise SystemExit(output.DEGRADED)


def _cost(waiting: dict[str, Any]) -> str:
    """What waits for a yes, in words."""
    return (
        f"{waiting['texts']:,} texts of {waiting['documents']:,} documents would be embedded by"
        f" {waiting['model']}, which may cost money: about {waiting['tokens']:,} tokens in"
        f" {waiting['requests']:,} requests"
    )


@click.command()
@_project_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def reset(project: str | None, yes: bool, as_json: bool) -> None:
    """Drop the index of a project. Its Markdown stays, and memsearch index makes it anew.

    \b
    Examples:
      memsearch reset
      memsearch reset --project ~/work/app --yes
    """
    with output.reported():
        home = current_home(create=True)
        request = request_for(project)
        if not yes and not output.is_sure(f"Drop the index of {request['cwd']}?"):
            output.note("nothing was dropped")
            return
        answer = run(home, "reset", request, wait=False)
    if as_json:
        output.put_json(answer)
    else:
        output.put(f"dropped {answer['collection']} ({answer['documents']} documents)")


@click.command()
@_project_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def stats(project: str | None, as_json: bool) -> None:
    """Count a project's documents and chunks, as the log has them.

    It also names the project's folder and collection, and what the index that answers was
    made by.

    \b
    Examples:
      memsearch stats
      memsearch stats --project ~/work/app --json
    """
    with output.reported():
        from memsearch.config.settings import load

        home = current_home()
        settings = load(home, None, environ=os.environ, strict=True).settings
        found = _resolve(_folder(project), settings)
        log = open_log(home)
        counts: dict[str, Any] = {"documents": 0, "chunks": 0, "not_indexed": 0}
        if log is not None:
            try:
                row = log.row(
                    "SELECT COUNT(*) AS documents, COALESCE(SUM(chunks), 0) AS chunks,"
                    " COALESCE(SUM(state <> 'done'), 0) AS not_indexed FROM documents"
                    " WHERE collection = ? AND state <> 'removed'",
                    (found.collection,),
                )
                counts = dict(row) if row is not None else counts
                counts |= _identity(log, found.collection, settings)
            finally:
                log.close()
    facts = {"project": found.root, "collection": found.collection, **counts}
    if as_json:
        output.put_json(facts)
        return
    renewal = facts.pop("renewal", None)
    facts["identity"] = facts.get("identity") or "nothing is indexed yet"
    for name, value in facts.items():
        output.put(f"{name.replace('_', ' ')}: {value}")
    if renewal:
        output.put(
            f"renewal: {renewal['documents']} of {renewal['of']} documents, to {renewal['to']}"
        )


def _identity(log: Any, collection: str, settings: Any) -> dict[str, Any]:
    """What the index that answers was made by (model, rules), and how far it is renewed."""
    from memsearch.pipeline import renewal
    from memsearch.pipeline.stages.documents import identity_of
    from memsearch.sinks.embedders import identity

    try:
        wanted = identity_of(identity(settings.embedding))
    except MemsearchError:
        wanted = ""  # status says what is wrong with the settings
    under_way = [each for each in renewal.progress(log, wanted) if each.collection == collection]
    if under_way and wanted:
        return {"identity": under_way[0].old, "renewal": under_way[0].as_dict(wanted)}
    held = log.value(
        "SELECT identity FROM documents WHERE collection = ? AND state = 'done'"
        " AND identity IS NOT NULL LIMIT 1",
        (collection,),
    )
    return {"identity": held, "renewal": None}


def _folder(project: str | None) -> str:
    folder = os.path.abspath(project) if project else working_folder(os.environ)
    if project and not os.path.isdir(folder):
        raise MemsearchError(f"{folder} is no folder", kind=ErrorClass.BAD_REQUEST)
    return folder


def _resolve(folder: str, settings: Any) -> Any:
    from memsearch.config.project import resolve

    return resolve(
        folder,
        os.environ,
        isolate_worktrees=settings.project.isolate_worktrees,
        collections=settings.collections(),
    )


def request_for(project: str | None) -> dict[str, Any]:
    """What every request for ``run`` holds.

    Args:
        project: A folder of the project; None for the current one.

    Raises:
        MemsearchError: ``BAD_REQUEST`` when there is no such folder; ``CONFIG`` when the
            settings cannot be taken as they stand: with a default in the place of what was
            meant, another model would be indexed with, or another index changed.
    """
    from memsearch.config.settings import load_at
    from memsearch.recall.requests import forwarded

    folder = _folder(project)
    load_at(folder, os.environ, strict=True)
    return {"cwd": folder, "environ": forwarded(os.environ)}


def run(
    home: Home,
    operation: str,
    request: dict[str, Any],
    *,
    wait: bool,
    steps: Callable[[int, int, str], None] | None = None,
) -> dict[str, Any]:
    """Have an operation done: by a living worker, else here, with progress on stderr.

    Args:
        home: The home.
        operation: One of ``workers.admin.OPERATIONS``.
        request: What ``workers.admin`` takes for it.
        wait: Until what was queued is worked, too.
        steps: Told how far an operation of several steps is: done, of how many, what.

    Returns:
        The answer of ``workers.admin``.

    Raises:
        MemsearchError: It could not be done.
    """
    from memsearch.workers.asking import ask

    def log(home: Home) -> Callable[..., None]:
        from memsearch.workers.logs import open_log

        return open_log(home, echo=False)

    return ask(
        home,
        os.environ,
        operation,
        request,
        wait=wait,
        progress=_Progress(),
        steps=steps,
        log=log,
    )


class _Progress:
    """A line on stderr now and then, for work that takes longer than a moment."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._said = -1

    def __call__(self, left: int, queued: int) -> None:
        passed = time.monotonic() - self._last
        if queued and left != self._said and passed >= output.progress_pause():
            self._last, self._said = time.monotonic(), left
            output.note(f"{max(0, queued - left)} of {queued} documents indexed")
