"""Transcript: the conversation itself, behind a chunk, an anchor or a path."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import untilde, user_home
from memsearch.config.schema import Redact
from memsearch.config.settings import load
from memsearch.pipeline.redact import reading, redact_turn
from memsearch.pipeline.rules import doubt
from memsearch.recall import logview
from memsearch.recall.expand import expand, is_id
from memsearch.recall.requests import MAX_CONTEXT, number_of, text_of
from memsearch.recall.scope import Setting, setting_of
from memsearch.sinks.anchors import parse_anchor
from memsearch.sinks.types import Anchor
from memsearch.sources.registry import get, platforms
from memsearch.sources.render import confine, conversation_dict, render_conversation

if TYPE_CHECKING:
    from memsearch.recall.access import Access


#: A turn's id as agents make them; an anchor may hold anything in its place.
_ID = re.compile(r"[\w:.-]{1,80}")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a conversation lies. ``turn`` and ``session`` are empty when they are not known."""

    platform: str
    path: str
    session: str
    turn: str
    notes: tuple[str, ...] = ()


def answer_transcript(request: Mapping[str, Any], access: Access) -> dict[str, Any]:
    """Answer a ``transcript`` request.

    Returns:
        ``platform``, ``session``, ``turn``, ``path``, ``text`` (the conversation, for
        reading), ``turns`` (the same, taken apart), ``notes``.

    Raises:
        MemsearchError: ``BAD_REQUEST`` when the target names no conversation; ``BAD_FILE``
            when its file is gone, unreadable or outside the agents' own folders, of whose
            contents nothing is said. What a foreign note names is not repeated: whoever
            wrote it may have written an order there.
    """
    where = setting_of(request, access, everything=True)
    target = text_of(request, "target")
    # What was said to one agent may be shown to another one, and to its provider.
    secrets = _secrets(where, access)
    try:
        return _answered(request, where, access, secrets)
    except MemsearchError as error:
        if not _named_by_others(target, where, access):
            raise
        raise MemsearchError(
            f"there is no conversation to show behind {target}: its note is foreign",
            kind=error.kind,
            hint=f"memsearch expand {target} shows what it says",
        ) from None


def _named_by_others(target: str, where: Setting, access: Access) -> bool:
    """Whether the target is a foreign note, whose anchor names the conversation."""
    if not is_id(target) or os.path.exists(target):
        return False
    try:
        found = expand(target, where, access)
        return found.foreign and bool(found.anchors)
    except MemsearchError:
        return False  # there is no such note, which is what the first error says


def _answered(
    request: Mapping[str, Any], where: Setting, access: Access, secrets: Redact
) -> dict[str, Any]:
    context = number_of(request, "context", 3, least=0, most=MAX_CONTEXT)
    place = find(
        text_of(request, "target"),
        where,
        access,
        session=text_of(request, "session"),
        turn=text_of(request, "turn"),
    )
    source = get(place.platform)
    with reading(secrets):
        found = source.conversation(place.path, place.session, place.turn or None, context=context)
    turns = [redact_turn(turn, secrets)[0] for turn in found]
    asked = place.turn or None
    if not turns:
        what = f"turn {place.turn}" if place.turn else "any turn"
        raise MemsearchError(
            f"{place.path} does not hold {what}",
            kind=ErrorClass.BAD_FILE,
            hint="without --turn the last turns are shown" if place.turn else "",
        )
    return {
        "platform": place.platform,
        "session": place.session or turns[-1].session,
        "turn": place.turn,
        "path": place.path,
        "text": render_conversation(turns, highlight=asked),
        "notes": list(place.notes),
        **conversation_dict(turns, highlight=asked),
    }


def _secrets(where: Setting, access: Access) -> Redact:
    """What is taken out of a conversation.

    Raises:
        MemsearchError: ``CONFIG`` while the user's own patterns cannot be read.
    """
    loaded = load(access.home, where.project.root, environ=where.environ, strict=False)
    problem = doubt(loaded.problems, "transcript")
    if problem is not None:
        raise MemsearchError(
            f"no conversation is shown while your settings on it cannot be read: {problem}",
            kind=ErrorClass.CONFIG,
        )
    return loaded.settings.redact


def find(target: str, where: Setting, access: Access, *, session: str, turn: str) -> Place:
    """The conversation that a target names.

    Args:
        target: A chunk's id, an anchor, or a path.
        where: What the request is answered in.
        access: The home's.
        session: Overrides the anchor's; empty for none.
        turn: Overrides the anchor's.

    Raises:
        MemsearchError: ``BAD_REQUEST`` or ``BAD_FILE``; see ``answer_transcript``.
    """
    target = target.strip()
    if not target:
        raise MemsearchError(
            "No conversation is named",
            kind=ErrorClass.BAD_REQUEST,
            hint="give a chunk's id, an anchor or the path of a transcript",
        )
    if is_id(target) and not os.path.exists(target):
        return _of_chunk(target, where, access, session=session, turn=turn)
    anchor = parse_anchor(target)
    if anchor is not None and anchor.path:
        return _of_anchor(anchor, where, access, session=session, turn=turn)
    return _of_path(target, where, access, session=session, turn=turn)


def _of_chunk(key: str, where: Setting, access: Access, *, session: str, turn: str) -> Place:
    expanded = expand(key, where, access)
    anchors = [anchor for anchor in expanded.anchors if anchor.path]
    if not anchors:
        raise MemsearchError(
            # Its heading may be an order, and is not repeated.
            f"The section of {expanded.hit.chunk_hash} has no anchor:"
            " it was not written from a conversation",
            kind=ErrorClass.BAD_REQUEST,
            hint=f"memsearch expand {expanded.hit.chunk_hash} shows what it says",
        )
    wanted = turn or expanded.hit.turn
    chosen = next((item for item in anchors if wanted and item.turn == wanted), anchors[0])
    place = _of_anchor(chosen, where, access, session=session, turn=turn)
    notes = expanded.notes
    if len(anchors) > 1 and chosen.turn != wanted:
        turns = ", ".join(item.turn for item in anchors if _ID.fullmatch(item.turn))
        notes += (f"The section holds {len(anchors)} conversations; the others by --turn: {turns}",)
    return Place(place.platform, place.path, place.session, place.turn, notes)


def _of_anchor(anchor: Anchor, where: Setting, access: Access, *, session: str, turn: str) -> Place:
    if not anchor.platform:
        raise MemsearchError(
            f"The anchor does not tell which agent wrote {anchor.path}",
            kind=ErrorClass.BAD_REQUEST,
            hint="give the path of the transcript instead",
        )
    platform, path = _allowed(anchor.path, where, access, anchor.platform)
    return Place(platform, path, session or anchor.session, turn or anchor.turn)


def _of_path(target: str, where: Setting, access: Access, *, session: str, turn: str) -> Place:
    path = os.path.join(where.cwd, untilde(target, user_home(where.environ)))
    platform, real = _allowed(path, where, access)
    return Place(platform, real, session, turn)


def _allowed(path: str, where: Setting, access: Access, platform: str = "") -> tuple[str, str]:
    """The agent and the real path of a transcript that may be read.

    It lies under a folder where agents keep theirs; or this machine's own log captured turns
    from it, since a hook named it (an agent with a home elsewhere). What an anchor in a
    cloned repository says is neither.

    Raises:
        MemsearchError: ``PERMISSION``; nothing of the file is told.
    """
    full = untilde(path, user_home(where.environ))
    if os.path.isabs(full) and "\x00" not in full:
        real = os.path.realpath(full)
        known = logview.captured_from(access.home.state_db, real)
        if known and platform in ("", known):
            return known, real
    roots = get(platform).roots(where.environ) if platform else None
    if roots and get(platform).root_is_transcript and os.path.realpath(full) in roots:
        return platform, os.path.realpath(full)
    real = confine(path, where.environ, roots)
    for name in (platform,) if platform else platforms():
        folders = [os.path.realpath(root) for root in get(name).roots(where.environ)]
        if any(real.startswith(folder.rstrip("/") + "/") for folder in folders):
            return name, real
    raise AssertionError("confine lets only known roots through")
