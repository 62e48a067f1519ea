"""How the commands speak: JSON or text on stdout, notes and errors on stderr, exit codes.

Text comes from transcripts and journals, so it is data: control characters that would steer
a terminal are taken out, and everything is UTF-8 whatever the locale says.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from memsearch.config.errors import ErrorClass, MemsearchError

if TYPE_CHECKING:
    from collections.abc import Iterable

#: All went well, also when nothing was found.
OK = 0
#: Something on our side did not work, or works less well than it should.
DEGRADED = 1
#: What was asked cannot be done as it was asked; nothing was done.
USER_ERROR = 2

#: Set by the script that agents run: a model reads what is printed.
FENCE_VARIABLE = "MEMSEARCH_FENCE"

#: Characters of a result's text that are shown; the rest is for ``expand``.
MAX_CONTENT_CHARS = 500

#: Seconds between two lines of progress on stderr: on a terminal, and in a file or a pipe.
PROGRESS_SECONDS, FILE_PROGRESS_SECONDS = 1.0, 10.0

#: What the asker has to mend.
_USER_ERRORS = frozenset({ErrorClass.CONFIG, ErrorClass.BAD_REQUEST})

#: C0 without tab and newline, DEL, C1 (a terminal takes U+009B for an escape sequence), and
#: the marks that turn the direction of the text around them.
_CONTROL = dict.fromkeys(
    (
        *range(0x09),
        *range(0x0B, 0x20),
        *range(0x7F, 0xA0),
        *range(0x202A, 0x202F),
        *range(0x2066, 0x206A),
    )
)
#: The same inside JSON, where C0 is escaped already.
_ESCAPED = {code: f"\\u{code:04x}" for code in _CONTROL if code >= 0x7F}


def clean(text: str) -> str:
    """A text without the characters that would steer a terminal; carriage returns too."""
    return text.translate(_CONTROL)


def one_line(text: str) -> str:
    """A text for a place where only one line belongs."""
    return " ".join(clean(text).split())


def shorten(text: str, limit: int = MAX_CONTENT_CHARS) -> str:
    """A text cut to so many characters, the cut marked."""
    return text if len(text) <= limit else text[:limit].rstrip() + " …"


def to_json(value: Any) -> str:
    """JSON for scripts and people: readable Chinese, no raw control characters."""
    return json.dumps(value, ensure_ascii=False, indent=2).translate(_ESCAPED)


def put(text: str) -> None:
    """Write a text and a newline to stdout; on a terminal without control characters."""
    _write(sys.stdout, clean(text) if sys.stdout.isatty() else text)


def put_recalled(text: str) -> None:
    """Write what was recalled: fenced as quoted data where an agent asks (``FENCE_VARIABLE``)."""
    if os.environ.get(FENCE_VARIABLE):
        from memsearch.hooks.fence import RECALLED, fence

        text = fence(text, about=RECALLED)
    put(text)


def put_json(value: Any) -> None:
    """Write a value to stdout as JSON."""
    _write(sys.stdout, to_json(value))


def note(text: str) -> None:
    """Say something beside the answer, on stderr."""
    _write(sys.stderr, one_line(text))


def notes(texts: Iterable[str]) -> None:
    """Say several things beside the answer."""
    for text in texts:
        note(f"note: {text}")


def notes_told(texts: Iterable[str]) -> None:
    """The same with what recall tells, which may name what others have named."""
    _tell([f"note: {text}" for text in texts])


def progress_pause() -> float:
    """Seconds between two lines of progress, by who reads them."""
    return PROGRESS_SECONDS if sys.stderr.isatty() else FILE_PROGRESS_SECONDS


def show_error(error: MemsearchError) -> None:
    """Print what happened and what to do next, on stderr."""
    _tell([f"error: {error.message}", *([f"hint: {error.hint}"] if error.hint else [])])


def _tell(texts: list[str]) -> None:
    """Lines on stderr; quoted where an agent asks, who reads them, too.

    A key of a project's settings or a file has its name from whoever made the project.
    """
    lines = [one_line(text) for text in texts]
    if lines and os.environ.get(FENCE_VARIABLE):
        from memsearch.hooks.fence import SAID, fence

        lines = [fence("\n".join(lines), about=SAID)]
    for line in lines:
        _write(sys.stderr, line)


def exit_code(error: MemsearchError) -> int:
    """The exit code of a command that failed so."""
    return USER_ERROR if error.kind in _USER_ERRORS else DEGRADED


def fail(error: MemsearchError) -> NoReturn:
    """Print an error and leave with its exit code."""
    show_error(error)
    raise SystemExit(exit_code(error))


def is_sure(question: str) -> bool:
    """Ask a person something that ``--yes`` answers too.

    Raises:
        MemsearchError: ``BAD_REQUEST``: the input ended, so nobody is there to answer.
    """
    import click

    try:
        return click.confirm(question)
    except click.Abort as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise  # Ctrl-C: LazyGroup.invoke ends the command
        raise MemsearchError(
            "nobody can be asked", kind=ErrorClass.BAD_REQUEST, hint="--yes does not ask"
        ) from error


@contextmanager
def reported() -> Iterator[None]:
    """Turn a ``MemsearchError`` of the block into its message and exit code."""
    try:
        yield
    except MemsearchError as error:
        fail(error)


def _write(stream: TextIO, text: str) -> None:
    data = (text + "\n").encode("utf-8", "replace")
    buffer = getattr(stream, "buffer", None)
    if buffer is None:  # a stream that somebody put in the place of stdout
        stream.write(data.decode("utf-8"))
        stream.flush()
        return
    stream.flush()  # what was written as text comes first
    buffer.write(data)
    buffer.flush()
