"""``model``: fetch an embedding model that does not come with memsearch."""

from __future__ import annotations

import os
import time

import click

from memsearch.cli import output
from memsearch.cli.home import current_home
from memsearch.config.errors import ErrorClass, MemsearchError


@click.group()
def model() -> None:
    """Fetch an embedding model that does not come with memsearch.

    \b
    Examples:
      memsearch model fetch bge-m3
      memsearch config set embedding.model bge-m3
    """


@model.command()
@click.argument("name", metavar="MODEL")
@click.option(
    "--from",
    "folder",
    metavar="FOLDER",
    type=click.Path(exists=True, file_okay=False),
    help="Take the files from there instead of the hub.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def fetch(name: str, folder: str | None, as_json: bool) -> None:
    """Load a model's files: a pinned revision, compared with their SHA-256.

    bge-m3 is the one there is: 8 bits, 586 MB on disk, about 1 GB in memory. It can be
    interrupted; the same command goes on. HF_ENDPOINT names a mirror of the hub.

    \b
    Examples:
      memsearch model fetch bge-m3
      memsearch model fetch bge-m3 --from ~/Downloads/bge-m3
    """
    with output.reported():
        from memsearch.sinks.embedders import hub
        from memsearch.sinks.embedders.pins import BGE_M3_FILES

        if name != BGE_M3_FILES.name:
            raise MemsearchError(
                f"there is no model {name!r} to fetch",
                kind=ErrorClass.BAD_REQUEST,
                hint=f"{BGE_M3_FILES.name} is the one there is",
            )
        home = current_home(create=True)
        progress = _Progress()
        if folder is not None:
            paths = hub.take(BGE_M3_FILES, home.models, folder, progress)
        else:
            paths = hub.fetch(BGE_M3_FILES, home.models, hub.hub_url(os.environ), progress)
    if as_json:
        output.put_json({"model": name, "revision": BGE_M3_FILES.revision, "files": paths})
        return
    output.put(f"{name} is here: {os.path.dirname(paths[0])}")
    output.put(f"memsearch config set embedding.model {name} uses it")


class _Progress:
    """A line on stderr now and then."""

    def __init__(self) -> None:
        self._last = 0.0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._last >= output.progress_pause() or done == total:
            self._last = now
            output.note(f"{done / 1e6:,.0f} of {total / 1e6:,.0f} MB")
