"""Text to the token ids of multilingual-e5-small: SentencePiece Unigram, in Python.

The Unigram model of the ``tokenizers`` library holds the 250,002 pieces in a tree that takes
262 MB and 1.2 s to build; a dictionary takes 42 MB and 0.15 s. A chunk then costs a few
milliseconds more, beside the 50 to 100 that the network needs for it. A test holds the ids to
that library's and to those of the engine that the weights come with.

The steps (Kudo and Richardson 2018; Kudo 2018 for the Unigram segmentation):

1. Each code point is replaced by the normalisation table (NFKC with SentencePiece's changes:
   controls vanish, every kind of blank becomes a space); runs of spaces become one.
2. Every word gets a leading ``▁``, the text's first one included.
3. A word is cut into the pieces whose scores sum up highest (Viterbi). A character that no
   piece covers becomes the unknown token with a score below all others.

Pieces never hold ``▁`` but at their start, so words are independent, and short ones are cached.
"""

from __future__ import annotations

import re
from functools import lru_cache

from memsearch.sinks.embedders.e5_weights import Vocabulary

#: The mark of a word's start.
META = "▁"

#: How far below the worst piece an unknown character scores (SentencePiece's kUnkPenalty).
UNKNOWN_PENALTY = 10.0

#: Words up to this many characters are cached; longer ones (Chinese, hashes) seldom repeat.
CACHED_WORD_CHARS = 20

#: Words that the cache holds: about 2 MB.
CACHED_WORDS = 8192

_SPACES = re.compile("  +")
_WORST = float("-inf")


class E5Tokenizer:
    """Thread-safe once built.

    Args:
        vocabulary: The tables; the lists of it are not kept.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        # "<s>" and its like in a text are text, not control: data must not steer the model.
        control = {vocabulary.bos, vocabulary.eos, vocabulary.pad, vocabulary.unk}
        pieces = vocabulary.pieces
        control.update(i for i, piece in enumerate(pieces) if piece == "<mask>")
        self._ids = {piece: i for i, piece in enumerate(pieces) if i not in control}
        self._scores = vocabulary.scores
        self._replacements = vocabulary.replacements
        self._longest = max(map(len, self._ids))
        self._unk = vocabulary.unk
        self._unknown_score = min(vocabulary.scores) - UNKNOWN_PENALTY
        self._cached = lru_cache(maxsize=CACHED_WORDS)(self._segment)

    def normalise(self, text: str) -> str:
        """The text as the pieces see it, before the words are marked."""
        return _SPACES.sub(" ", text.translate(self._replacements))

    def encode(self, text: str, limit: int) -> list[int]:
        """Token ids of a text, without the start and end tokens.

        Args:
            text: Any text; lone surrogates count as unknown characters.
            limit: Tokens wanted at most. What lies beyond them is not even looked at, so a
                text of any length costs bounded time.
        """
        # A normalised character is rarely dropped; one in four input characters at the least
        # is far more text than the limit needs, and 16 characters of it are one token at most.
        reach = limit * self._longest + 1
        text = self.normalise(text[: 4 * reach])[:reach]
        if not text.startswith(" "):
            text = " " + text
        ids: list[int] = []
        for word in text[1:].split(" "):
            cut = self._cached if len(word) <= CACHED_WORD_CHARS else self._segment
            ids.extend(cut(META + word))
            if len(ids) >= limit:
                break
        return ids[:limit]

    def _segment(self, word: str) -> tuple[int, ...]:
        """The best cut of one word, by Viterbi over its characters."""
        end_of_word = len(word)
        lookup, scores, longest = self._ids.get, self._scores, self._longest
        best = [_WORST] * (end_of_word + 1)
        best[0] = 0.0
        came_from = [0] * (end_of_word + 1)
        token = [self._unk] * (end_of_word + 1)
        for start in range(end_of_word):
            here = best[start]
            for end in range(start + 1, min(start + longest, end_of_word) + 1):
                piece = lookup(word[start:end])
                if piece is not None:
                    score = here + scores[piece]
                    if score > best[end]:
                        best[end], came_from[end], token[end] = score, start, piece
            # Last, so that a piece of the same score wins.
            score = here + self._unknown_score
            if score > best[start + 1]:
                best[start + 1], came_from[start + 1] = score, start
                token[start + 1] = self._unk
        ids = []
        position = end_of_word
        while position:
            ids.append(token[position])
            position = came_from[position]
        ids.reverse()
        return tuple(ids)
