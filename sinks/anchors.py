"""Anchors: the HTML comments of a journal that say where a turn's own words lie.

    <!-- session:UUID turn:UUID transcript:~/.claude/projects/-w-app/UUID.jsonl -->

A journal is a file that people edit and repositories carry, so reading takes any order of
keys, older forms and values that were never encoded, and promises nothing about what a path
points to: whoever opens it checks it first.
"""

from __future__ import annotations

import re
import unicodedata

from memsearch.config.paths import tilde
from memsearch.sinks.types import Anchor

#: A comment longer than this, in characters, is no anchor. Three paths of the longest kind
#: that Linux has (4,096 bytes), each byte written ``%XX``, fit.
MAX_ANCHOR_CHARS = 40_000

_OPEN = "<!--"
_CLOSE = "-->"

# A key of one letter would take Windows' drive in "transcript:C:\..." for one; upper case
# would take "TODO:" of a human's comment.
_KEY = re.compile(r"(?:^|(?<=\s))([a-z][a-z0-9_-]{1,31}):")
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")

#: Characters that are always percent-encoded: they end a value, a comment, or an escape.
_SPECIAL = frozenset("%<>")
#: Unicode categories that are always percent-encoded: controls, format characters (they can
#: turn the reading direction), lone surrogates (bytes of a path that are no UTF-8), blanks.
_SPECIAL_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zs", "Zl", "Zp"})

_IDS = ("session", "turn", "platform")
_PATHS = ("transcript", "rollout", "db")


def format_anchor(anchor: Anchor) -> str:
    """One line: the comment that holds the anchor.

    Keys come as ``session turn``, then the path under its key, then what ``extra`` holds.
    ``platform:`` is written only where keys and path would tell another one. The home folder
    is written ``~``. Blanks, ``<``, ``>``, ``%``, control characters and the second dash of
    ``--`` are percent-encoded as UTF-8; Chinese and other letters stay readable.

    Args:
        anchor: What to write. Empty values are left out.
    """
    pairs = [("session", anchor.session), ("turn", anchor.turn)]
    if anchor.platform and anchor.platform != told_platform(
        anchor.transcript, anchor.rollout, anchor.db
    ):
        pairs.append(("platform", anchor.platform))
    pairs += [(key, tilde(getattr(anchor, key))) for key in _PATHS]
    known = {*_IDS, *_PATHS}
    pairs += [(key, value) for key, value in anchor.extra if key not in known]
    written = [
        f"{key}:{encode_value(value)}" for key, value in pairs if value and _KEY.match(f"{key}:")
    ]
    return " ".join([_OPEN, *written, _CLOSE])


def parse_anchor(text: str) -> Anchor | None:
    """The first anchor in a text, or the anchor that the text itself is without its comment.

    Args:
        text: A line of a journal, a whole section, or ``session:… turn:…`` as a person
            types it. Any length.

    Returns:
        None when there is none. An anchor has a session or a path.
    """
    found = anchors_in(text, limit=1)
    if found:
        return found[0]
    if _OPEN not in text and len(text) <= MAX_ANCHOR_CHARS and "\n" not in text.strip():
        return _read(text.strip())
    return None


def anchors_in(text: str, *, limit: int | None = None) -> list[Anchor]:
    """The anchors of all comments in a text, in order.

    Args:
        text: Markdown of any length; read in one pass.
        limit: Stop after this many.
    """
    found: list[Anchor] = []
    position = text.find(_OPEN)
    while position >= 0 and (limit is None or len(found) < limit):
        end = text.find(_CLOSE, position)
        if end < 0:
            break
        # Of a comment that was opened twice, the last opening counts: the text before it is
        # a torn anchor.
        start = text.rfind(_OPEN, position, end) + len(_OPEN)
        if end - start <= MAX_ANCHOR_CHARS:
            anchor = _read(text[start:end].strip())
            if anchor is not None:
                found.append(anchor)
        position = text.find(_OPEN, end)
    return found


def without_comments(text: str) -> str:
    """A text without its HTML comments, anchors among them; an unclosed one stays.

    So does one that is opened and never closed before the next one: a torn anchor, whose notes
    stand behind it.
    """
    parts: list[str] = []
    position = 0
    while True:
        start = text.find(_OPEN, position)
        end = text.find(_CLOSE, start + len(_OPEN)) if start >= 0 else -1
        if end < 0:
            parts.append(text[position:])
            return "".join(parts)
        parts.append(text[position : text.rfind(_OPEN, start, end)])
        position = end + len(_CLOSE)


def told_platform(transcript: str, rollout: str, db: str) -> str:
    """The platform that an anchor's keys tell, empty when they tell none.

    ``rollout`` is Codex; ``transcript`` is Claude Code, or OpenClaw where the path goes
    through its folder; ``db`` is OpenCode, or OpenClaw where the path names it.
    """
    if rollout:
        return "codex"
    if transcript:
        folders = transcript.replace("\\", "/").split("/")
        return "openclaw" if any(f.startswith(".openclaw") for f in folders) else "claude-code"
    if db:
        return "openclaw" if "openclaw" in db.lower() else "opencode"
    return ""


def encode_value(value: str) -> str:
    """A value as it stands in an anchor: one word that cannot end the comment."""
    parts: list[str] = []
    before = ""
    for char in value:
        plain = char not in _SPECIAL and unicodedata.category(char) not in _SPECIAL_CATEGORIES
        if plain and not (char == "-" and before == "-"):
            parts.append(char)
        else:
            parts += [f"%{byte:02X}" for byte in path_bytes(char)]
        before = char
    return "".join(parts)


def decode_value(value: str) -> str:
    """The reverse of ``encode_value``; escapes that are none stay as they are."""
    if "%" not in value:
        return value
    raw = _ESCAPE.sub(lambda match: bytes([int(match[1], 16)]), path_bytes(value))
    return raw.decode("utf-8", "surrogateescape")


def path_bytes(text: str) -> bytes:
    """The bytes that a path stands for, lone surrogates and all."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a UTF-16 pair, which no file system gives
        return text.encode("utf-8", "replace")


def _read(inside: str) -> Anchor | None:
    """The anchor that a comment's inside is, or None."""
    keys = list(_KEY.finditer(inside))
    if not keys or keys[0].start() != 0:
        return None
    values: dict[str, str] = {}
    for index, match in enumerate(keys):
        end = keys[index + 1].start() if index + 1 < len(keys) else len(inside)
        value = inside[match.end() : end].strip()
        if match[1] in _IDS and len(value.split()) > 1:
            return None  # a sentence of a human's, "session: we talked about …"
        values.setdefault(match[1], decode_value(value))
    # What has no escapes of ours may be undecodable all the same; ids are shown and stored.
    ids = {key: path_bytes(values.pop(key, "")).decode("utf-8", "replace") for key in _IDS}
    paths = {key: values.pop(key, "") for key in _PATHS}
    if not ids["session"] and not any(paths.values()):
        return None
    return Anchor(
        session=ids["session"],
        turn=ids["turn"],
        platform=ids["platform"] or told_platform(**paths),
        **paths,
        extra=tuple(values.items()),
    )
