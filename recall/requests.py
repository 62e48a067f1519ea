"""Recall as requests and answers: the one path of CLI, service, Python API and MCP.

A request is a JSON object. The workers' service gets it over the socket and a process
without workers makes it for itself; both give it to ``handle``. The module is imported by
every command, so that only ``handle`` imports what is heavy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memsearch.config.errors import ErrorClass, MemsearchError

if TYPE_CHECKING:
    from memsearch.recall.access import Access

#: What can be asked for.
OPERATIONS = ("search", "expand", "transcript")

#: Variables of the asking process that decide what is answered: where its project's memory
#: lies, and where its agents keep their files. A service has started with other ones. Those
#: that are not set are taken as not set.
FORWARDED = (
    "HOME",
    "MEMSEARCH_DIR",
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "XDG_DATA_HOME",
    "OPENCODE_DB",
    "OPENCLAW_HOME",
    "OPENCLAW_STATE_DIR",
)

#: The longest question, in characters; the rest of a longer one is left out.
MAX_QUERY_CHARS = 8_000
#: The most results of one search.
MAX_TOP_K = 1000
#: The most turns before and after the one that ``transcript`` shows.
MAX_CONTEXT = 200


def forwarded(environ: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment that goes with a request."""
    return {name: environ[name] for name in FORWARDED if name in environ}


def with_forwarded(environ: Mapping[str, str], request: Mapping[str, Any]) -> dict[str, str]:
    """The environment that a request is answered in; ours where it sent none."""
    if request.get("environ") is None:
        return dict(environ)
    sent = _mapping(request, "environ")
    merged = {name: value for name, value in environ.items() if name not in FORWARDED}
    merged.update({name: value for name, value in sent.items() if name in FORWARDED})
    return merged


def search_request(
    query: str,
    *,
    cwd: str,
    environ: Mapping[str, str],
    today: str = "",
    top_k: int | None = None,
    since: str = "",
    until: str = "",
    day: str = "",
    platform: str = "",
    session: str = "",
    source_prefix: str = "",
    kinds: Sequence[str] = (),
    archive: bool = False,
    all_projects: bool = False,
) -> dict[str, Any]:
    """A ``search`` request.

    Args:
        query: The question.
        cwd: A folder of the project, absolute.
        environ: The asking process's environment.
        today: Its local day, ``YYYY-MM-DD``, which relative dates count from; empty for the
            answering process's.
        top_k: How many results; None for ``search.top_k``.
        since, until, day, platform, session, source_prefix, kinds, archive: As
            ``recall.filters.make_filters`` takes them.
        all_projects: Search every known project instead of one.
    """
    return {
        "query": query,
        "cwd": cwd,
        "environ": forwarded(environ),
        "today": today,
        "top_k": top_k,
        "since": since,
        "until": until,
        "day": day,
        "platform": platform,
        "session": session,
        "source_prefix": source_prefix,
        "kinds": list(kinds),
        "archive": archive,
        "all_projects": all_projects,
    }


def expand_request(chunk: str, *, cwd: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """An ``expand`` request: a chunk's id, or its unique beginning of 8 digits or more."""
    return {"chunk": chunk, "cwd": cwd, "environ": forwarded(environ)}


def transcript_request(
    target: str,
    *,
    cwd: str,
    environ: Mapping[str, str],
    turn: str = "",
    session: str = "",
    context: int = 3,
) -> dict[str, Any]:
    """A ``transcript`` request.

    Args:
        target: A chunk's id, an anchor as it stands in a journal, or the path of a
            transcript.
        cwd: A folder of the project, absolute.
        environ: The asking process's environment.
        turn: The turn to show; empty for the anchor's, or the last ones of a path.
        session: The session, where a path holds several.
        context: Turns before and after it.
    """
    return {
        "target": target,
        "cwd": cwd,
        "environ": forwarded(environ),
        "turn": turn,
        "session": session,
        "context": context,
    }


def handle(operation: str, request: Mapping[str, Any], access: Access) -> dict[str, Any]:
    """Answer a request.

    Args:
        operation: One of ``OPERATIONS``.
        request: As the functions above make it; every key but the question may be missing.
        access: The store, the model and the settings of a home.

    Returns:
        ``search``: ``results``, ``freshness``, ``notes``, ``degraded``. ``expand`` and
        ``transcript``: as their modules say.

    Raises:
        MemsearchError: ``BAD_REQUEST`` or ``CONFIG`` for what the asker has to mend.
    """
    if operation == "search":
        from memsearch.recall.search import answer_search

        return answer_search(request, access)
    if operation == "expand":
        from memsearch.recall.expand import answer_expand

        return answer_expand(request, access)
    if operation == "transcript":
        from memsearch.recall.transcript import answer_transcript

        return answer_transcript(request, access)
    raise MemsearchError(
        f"There is no request {operation!r}",
        kind=ErrorClass.BAD_REQUEST,
        hint="one of " + ", ".join(OPERATIONS),
    )


def error_body(error: MemsearchError) -> dict[str, Any]:
    """An error as the body of an answer; ``recall.client.error_of`` reads it."""
    return {"error": error.message, "kind": str(error.kind), "hint": error.hint}


def status_of(error: MemsearchError) -> int:
    """The HTTP status that goes with an error."""
    return 400 if error.kind in USER_ERRORS else 500


#: What the asker has to mend, as opposed to what went wrong on our side.
USER_ERRORS = frozenset({ErrorClass.CONFIG, ErrorClass.BAD_REQUEST})


def text_of(request: Mapping[str, Any], name: str) -> str:
    """A text of a request; empty when it is missing or null."""
    value = request.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _wrong(name, "a text", value)
    return value


def flag_of(request: Mapping[str, Any], name: str) -> bool:
    """A yes or no of a request; no when it is missing."""
    value = request.get(name, False)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise _wrong(name, "true or false", value)
    return value


def number_of(request: Mapping[str, Any], name: str, default: int, *, least: int, most: int) -> int:
    """A whole number of a request, within its bounds."""
    value = request.get(name)
    if value is None:
        value = default
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise _wrong(name, f"a whole number from {least} to {most}", value)
    return value


def texts_of(request: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """A list of texts of a request."""
    value = request.get(name) or ()
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise _wrong(name, "a list of texts", value)
    return tuple(value)


def _mapping(request: Mapping[str, Any], name: str) -> dict[str, str]:
    value = request.get(name) or {}
    if not isinstance(value, dict) or not all(
        isinstance(key, str) and isinstance(item, str) for key, item in value.items()
    ):
        raise _wrong(name, "an object of texts", value)
    return value


def _wrong(name: str, wanted: str, value: object) -> MemsearchError:
    return MemsearchError(
        f"{name} must be {wanted}, not {str(value)[:80]!r}", kind=ErrorClass.BAD_REQUEST
    )
