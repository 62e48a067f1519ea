"""Words to search by: one function for texts and for questions, so that they meet.

The index's keyword leg is BM25 over a field that the Milvus "standard" analyzer splits, and
that analyzer differs: Milvus Lite takes every run of word characters (Chinese without blanks
is one word there), a server follows Unicode's word boundaries (each Han character is a word).
What this module gives is therefore made of ASCII letters and digits between blanks: every
analyzer leaves such tokens whole, and all work is done here.

=====================  ============================================  =========================
text                   tokens                                        why
=====================  ============================================  =========================
``running tests``      ``run test``                                  Snowball English
``getUserById``        ``getuserbyid get user id``                   whole, and split
``get_user_by_id``     ``getuserbyid get user id``                   same name, other habit
``src/auth/login.ts``  ``srcauthlogint src auth logint login ts``    the file by any part
``Node.js``            ``nodej node js``                             also as ``nodejs``
``TS2345``             ``ts2345 ts 2345``                            codes
``v1.2.3``             ``1p2p3 1p2``                                 ``123`` is another number
``#123``               ``no123 123``
``备份脚本``           ``u5907u4efd u4efdu811a u811au672c``          bigrams, by code points
``3月3日``             ``3u6708 3u67083u65e5``                       a date is one word
``naïve``              ``naiv``                                      accents are dropped
``備份``               ``u5907u4efd``                                as ``备份``
``🐛``                 ``u1f41b``                                    a sign of its own
=====================  ============================================  =========================
"""

from __future__ import annotations

import functools
import hashlib
import re
import threading
import unicodedata
from collections.abc import Iterator
from datetime import date
from itertools import pairwise

import snowballstemmer

from memsearch.sinks.anchors import without_comments
from memsearch.sinks.hanzi import TO_SIMPLIFIED
from memsearch.sinks.stopwords import CHINESE, CHINESE_KEPT, ENGLISH
from memsearch.sinks.types import Chunk

#: Part of the index's identity: goes up when the same text gives other keywords.
KEYWORDS_VERSION = 2

#: Limit of the index's field, in bytes (the tokens are ASCII).
MAX_KEYWORDS_BYTES = 65_535
#: A longer text, in characters, cannot be a chunk; the rest of it is not read.
MAX_TEXT_CHARS = 65_535
#: A token that is longer, in characters, becomes a hash: some analyzers drop long words.
MAX_TOKEN_CHARS = 40
#: Words and names whose tokens are kept in memory: a text repeats most of its words.
WORD_CACHE = 32_768

_MONTHS = (
    "January February March April May June July August September October November December"
).split()

# Scripts that put no blanks between words; their runs become bigrams.
_UNSPACED = (
    "\u0e01-\u0e4e\u0e81-\u0edf\u1000-\u109f\u1780-\u17d3"  # Thai, Lao, Myanmar, Khmer
    "\u3005\u3007\u3041-\u3096\u309d-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # kana
    "\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3"  # Hangul
    "\u2e80-\u2fd5\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
_TOKEN = re.compile(
    r"(?:(?P<year>[0-9]{4})年)?(?P<month>[0-9]{1,2})月(?:(?P<day>[0-9]{1,2})[日号號])?"
    r"|(?P<only_year>[0-9]{4})年"
    # Words joined by marks that names, paths, versions and addresses have inside.
    r"|(?P<number>\#(?=[0-9]))?"
    r"(?P<name>[A-Za-z0-9_]+(?:(?:::|->|[./\\@:'-])[A-Za-z0-9_]+)*)"
    r"(?P<sign>\+\+|\#(?![A-Za-z0-9_]))?"
    rf"|(?P<run>[{_UNSPACED}]+)"
    rf"|(?P<other>(?:(?![{_UNSPACED}])[^\W\x00-\x7f])+)"
    # Emoji and the pictures before them; what joins and colours them is left out before.
    r"|(?P<picture>[\u2600-\u27bf\U0001f300-\U0001f3fa\U0001f400-\U0001faff])"
)
_SCHEME = re.compile(r"\b(?:https?|ftp|file|ssh|git|wss?)://")
_THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
_ACCENTED = re.compile("[\u00c0-\u024f\u1e00-\u1eff]")
_UNACCENTED = str.maketrans(
    {"ß": "ss", "ẞ": "Ss", "æ": "ae", "Æ": "Ae", "ø": "o", "Ø": "O", "đ": "d", "Đ": "D"}
    | {"ł": "l", "Ł": "L", "œ": "oe", "Œ": "Oe", "þ": "th", "Þ": "Th", "ð": "d", "ı": "i"}
)
_CHINESE_WORDS = re.compile(
    "|".join(
        f"(?P<kept{n}>{word})" if word in CHINESE_KEPT else word
        for n, word in enumerate(sorted(CHINESE | CHINESE_KEPT, key=lambda w: (-len(w), w)))
    )
)

# How a name is taken apart, widest first: paths, qualified names, dots, the rest.
_SEPARATORS = tuple(re.compile(p) for p in (r"[/\\]", r"::|->|[:@]", r"\.", r"[-_']"))
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_CAMEL_NAME = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]{2}")
_PLURAL_CAPITALS = re.compile(r"[A-Z]{2,}s")
_ORDINAL = re.compile(r"([0-9]+)(?:st|nd|rd|th)")
_VERSION = re.compile(r"[vV]?[0-9]+(?:[.:_-][0-9]+)+|[vV][0-9]+")
# "login.ts:12:5", the way compilers and agents point into a file.
_LINE_NUMBER = re.compile(r"(?::[0-9]+){1,2}\Z")
_IN_A_FILE = re.compile(r"[./\\]")
_HEX = re.compile(r"(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}", re.IGNORECASE)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_DIGIT_BORDER = re.compile(r"(?<=[0-9])[^A-Za-z0-9]+(?=[0-9])")
_NOT_ALNUM = re.compile(r"[^A-Za-z0-9]+")
_DATE_OR_TIME = re.compile(r"[0-9]+(?:[-:][0-9]+)+")
_PATH_START = ("/", "~", "@", ".", "$")
_BACKTICKED = re.compile(r"`([^`\s]{2,200})`")

#: Digits of an abbreviated commit id: Git's own default.
SHORT_HASH = 7
#: A run of letters or digits inside a code (``TS2345``) is a word of its own from this length.
MIN_RUN = 3


def keywords(text: str, *, day: int = 0) -> str:
    """The tokens of a text, between blanks, in its order and as often as it has them.

    Stop words are left out, unless nothing else is there.

    Args:
        text: A chunk's content or a question. Comments, anchors among them, are left out.
        day: Of a journal, yyyymmdd; its words are added (``2026-03-03 3 March 2026 3月3日``).

    Returns:
        ASCII, at most ``MAX_KEYWORDS_BYTES``; empty when the text has no letter or digit.
    """
    text = _normalised(without_comments(text[:MAX_TEXT_CHARS]))
    tokens = list(_tokens(text, stop=True)) or list(_tokens(text, stop=False))
    if day:
        tokens += _tokens(_normalised(day_words(day)), stop=True)
    joined = " ".join(tokens)
    if len(joined) <= MAX_KEYWORDS_BYTES:
        return joined
    return joined[: joined.rindex(" ", 0, MAX_KEYWORDS_BYTES + 1)]


def query_keywords(text: str) -> str:
    """The tokens of a question: the same as of a text."""
    return keywords(text)


def chunk_keywords(chunk: Chunk) -> str:
    """The keywords of a chunk, as the index holds them.

    A later piece of a cut section does not hold its heading any more, but is about it.
    """
    first = chunk.content.split("\n", 1)[0]
    text = chunk.content if chunk.heading in first else f"{chunk.heading}\n{chunk.content}"
    return keywords(text, day=chunk.day)


def day_words(day: int) -> str:
    """A day as people write it.

    Args:
        day: yyyymmdd.
    """
    at = date(day // 10000, day // 100 % 100, day % 100)
    month = _MONTHS[at.month - 1]
    return f"{at.isoformat()} {at.day} {month} {at.year} {at.month}月{at.day}日"


def identifiers(text: str) -> list[str]:
    """The names in a text that a person copied rather than said, as written, each once.

    That is: what stands between backticks, names in camelCase or with ``_``, paths and
    dotted names, codes (``TS2345``, ``HTTP-404``), versions, commit ids, ``#123``, ``--flag``.
    Plain and hyphenated words, numbers, dates and times are none.
    """
    text = _normalised(text[:MAX_TEXT_CHARS])
    found: dict[str, None] = {}
    for match in _BACKTICKED.finditer(text):
        found[match[1]] = None
    for match in _TOKEN.finditer(text):
        name = match["name"]
        if name is None:
            continue
        before = text[max(0, match.start() - 2) : match.start()]
        if match["number"]:
            found["#" + name] = None
        elif match["sign"] and len(name) == 1:  # C++, C#
            found[name + match["sign"]] = None
        elif _is_identifier(name, before) or (before == "--" and len(name) > 1):
            found[name] = None
    return list(found)


def _is_identifier(name: str, before: str) -> bool:
    """Is this a name by its form? ``before`` are the two characters in front of it."""
    if name.startswith("__"):
        return len(name.strip("_")) > 0
    name = name.strip("_")  # _emphasis_
    if name.isdigit() or _DATE_OR_TIME.fullmatch(name) or _ORDINAL.fullmatch(name.lower()):
        return False
    if "/" in name and re.fullmatch("[A-Za-z]+/[A-Za-z]+", name) and before[-1:] not in _PATH_START:
        return False  # and/or
    if any(mark in name for mark in ("_", "/", "\\", "::", "->", "@")):
        return True
    if any(len(part) > 1 for part in name.split(".")[1:]) and not re.fullmatch("[0-9.]+", name):
        return True
    if name.count(".") > 1 and _VERSION.fullmatch(name):
        return True
    if re.search("[0-9]", name) and re.search("[A-Za-z]", name):
        return True
    return _CAMEL_NAME.search(name) is not None


def _tokens(text: str, *, stop: bool) -> Iterator[str]:
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if match["name"] is not None:
            yield from _name(match["name"], bool(match["number"]), match["sign"] or "", stop)
        elif kind == "run":
            yield from _run(match["run"], stop)
        elif kind == "other":
            yield _encode(match["other"].lower())
        elif kind == "picture":
            yield _encode(match["picture"])
        else:
            yield from _chinese_date(match)


def _chinese_date(match: re.Match[str]) -> Iterator[str]:
    year, month, day = match["year"] or match["only_year"], match["month"], match["day"]
    if year:
        yield year
    if month:
        yield _encode(f"{int(month)}月")
    if month and day:
        yield _encode(f"{int(month)}月{int(day)}日")


def _run(run: str, stop: bool) -> Iterator[str]:
    """Bigrams of a run without blanks, parted at its function words."""
    run = run.translate(TO_SIMPLIFIED)
    for part in _parts(run) if stop else [run]:
        if len(part) == 1:
            yield _encode(part)
        for first, second in pairwise(part):
            yield _encode(first + second)


def _parts(run: str) -> list[str]:
    parts: list[str] = []
    begin = 0
    for match in _CHINESE_WORDS.finditer(run):
        if match.lastgroup is None:
            parts.append(run[begin : match.start()])
            begin = match.end()
    parts.append(run[begin:])
    return [part for part in parts if part]


@functools.lru_cache(maxsize=WORD_CACHE)
def _name(name: str, number: bool, sign: str, stop: bool) -> tuple[str, ...]:
    """Tokens of one name: the whole, its parts, its words; each once."""
    name = name.strip("_")
    if sign and len(name) == 1:  # C++, C#
        return (_joined(name) + ("sharp" if sign == "#" else "plusplus"),)
    tokens: list[str] = [f"no{_joined(name)}"] if number else []
    if "'" in name:
        if _joined(name) in ENGLISH:  # a contraction
            name = _joined(name)
        elif name.lower() == "i'd" and stop:
            return ()
        elif name.lower().endswith("'s"):
            name = name[:-2]
    place = _LINE_NUMBER.search(name)
    if place and _IN_A_FILE.search(name) and not _VERSION.fullmatch(name):
        name = name[: place.start()]
        tokens += [*_taken_apart(name, 0, stop), *place[0].strip(":").split(":")]
    else:
        tokens += _taken_apart(name, 0, stop)
    return tuple(dict.fromkeys(token for token in tokens if token))


def _taken_apart(name: str, level: int, stop: bool) -> Iterator[str]:
    if _VERSION.fullmatch(name):
        numbers = re.findall("[0-9]+", name)
        yield _bounded("p".join(numbers)) if len(numbers) > 1 else f"v{numbers[0]}"
        if len(numbers) > 2:
            yield _bounded("p".join(numbers[:2]))
        return
    if _UUID.fullmatch(name):
        yield name.replace("-", "").lower()
        yield name[:8].lower()
        return
    if _HEX.fullmatch(name):
        yield _bounded(name.lower())
        yield name[:SHORT_HASH].lower()
        return
    for wider in range(level, len(_SEPARATORS)):
        parts = [part for part in _SEPARATORS[wider].split(name) if part]
        if len(parts) > 1:
            yield _whole(name)
            for part in parts:
                yield from _taken_apart(part, wider + 1, stop)
            return
        name = parts[0] if parts else ""
    yield from _word_or_camel(name, level > 0, stop)


def _word_or_camel(name: str, inside: bool, stop: bool) -> Iterator[str]:
    """Tokens of a name without separators; ``inside`` says that it is a part of another."""
    words = _CAMEL.findall(name)
    if len(words) < 2 or _PLURAL_CAPITALS.fullmatch(name):
        yield _word(name, inside, stop)
        return
    ordinal = _ORDINAL.fullmatch(name.lower())
    if ordinal:
        yield ordinal[1]
        return
    yield _whole(name)
    if any(word.isdigit() for word in words):
        for run in re.findall(r"[A-Za-z]+|[0-9]+", name):
            if len(run) >= MIN_RUN or (len(run) == 2 and run.isupper()):
                yield _word(run, True, stop)
    if _CAMEL_NAME.search(name):
        for word in words:
            if not word.isdigit():
                yield _word(word, True, stop)


def _word(word: str, inside: bool, stop: bool) -> str:
    """One plain word, stemmed; empty when it says nothing."""
    word = word.lower()
    if word.isdigit():
        return _bounded(word)
    if inside and len(word) < 2:
        return ""
    if stop and (word in ENGLISH or word == "www"):
        return ""
    return _bounded(_stem(word))


def _joined(name: str) -> str:
    """A name as one token; ``p`` keeps ``1.2`` and ``12`` apart."""
    return _bounded(_NOT_ALNUM.sub("", _DIGIT_BORDER.sub("p", name)).lower())


def _whole(name: str) -> str:
    """A name as one token, stemmed as the word that people make of it: ``Node.js``, nodejs."""
    joined = _joined(name)
    return _stem(joined) if joined.isalpha() else joined


def _bounded(token: str) -> str:
    if len(token) <= MAX_TOKEN_CHARS:
        return token
    return "h" + hashlib.sha256(token.encode()).hexdigest()[:16]


@functools.lru_cache(maxsize=16_384)
def _encode(token: str) -> str:
    """A token of another script in ASCII: each of its characters as ``u`` and its code."""
    return _bounded("".join(c if c.isascii() else f"u{ord(c):04x}" for c in token))


class _Stemmers(threading.local):
    """One stemmer for each thread: it keeps the word it works on in itself."""

    def __init__(self) -> None:
        self.english = snowballstemmer.stemmer("english")


_stemmers = _Stemmers()


def _stem(word: str) -> str:
    stem: str = _stemmers.english.stemWord(word)
    return stem


def _normalised(text: str) -> str:
    """Full-width forms, accents, apostrophes, addresses and thousands in their plain form."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).replace("’", "'")
        text = _ACCENTED.sub(lambda match: _unaccented(match[0]), text)
        # Marks (vowel points, tones) and invisible characters would part words.
        text = "".join(c for c in text if c.isascii() or not _is_mark(c))
    return _THOUSANDS.sub("", _SCHEME.sub(" ", text))


@functools.lru_cache(maxsize=1024)
def _unaccented(char: str) -> str:
    plain = unicodedata.normalize("NFKD", char.translate(_UNACCENTED))
    return "".join(c for c in plain if c.isascii()) or char


@functools.lru_cache(maxsize=4096)
def _is_mark(char: str) -> bool:
    return unicodedata.category(char) in {"Mn", "Mc", "Me", "Cf"}
