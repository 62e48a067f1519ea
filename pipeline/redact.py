"""The one redactor: secrets out, everything else as it was.

It runs once, in the capture stage, before a turn is stored or sent. Pure; what a secret looks
like stands in ``secrets_rules``. A secret becomes ``[redacted:kind]``, so a reader and a model
see that something stood there. Redacting twice changes nothing more.
"""

from __future__ import annotations

import base64
import bisect
import dataclasses
import functools
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from memsearch.config import patterns
from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.pipeline import secrets_near, secrets_services, secrets_views
from memsearch.pipeline import secrets_rules as rules
from memsearch.pipeline import secrets_values as values
from memsearch.sources.base import Turn
from memsearch.sources.bounds import beginning, redacting

#: Own patterns are run on pieces of lines of this many characters, so that one that is
#: merely slow stays bearable.
MAX_PATTERN_PIECE = 500
#: Characters that two such pieces share.
PIECE_OVERLAP = 150
#: Processor seconds that one own pattern may take for one text.
MAX_PATTERN_SECONDS = 5.0


class RedactSettings(Protocol):
    """``settings.redact``."""

    @property
    def patterns(self) -> Sequence[str]: ...
    @property
    def allow(self) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True)
class OwnRules:
    """A user's ``redact.patterns`` and ``redact.allow``, compiled."""

    patterns: tuple[re.Pattern[str], ...] = ()
    allow: tuple[re.Pattern[str], ...] = ()


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without its secrets, and how many of each kind were taken out."""

    text: str
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Span:
    start: int
    end: int
    kind: str
    rank: int  # of two that overlap, the lower gives the kind
    name: int = -1  # where the match began that found it; -1: at ``start``


def redact(text: str, own: OwnRules | None = None) -> Redacted:
    """Take the secrets out of one text.

    Args:
        text: Any text.
        own: The user's own rules, from ``own_rules``.
    """
    marks = [match.span() for match in _MARK.finditer(text)] if "[redacted:" in text else []
    spans = [span for span in _everywhere(text, own) if not _from_mark(span, marks)]
    if own is not None and own.allow:
        spans = [span for span in spans if not _allowed(text[span.start : span.end], own)]
    if not spans:
        return Redacted(text)
    parts: list[str] = []
    counts: Counter[str] = Counter()
    at = 0
    for span in _merged(spans):
        parts += [text[at : span.start], f"[redacted:{span.kind}]"]
        counts[span.kind] += 1
        at = span.end
    parts.append(text[at:])
    return Redacted("".join(parts), dict(counts))


#: What stands in a secret's place.
_MARK = re.compile(r"\[redacted:[a-z0-9-]{1,40}\]")


def _from_mark(span: _Span, marks: Sequence[tuple[int, int]]) -> bool:
    """Whether what was found is the word in a mark, or what it seems to be the name of."""
    name = span.name if span.name >= 0 else span.start
    return any(_inside(marks, at) for at in {name, span.start})


def _inside(marks: Sequence[tuple[int, int]], at: int) -> bool:
    before = bisect.bisect_left(marks, (at, 0)) - 1
    return before >= 0 and at < marks[before][1]


def redact_text(text: str, settings: RedactSettings) -> str:
    """Take the secrets out of one text, by the user's rules too.

    Raises:
        MemsearchError: as for ``redact_turn``.
    """
    return redact(text, own_rules(tuple(settings.patterns), tuple(settings.allow))).text


def reading(settings: RedactSettings | None = None) -> AbstractContextManager[None]:
    """While it lasts, what a source reads is cut so that no part of a secret is left.

    Args:
        settings: ``settings.redact``; None: the built-in rules alone.

    Raises:
        MemsearchError: as for ``redact_turn``.
    """
    own = None
    if settings is not None:
        own = own_rules(tuple(settings.patterns), tuple(settings.allow))
    return redacting(lambda text: redact(text, own).text)


def excerpt(text: str, limit: int) -> str:
    """The first ``limit`` characters of a text without secrets, also where one lies across."""
    with reading():
        return redact(beginning(text, limit)).text[:limit]


def redact_turn(turn: Turn, settings: RedactSettings | None = None) -> tuple[Turn, dict[str, int]]:
    """Take the secrets out of every text of a turn.

    Args:
        turn: As the source read it.
        settings: ``settings.redact``; None: the built-in rules alone.

    Raises:
        MemsearchError: ``CONFIG`` when a pattern of the settings cannot be used. Nothing
            is stored then, rather than a turn that the user wanted redacted.
    """
    own = None
    if settings is not None:
        own = own_rules(tuple(settings.patterns), tuple(settings.allow))
    counts: Counter[str] = Counter()

    def clean(text: str) -> str:
        result = redact(text, own)
        counts.update(result.counts)
        return result.text

    items = tuple(
        dataclasses.replace(
            item, text=clean(item.text), name=clean(item.name), output=clean(item.output)
        )
        for item in turn.items
    )
    return dataclasses.replace(turn, items=items), dict(counts)


# ----------------------------------------------------------------------------- finding


def _everywhere(text: str, own: OwnRules | None) -> Iterator[_Span]:
    """In the text, in what is seen of it, and in what is in it in base64."""
    yield from _find(text, own)
    yield from _in_base64(text)
    seen = secrets_views.view(text)
    if seen is not None:
        for span in _find(seen.text, own):
            start, end = seen.span(span.start, span.end)
            name = seen.span(span.name, span.name + 1)[0] if span.name >= 0 else -1
            yield _Span(start, end, span.kind, span.rank, name)


#: A run of base64 that may be a text; longer ones are files.
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/]{24,8000}+={0,2}(?![A-Za-z0-9+/=_-])")


def _in_base64(text: str) -> Iterator[_Span]:
    """Texts in base64 that hold a secret: what ``base64 -d`` gives back."""
    for match in _BASE64.finditer(text):
        body = match[0].rstrip("=")
        if len(body) % 4 == 1 or body.islower() or body.isupper() or body.isalpha():
            continue
        plain = base64.b64decode(body + "=" * (-len(body) % 4))
        if plain.isascii() and not _NO_TEXT.search(plain):
            held = next(_find(plain.decode("ascii"), None), None)
            if held is not None:
                yield _Span(*match.span(), held.kind, held.rank)


_NO_TEXT = re.compile(rb"[^\t\n\r -~]")


def _find(text: str, own: OwnRules | None) -> Iterator[_Span]:
    lower = _lower(text)
    rank = 0
    if "private" in lower:
        yield from _private_keys(text)
    for rule in _RULES:
        rank += 1
        if not any(needle in lower for needle in rule.needles):
            continue
        group = "secret" if "secret" in rule.pattern.groupindex else 0
        for match in rule.pattern.finditer(lower if rule.lowered else text):
            if rule.glue is not None and not rules.at_edge(text, match.start(), rule.glue):
                continue
            if rule.behind is not None and not _stands_behind(rule.behind, text, match.start()):
                continue
            start, end = match.span(group)
            if rule.accept is None or rule.accept(text[start:end]):
                yield _Span(start, end, rule.kind, rank, match.start())
    yield from _torn_tokens(text)
    yield from _named(text, lower, rank + 1)
    yield from _high_entropy(text, rank + 3)
    for start, end, password, word in secrets_near.near(lower, text):
        yield _Span(start, end, _NAMED_KIND[password], rank + 4, word)
    if own is not None:
        yield from _own(text, own, rank + 5)


_RULES = (*rules.TOKENS, *secrets_services.TOKENS, *rules.CONTEXTS)


def _stands_behind(pattern: re.Pattern[str], text: str, at: int) -> bool:
    return pattern.search(text, max(0, at - rules.BEHIND_CHARS), at) is not None


#: Characters on each side of a joint in which the two halves of a token lie.
JOINT_CHARS = 300


def _torn_tokens(text: str) -> Iterator[_Span]:
    """Tokens that go on in the next line of a command, or in the next string of a program."""
    joints = [match.span() for match in rules.JOINT.finditer(text)]
    at = 0
    while at < len(joints):
        # Joints near each other are looked at together.
        last = at
        while last + 1 < len(joints) and joints[last + 1][0] - joints[last][1] < JOINT_CHARS:
            last += 1
        yield from _across(text, joints[at : last + 1])
        at = last + 1


def _across(text: str, joints: Sequence[tuple[int, int]]) -> Iterator[_Span]:
    """Tokens that lie across some of these joints, in the places that they have in ``text``."""
    start = max(0, joints[0][0] - JOINT_CHARS)
    pieces: list[tuple[int, int, int]] = []  # where it begins joined, and from where to where
    joined: list[str] = []
    length = 0
    for since, end in zip(
        [start, *(stop for _, stop in joints)],
        [*(begin for begin, _ in joints), min(len(text), joints[-1][1] + JOINT_CHARS)],
        strict=True,
    ):
        pieces.append((length, since, end))
        joined.append(text[since:end])
        length += end - since
    whole = "".join(joined)
    lower = _lower(whole)

    def place(index: int) -> int:
        piece = bisect.bisect_right(pieces, (index, len(text), 0)) - 1
        return pieces[piece][1] + index - pieces[piece][0]

    for rank, rule in enumerate((*rules.TOKENS, *secrets_services.TOKENS)):
        if any(needle in lower for needle in rule.needles):
            for match in rule.pattern.finditer(whole):
                first, end = place(match.start()), place(match.end() - 1) + 1
                crosses = any(first < joint[0] and joint[1] < end for joint in joints)
                edge = rule.glue is None or rules.at_edge(whole, match.start(), rule.glue)
                if crosses and edge and (rule.accept is None or rule.accept(match[0])):
                    yield _Span(first, end, rule.kind, rank + 1)


_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def _lower(text: str) -> str:
    """``text`` in lower case, each character still at its place."""
    lower = text.lower()
    # A few letters become two ("İ").
    return lower if len(lower) == len(text) else text.translate(_ASCII_LOWER)


_QUOTED_GROUPS = ("dq", "sq", "bq", "eq")


def _named(text: str, lower: str, rank: int) -> Iterator[_Span]:
    """Values of names that say that they are secret."""
    for match in rules.ENV_LINE.finditer(text):
        name, value = match["name"], match["value"]
        if rules.ENV_SECRET.search(name):
            password = rules.ENV_PASSWORD.search(name) is not None
            judge = values.is_password if password else values.is_token
            if judge(value, quoted=False, env_line=True):
                yield _Span(*match.span("value"), _NAMED_KIND[password], rank)
    for stem in rules.STEMS:
        at = lower.find(stem)
        while at >= 0:
            span = _assignment(text, at, rank + 1)
            if span is not None:
                yield span
            at = lower.find(stem, at + len(stem))
    for match in rules.ASSIGNMENT_CJK.finditer(text):
        value = _unbracketed(match["bare"].rstrip(".,;:!?"))
        password = match["password"] is not None
        if match["op"].isspace() and not values.looks_random(value):
            continue
        judge = values.is_password if password else values.is_token
        if judge(value, quoted=False):
            start = match.start("bare")
            yield _Span(start, start + len(value), _NAMED_KIND[password], rank + 1)


_NAMED_KIND = {True: "password", False: "secret"}


def _assignment(text: str, at: int, rank: int) -> _Span | None:
    """The value of the ``name: value`` whose secret word stands at ``at``."""
    match = rules.ASSIGNMENT.match(text, at)
    if match is None:
        return None
    unsure = False
    word, op = match["word"].lower(), match["op"].strip().rstrip(":").rstrip()
    before = rules.name_before(text, at).lower()
    blank = match["op"].isspace()
    if word == "pw" and before and before[-1].isalpha() and not rules.at_edge(text, at, ""):
        return None
    if word == "pass" and not (match["word"].isupper() or before.endswith(("_", "-", "."))):
        # "3 tests pass: ..." as against a key of JSON, or a line of YAML.
        if text[at - 1 : at] not in ("'", '"') and not _begins_line(text, at):
            return None
        unsure = True
    if before.endswith("ask"):
        return None  # GIT_ASKPASS names a program
    if word == "key" and not before.rstrip("_-.").endswith(rules.SECRET_KEYS):
        return None
    if before.rstrip("_-.").endswith(("public", "publickey")):
        return None
    if match["op"] == ":" and _ARN.search(text, max(0, at - rules.BEHIND_CHARS), at):
        return None  # the name of a secret at AWS
    group = next((name for name in _QUOTED_GROUPS if match[name] is not None), "bare")
    value = match[group]
    start = match.start(group)
    prose = op in ("is", "was")
    if group == "bare":
        value = _unbracketed(value.rstrip(".,;:!?") if prose else value)
    if value.startswith("?") and text[at - len(before) - 2 : at - len(before)] == "${":
        return None  # ${PASSWORD:?what to say where it is not set}
    end = start + len(value)
    after = text[end : end + 1] or " "
    if blank and not before.startswith("--") and not _set_by_command(before + word, value):
        said = match["password"] is not None and group == "bare" and _is_plainly_random(value)
        if not said and not (_is_set(text, at) and values.looks_random(value)):
            return None  # a blank binds a value to a command's option only
    if unsure and not values.looks_random(value):
        return None
    if prose and not values.looks_random(value):
        return None  # "the token is expired", "the password is wrong"
    quoted = group != "bare"
    if match["password"] is None:
        secret = values.is_token(value, quoted=quoted, after=after)
    elif word == "passphrase" and quoted and len(value) >= 8:
        secret = not values.is_placeholder(value)  # the one that may hold blanks
    else:
        spaced = blank or ("=" in op and op != match["op"])
        if after == ";" and "=" in op:
            after = " "  # "Pwd=x;" of a connection string, as against "password: string;"
        secret = values.is_password(value, quoted=quoted, spaced=spaced, after=after)
    kind = _NAMED_KIND[match["password"] is not None]
    return _Span(start, end, kind, rank, at) if secret else None


_ARN = re.compile(r"arn:[\w:-]{1,70}:\Z")


def _set_by_command(name: str, value: str) -> bool:
    """``aws configure set aws_secret_access_key X``: a name of code, a value of a machine."""
    return (
        "_" in name
        and len(value) >= 16
        and any(char.isdigit() for char in value)
        and any(char.isupper() for char in value)
        and any(char.islower() for char in value)
    )


def _is_set(text: str, at: int) -> bool:
    """Whether "set " stands before a name."""
    return text[max(0, at - 4) : at].lower() == "set "


def _begins_line(text: str, at: int) -> bool:
    """Whether nothing but blanks and marks of a list stand before ``at`` in its line."""
    before = text[max(0, at - 40) : at].rpartition("\n")
    return bool(before[1] or at <= 40) and not before[2].strip(" \t-{,")


def _is_plainly_random(value: str) -> bool:
    """A value that is a password in prose too: letters, digits and a sign of no word."""
    return (
        len(value) >= 8
        and any(char.isdigit() for char in value)
        and any(char.isalpha() for char in value)
        # A number behind "#" is an issue's.
        and any(char in "!@$%^&*?~+" for char in value[:-1])
        and not values.is_code(value)
    )


_OPENING = {")": "(", "]": "[", "}": "{", ">": "<"}


def _unbracketed(value: str) -> str:
    """A value without what belongs to the code around it: ``None):`` gives ``None``."""
    while value:
        bare = value.rstrip(":;,")
        opening = _OPENING.get(bare[-1:], "")
        if not opening or bare.count(bare[-1]) <= bare.count(opening):
            break
        value = bare[:-1]
    return value.rstrip(":")


def _high_entropy(text: str, rank: int) -> Iterator[_Span]:
    for match in rules.HIGH_ENTROPY.finditer(text):
        if values.is_high_entropy(match["name"], match["secret"]):
            yield _Span(match.start("secret"), match.end("secret"), "high-entropy", rank)


# ------------------------------------------------------------------------ private keys

_KEY_MARK = re.compile(
    r"-{4,5} ?(?P<which>BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
    r"|(?P<putty>Private-Lines: \d{1,4})"
)
#: A key with its armour is no longer than this, in characters.
_MAX_KEY_CHARS = 50_000
# What stands between the lines of a key: breaks (also as two characters inside JSON),
# quotes, and the marks of quoted or diffed text.
_BETWEEN = r"(?:\\[rn]|[\s|>\"',+])"
_KEY_LINE = re.compile(
    _BETWEEN + r"{0,20}(?:(?:Proc-Type|DEK-Info|Version|Comment|Hash):[^\r\n\\]{0,200}"
    r"|[A-Za-z0-9+/]{16,}={0,2})"
)
_KEY_REST = re.compile(_BETWEEN + r"{1,20}[A-Za-z0-9+/]{1,64}={0,2}(?![A-Za-z0-9 ])")
_KEY_LINE_BACK = re.compile(r"[A-Za-z0-9+/]{1,200}={0,2}")
#: A line of a key, whatever stands before and behind it: a number, a time, a mark of a comment.
_KEY_RUN = re.compile(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{40,}+={0,2}(?![A-Za-z0-9+/=])")
#: Characters, and ends of lines, that may stand between two of these.
_KEY_GAP_CHARS = 400
_KEY_GAP_LINES = 4
#: What stands between a key and something else.
_NOT_OF_IT = re.compile(r"----|ssh-|Private-Lines")
#: No line of a key is longer than this, in characters.
_KEY_RUN_CHARS = 2_000
#: The last line, which may be a short one.
_KEY_TAIL = re.compile(
    r"[^\n]{0,40}?(?:\\{1,7}[rn]|\n|<br>)[^\n]{0,60}?(?<![A-Za-z0-9+/])"
    r"(?:[A-Za-z0-9+/]{2,64}={1,2}|[A-Za-z0-9+/]{16,40})(?![A-Za-z0-9+/=])"
)
_LEAST_KEY_LINE = 16
_BREAK = re.compile(r"\\n|\n")


def _private_keys(text: str) -> Iterator[_Span]:
    """Keys in armour: whole, without their end, without their beginning."""
    begin: re.Match[str] | None = None
    floor = 0  # the end of the mark before
    for mark in _KEY_MARK.finditer(text):
        if mark["putty"]:
            yield _Span(mark.start(), _body_end(text, mark.end()), "private-key", 0)
        elif mark["which"] == "BEGIN":
            if begin is not None:
                yield from _without_end(text, begin)
            begin = mark
        elif begin is not None and mark.start() - begin.end() <= _MAX_KEY_CHARS:
            yield _Span(begin.start(), mark.end(), "private-key", 0)
            begin = None
        else:
            if begin is not None:
                yield from _without_end(text, begin)
                begin = None
            yield _Span(_body_start(text, floor, mark.start()), mark.end(), "private-key", 0)
        floor = mark.end()
    if begin is not None:
        yield from _without_end(text, begin)


def _without_end(text: str, begin: re.Match[str]) -> Iterator[_Span]:
    """A key that goes on to where its lines end; a program that looks for keys has none."""
    end = _body_end(text, begin.end())
    in_code = text[begin.start() - 1 : begin.start()] == text[end : end + 1] != ""
    if end > begin.end() or not (in_code and text[end] in "\"'`"):
        yield _Span(begin.start(), end, "private-key", 0)


def _body_end(text: str, at: int) -> int:
    """Where a key's lines end that begin at ``at``."""
    end = at
    while (match := _KEY_LINE.match(text, end)) and end - at < _MAX_KEY_CHARS:
        end = match.end()
    if end > at and (match := _KEY_REST.match(text, end)):
        end = match.end()
    return max(end, _marked_end(text, end, at))


def _marked_end(text: str, begin: int, at: int) -> int:
    """The same where something stands before each line."""
    end = begin
    while end - at < _MAX_KEY_CHARS:
        match = _KEY_RUN.search(text, end, min(len(text), end + _KEY_GAP_CHARS + _KEY_RUN_CHARS))
        if not match or not _follows(text, end, match.start()) or not _is_key_run(match[0]):
            break
        end = match.end()
    if end > begin and (match := _KEY_TAIL.match(text, end)):
        end = match.end()
    return end


def _follows(text: str, end: int, start: int) -> bool:
    if start - end > _KEY_GAP_CHARS or _NOT_OF_IT.search(text, end, start):
        return False
    return sum(1 for _ in _BREAK.finditer(text, end, start)) <= _KEY_GAP_LINES


def _is_key_run(run: str) -> bool:
    """As against a path or a name: both cases and digits, mixed all through."""
    return values.is_mixed(run.rstrip("="))


def _body_start(text: str, floor: int, at: int) -> int:
    """Where the lines of a key begin that end at ``at``, not before ``floor``."""
    floor = max(floor, at - _MAX_KEY_CHARS)
    lines: list[tuple[int, int]] = []
    start = floor
    for match in _BREAK.finditer(text, floor, at):
        lines.append((start, match.start()))
        start = match.end()
    lines.append((start, at))
    begin = at
    for start, end in reversed(lines):
        line = text[start:end].strip(" \t\r|>\"',+")
        whole = _KEY_LINE_BACK.fullmatch(line) is not None
        torn = start == 0 and not (line.islower() or line.istitle())
        if not line or (whole and (len(line) >= _LEAST_KEY_LINE or torn)):
            begin = start
            continue
        # The torn first line may hang on something else: "output: MIIE…".
        tail = line.rpartition(" ")[2]
        if len(tail) >= _LEAST_KEY_LINE and _KEY_LINE_BACK.fullmatch(tail):
            begin = text.rindex(tail, start, end)
        break
    for run in reversed(list(_KEY_RUN.finditer(text, floor, begin))):
        if not _follows(text, run.end(), begin) or not _is_key_run(run[0]):
            break
        begin = run.start()
    return begin


# ---------------------------------------------------------------------- one's own rules


@functools.lru_cache(maxsize=16)
def own_rules(patterns: tuple[str, ...], allow: tuple[str, ...]) -> OwnRules:
    """Compile ``redact.patterns`` and ``redact.allow``.

    Raises:
        MemsearchError: ``CONFIG`` naming the pattern and what is wrong with it.
    """
    return OwnRules(
        patterns=tuple(_compiled(p, f"redact.patterns[{i}]") for i, p in enumerate(patterns)),
        allow=tuple(_compiled(p, f"redact.allow[{i}]") for i, p in enumerate(allow)),
    )


def _compiled(pattern: str, where: str) -> re.Pattern[str]:
    fault = patterns.fault(pattern)
    if fault:
        raise MemsearchError(
            f"{where} = {pattern!r} cannot be used: {fault}",
            kind=ErrorClass.CONFIG,
            hint="write it without a repeat inside a repeat, and with bounded ones like {8,64}",
        )
    return re.compile(pattern)


def _own(text: str, own: OwnRules, rank: int) -> Iterator[_Span]:
    for pattern in own.patterns:
        group = "secret" if "secret" in pattern.groupindex else 0
        started = time.thread_time()
        for offset, piece in _pieces(text):
            if time.thread_time() - started > MAX_PATTERN_SECONDS:
                # Going on without it would store what the user wanted out.
                raise MemsearchError(
                    f"redact.patterns: {pattern.pattern!r} is too slow",
                    kind=ErrorClass.CONFIG,
                    hint="begin it with fixed text and bound its repeats, like {8,64}",
                )
            for match in pattern.finditer(piece):
                if match[group]:
                    yield _Span(
                        offset + match.start(group), offset + match.end(group), "custom", rank
                    )


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a text with their offsets, long ones in overlapping pieces."""
    at = 0
    for line in text.split("\n"):
        for start in range(0, max(1, len(line)), MAX_PATTERN_PIECE - PIECE_OVERLAP):
            piece = line[start : start + MAX_PATTERN_PIECE]
            yield at + start, piece
            if start + MAX_PATTERN_PIECE >= len(line):
                break
        at += len(line) + 1


def _allowed(secret: str, own: OwnRules) -> bool:
    head = secret[:MAX_PATTERN_PIECE]
    return any(pattern.fullmatch(head) for pattern in own.allow)


def _merged(spans: Iterable[_Span]) -> list[_Span]:
    """Spans in order; those that overlap as one, of the most telling kind."""
    merged: list[_Span] = []
    for span in sorted(spans, key=lambda span: (span.start, span.rank)):
        if merged and span.start < merged[-1].end:
            last = merged[-1]
            kind = span if span.rank < last.rank else last
            merged[-1] = _Span(last.start, max(last.end, span.end), kind.kind, kind.rank)
        else:
            merged.append(span)
    return merged
