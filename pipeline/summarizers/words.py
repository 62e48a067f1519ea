"""Small questions about a text that the prompt, the notes and the triviality rule share."""

from __future__ import annotations

import math
import re
import unicodedata

#: Share of Han characters among Han characters and other words from which on a text counts
#: as Chinese. A Han character carries about as much as a word; commands, paths and names in
#: a Chinese sentence are words too, so the share is far below one half.
CHINESE_SHARE = 0.3

#: Characters of a text that are looked at to tell its language.
LANGUAGE_SAMPLE_CHARS = 4_000

#: Characters that one token stands for in text that is not CJK, on average.
CHARS_PER_TOKEN = 4.0

_HAN = re.compile(r"[㐀-䶿一-鿿豈-﫿]")
_KANA_HANGUL = re.compile(r"[぀-ヿ가-힯]")
_CJK = re.compile(r"[぀-ヿ㐀-䶿一-鿿가-힯豈-﫿]")
_BETWEEN_WORDS = re.compile(r"[\s㐀-䶿一-鿿，。！？；：、（）《》“”]+")
_FENCED = re.compile(r"^[ \t]*(`{3,}|~{3,}).*?(?:^[ \t]*\1[^\n]*$|\Z)", re.M | re.S)

_ESCAPE_CODES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])?")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]")
# Zero-width and direction marks change how a line reads without being seen.
_INVISIBLE = re.compile(
    "[\\u200b\\u200e\\u200f\\u202a-\\u202e\\u2060-\\u2064\\u2066-\\u206f\\ufeff]"
)

_SENTENCE_ENDS = "。！？；!?"
#: Cutting at a sentence or word may cost at most this share of the allowed length.
_MIN_KEPT_SHARE = 0.6


def is_chinese(text: str) -> bool:
    """Whether the user who wrote ``text`` writes Chinese. Code blocks do not count."""
    sample = _FENCED.sub(" ", text[:LANGUAGE_SAMPLE_CHARS])
    if _KANA_HANGUL.search(sample):
        return False
    han = len(_HAN.findall(sample))
    if han == 0:
        return False
    pieces = _BETWEEN_WORDS.split(sample)
    others = sum(1 for piece in pieces if any(char.isalpha() for char in piece))
    return han >= CHINESE_SHARE * (han + others)


def columns(text: str) -> int:
    """Width of a text as a terminal shows it: wide characters count two."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def estimate_tokens(text: str) -> int:
    """About how many tokens a model takes for ``text``.

    One token for each CJK character and one for every four others, the rule of thumb of the
    usual byte-pair vocabularies; real counts differ by a third either way.
    """
    cjk = len(_CJK.findall(text))
    return cjk + math.ceil((len(text) - cjk) / CHARS_PER_TOKEN)


def plain(text: str) -> str:
    """``text`` without terminal codes, control and invisible characters.

    Line breaks and tabs stay; lone surrogates, which UTF-8 cannot hold, become ``?``.
    """
    text = _CONTROLS.sub(" ", _ESCAPE_CODES.sub("", text))
    return _INVISIBLE.sub("", text).encode("utf-8", "replace").decode("utf-8")


def one_line(text: str) -> str:
    """``text`` with every run of white space as one space."""
    return " ".join(text.split())


def clip(text: str, limit: int) -> str:
    """One line of at most ``limit`` characters, cut at a sentence, else at a word.

    A cut is shown by an ellipsis, which counts; a cut after a whole sentence needs none.
    """
    line = one_line(text.strip()[: limit * 8 + 200])
    if len(line) <= limit:
        return line
    window = line[: limit - 1]
    floor = int(limit * _MIN_KEPT_SHARE)
    for index in range(len(window) - 1, floor - 1, -1):
        char = window[index]
        if char in _SENTENCE_ENDS or (char == "." and line[index + 1] == " "):
            return window[: index + 1]
    space = window.rfind(" ", floor)
    # A blank is a good place between words; Chinese may be cut anywhere.
    if space > 0 and not _CJK.match(window[-1]):
        window = window[:space]
    return window.rstrip(" ,;:，；：、") + "…"
