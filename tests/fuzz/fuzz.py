"""Fuzzing with hypothesis for a given time: what reads text that somebody else wrote.

    FUZZ_SECONDS=300 python -P tests/fuzz/fuzz.py [TARGET ...]

Each target gets its share of the time and says how many inputs it took. The first input that
fails is made small, printed with the traceback, and the exit code is 1. Targets promise the
same of any input: no other error than ``MemsearchError``, and what their asserts say.
"""

from __future__ import annotations

import copy
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from memsearch.config import settings as config
from memsearch.config.errors import MemsearchError
from memsearch.config.paths import Home
from memsearch.hooks.fence import escape, fence
from memsearch.hooks.journals import entries_of
from memsearch.pipeline.forget import _entries_in, without
from memsearch.pipeline.redact import redact
from memsearch.sinks.anchors import anchors_in, format_anchor, parse_anchor
from memsearch.sinks.chunker import chunk_document
from memsearch.sinks.journal_format import parse
from memsearch.sinks.keywords import keywords
from memsearch.sources import registry
from memsearch.sources.base import Pointer

DATA = Path(__file__).parents[1] / "data"
#: Seconds for all targets together, unless FUZZ_SECONDS says otherwise.
SECONDS = 120.0

#: Pieces that mean something to one of the parsers.
PIECES = st.sampled_from(
    [
        *(
            "\n",
            "\r\n",
            "\r",
            "\n\n",
            "\0",
            "\ufeff",
            "\u2028",
            "\x1b[31m",
            "é",
            "字",
            "𐀀",
            " ",
            "\t",
        ),
        *("# ", "## Session 10:00", "### 10:00\n", "#### ", "- ", "* a", "```", "~~~", "---\n"),
        *("<!-- ", " -->", "-->", "<!-- session:s turn:t transcript:~/x -->", "turn:", "%", "%2"),
        *("<memsearch-memory>", "</memsearch-memory>", "<private>", "</private>", "http://a:b@c"),
        *("password=", "token: ", "ghp_" + "a1" * 20, "-----BEGIN RSA PRIVATE" + " KEY-----\n"),
        *("=", "[", "]", "{", "}", '"', "'", "\\", "[search]\n", "top_k = 3\n", "x.y = ", "[[a]]"),
    ]
)
TEXTS = st.lists(st.one_of(PIECES, st.text(max_size=12)), max_size=60).map("".join)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), PIECES
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


def recorded(platform: str) -> list[Any]:
    """Records of a real agent, to begin from."""
    records: list[Any] = []
    for path in sorted((DATA / platform).rglob("*.jsonl")):
        lines = path.read_text("utf-8").splitlines()
        records += [json.loads(line) for line in lines[:40] if len(line) < 5_000]
    return records


CLAUDE, CODEX = recorded("claude-code"), recorded("codex")
FOLDER = Path(tempfile.mkdtemp(prefix="memsearch-fuzz-"))


def spoil(value: Any, draw: Callable[..., Any]) -> Any:
    """A record with one of its values replaced, somewhere in it."""
    made = copy.deepcopy(value)
    at, key = made, None
    while isinstance(at, dict | list) and at:
        keys = sorted(at) if isinstance(at, dict) else list(range(len(at)))
        parent, key = at, draw(st.sampled_from(keys))
        at = parent[key]
        if not isinstance(at, dict | list) or draw(st.integers(0, 3)) == 0:
            parent[key] = draw(VALUES)
            break
    return made


def read_source(platform: str, body: bytes) -> None:
    path = FOLDER / f"rollout-2026-01-01T00-00-00-{'0' * 8}-0000-0000-0000-{'0' * 12}.jsonl"
    path.write_bytes(body)
    source = registry.get(platform)
    for start in (0, None, len(body) // 2):
        try:
            reading = source.read(
                Pointer(platform, "s", str(path), turn=None), start=start, not_before=None
            )
        except MemsearchError:
            continue
        for turn in reading.turns:
            assert turn.id
            for item in turn.items:
                # What is stored must be text that can be written.
                (item.text + item.output).encode("utf-8")


@st.composite
def transcripts(draw: Callable[..., Any], records: list[Any]) -> bytes:
    lines = []
    for _ in range(draw(st.integers(1, 8))):
        record = draw(st.sampled_from(records))
        if draw(st.booleans()):
            record = spoil(record, draw)
        lines.append(json.dumps(record, ensure_ascii=draw(st.booleans())))
    body = "\n".join(lines).encode("utf-8", "surrogatepass") + b"\n"
    cut = draw(st.integers(0, 40))
    if draw(st.integers(0, 4)) == 0:
        body = body[: len(body) - cut]
    if draw(st.integers(0, 4)) == 0:
        place = draw(st.integers(0, len(body)))
        body = body[:place] + draw(st.binary(max_size=8)) + body[place:]
    return body


def claude(body: bytes) -> None:
    read_source("claude-code", body)


def codex(body: bytes) -> None:
    read_source("codex", body)


def chunker(text: str) -> None:
    for limit in (200, 1500):
        for chunk in chunk_document(text, "memory/2026-03-05.md", max_chunk_size=limit):
            assert 1 <= chunk.start_line <= chunk.end_line
            assert chunk.content.strip()
            keywords(chunk.content)


def anchors(text: str) -> None:
    for anchor in anchors_in(text):
        assert parse_anchor(format_anchor(anchor)) == anchor
    parse_anchor(text)


def journal(text: str) -> None:
    lines = text.count("\n") + 1
    for entry in parse(text):
        assert 1 <= entry.line <= entry.end_line <= lines
    entries_of(text, "2026-03-05")


def forgetting(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    places = _entries_in("2026-03-05.md", data)
    assert without(data, []) == data
    left = without(data, places)
    kept = [line for line in left.split(b"\n") if line.strip()]
    assert all(line in data.split(b"\n") for line in kept)


def configuration(text: str) -> None:
    home = Home(str(FOLDER / "home"))
    home.create()
    for name in (home.config_toml, str(FOLDER / ".memsearch.toml")):
        Path(name).write_bytes(text.encode("utf-8", "surrogatepass"))
    config.load(home, str(FOLDER), environ={}, strict=False)


def redactor(text: str) -> None:
    # A second look may take more, never give back: "password=%http://a:b@c" is a URL's
    # password first, and a password as a whole once that is gone. It comes to rest.
    seen = redact(redact(text).text).text
    assert redact(seen).text == seen


def fencing(text: str) -> None:
    made = fence(text, about="About.")
    assert made.count("</memsearch-memory") == 1
    assert made.count("<memsearch-memory") == 1
    assert escape(escape(text)) == escape(text)


TARGETS: dict[str, tuple[st.SearchStrategy[Any], Callable[[Any], None]]] = {
    "claude": (transcripts(CLAUDE), claude),
    "codex": (transcripts(CODEX), codex),
    "chunker": (TEXTS, chunker),
    "anchors": (TEXTS, anchors),
    "journal": (TEXTS, journal),
    "forgetting": (TEXTS, forgetting),
    "configuration": (TEXTS, configuration),
    "redactor": (TEXTS, redactor),
    "fencing": (TEXTS, fencing),
}


def run(name: str, seconds: float) -> int:
    """Fuzz one target; how many inputs it took."""
    inputs, target = TARGETS[name]
    count = 0
    end = time.monotonic() + seconds

    @settings(
        max_examples=100,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(inputs)
    def once(value: Any) -> None:
        nonlocal count
        count += 1
        target(value)

    while time.monotonic() < end:
        once()
    return count


def main(names: list[str]) -> int:
    seconds = float(os.environ.get("FUZZ_SECONDS", SECONDS))
    chosen = names or list(TARGETS)
    for name in chosen:
        print(f"{name}: {run(name, seconds / len(chosen))} inputs, nothing found", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
