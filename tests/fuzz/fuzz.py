"""Fuzzing for a given time: what reads text that somebody else wrote.

    FUZZ_SECONDS=300 python -P tests/fuzz/fuzz.py [TARGET ...]

Each target gets its share of the time and says how many inputs it took. Half of it hypothesis
makes the inputs; the other half atheris does, led by the branches that they take, where it is
installed. The first input that fails is printed with the traceback (hypothesis makes it small
first), and the exit code is 1. Targets promise the same of any input: no other error than
``MemsearchError``, and what their asserts say.
"""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import zstandard
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from memsearch.answers import result_text
from memsearch.config import settings as config
from memsearch.config.errors import MemsearchError
from memsearch.config.paths import Home
from memsearch.hooks import context, enqueue
from memsearch.hooks.fence import escape, fence
from memsearch.hooks.journals import Recent, entries_of
from memsearch.pipeline.forget import _entries_in, without
from memsearch.pipeline.redact import reading, redact
from memsearch.pipeline.turn_codec import dump_turn
from memsearch.sinks.anchors import anchors_in, format_anchor, parse_anchor
from memsearch.sinks.chunker import chunk_document
from memsearch.sinks.journal_format import parse
from memsearch.sinks.keywords import keywords
from memsearch.sources import registry
from memsearch.sources.base import Item, Pointer, Turn
from memsearch.sources.bounds import compact_input, trim
from memsearch.sources.cleaning import clean
from memsearch.sources.render import conversation_dict, render_conversation

sys.path.insert(0, str(Path(__file__).parents[1]))
from credentials import CREDENTIALS, found_in

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
#: The same in the older shapes of Codex: the model's history alone, and without a frame.
CODEX_ITEMS = [each for each in CODEX if each.get("type") in ("response_item", "session_meta")]
CODEX_BARE = [each["payload"] for each in CODEX_ITEMS if isinstance(each.get("payload"), dict)]
CODEX_EVENTS = [
    *CODEX_ITEMS,
    *(
        {"timestamp": "2026-01-01T00:00:00.000Z", "type": "event_msg", "payload": payload}
        for payload in (
            {"type": "task_started", "turn_id": "t"},
            {"type": "user_message", "message": "Why?", "images": []},
            {"type": "agent_message", "message": "Because."},
            {"type": "error", "message": "overloaded"},
            {"type": "turn_aborted", "reason": "interrupted"},
            {"type": "task_complete", "turn_id": "t", "last_agent_message": "Because."},
        )
    ),
]
HOOKS = [json.loads(path.read_text("utf-8")) for path in sorted(DATA.rglob("hooks/*.json"))] or [{}]


def openclaw_events() -> list[Any]:
    """Events of OpenClaw, which its older releases wrote as lines."""
    with sqlite3.connect(DATA / "openclaw" / "openclaw-agent.sqlite") as db:
        rows = db.execute("SELECT event_json FROM transcript_events LIMIT 200").fetchall()
    db.close()
    return [json.loads(row[0]) for row in rows if row[0] and len(row[0]) < 5_000]


OPENCLAW = openclaw_events()
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


def openclaw_lines(body: bytes) -> None:
    read_source("openclaw", body)


def claude(body: bytes) -> None:
    read_source("claude-code", body)


def codex(body: bytes) -> None:
    read_source("codex", body)


# Databases --------------------------------------------------------------------------------

#: Table → (its columns, its rows).
Tables = dict[str, tuple[list[str], list[list[Any]]]]


def stored(path: Path, names: tuple[str, ...]) -> Tables:
    """Tables of a recorded database, to begin from."""
    found: Tables = {}
    with contextlib.closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as db:
        for name in names:
            rows = db.execute(f"SELECT * FROM {name} LIMIT 60")
            found[name] = [each[0] for each in rows.description], [list(row) for row in rows]
    return found


OPENCLAW_TABLES = stored(
    DATA / "openclaw" / "openclaw-agent.sqlite",
    ("session_nodes", "session_windows", "transcript_events"),
)
OPENCODE_TABLES = stored(DATA / "opencode" / "opencode.db", ("session", "message", "part"))
#: Names that a release gave, or may give, to tables.
TABLE_NAMES = st.sampled_from(
    ["sessions", "messages", "parts", "session_v2", "message_v2", "part_v2", "session_message"]
)


def spoil_text(text: str, draw: Callable[..., Any]) -> Any:
    """A field of a row, broken in one of the ways in which JSON and blobs break."""
    how = draw(st.integers(0, 4))
    if how == 0:
        return draw(SCALARS)
    if how == 1:
        return text[: draw(st.integers(0, len(text)))]
    if how == 2:
        return draw(st.binary(max_size=40))
    try:
        return json.dumps(spoil(json.loads(text), draw), ensure_ascii=draw(st.booleans()))
    except ValueError:
        return draw(TEXTS)


def packed(text: str, draw: Callable[..., Any]) -> bytes:
    """An event as OpenClaw packs large ones, now and then damaged."""
    blob = zstandard.ZstdCompressor().compress(text.encode("utf-8", "replace"))
    how = draw(st.integers(0, 3))
    if how == 0:
        blob = blob[: draw(st.integers(0, len(blob)))]
    elif how == 1:
        place = draw(st.integers(0, len(blob)))
        blob = blob[:place] + draw(st.binary(max_size=6)) + blob[place:]
    return blob


@st.composite
def databases(draw: Callable[..., Any], recorded: Tables) -> Tables:
    made: Tables = {}
    first, *_ = recorded.values()
    about = set(draw(st.sampled_from(first[1])))  # of one session, or what names it
    for name, (columns, rows) in recorded.items():
        there = [list(row) for row in rows if about & set(row[:3])][:30]
        kept = [row for row in there if draw(st.integers(0, 5))]
        kept += [list(draw(st.sampled_from(rows))) for _ in range(draw(st.integers(0, 2)))]
        for row in kept:
            if draw(st.integers(0, 4)) == 0:
                at = draw(st.integers(0, len(row) - 1))
                row[at] = spoil_text(str(row[at]), draw)
            if "event_zstd" in columns and draw(st.integers(0, 2)) == 0:
                at = columns.index("event_json")
                row[columns.index("event_zstd")] = packed(str(row[at]), draw)
                row[at] = None
        left = list(columns)
        for _ in range(draw(st.sampled_from([0, 0, 0, 1, 4]))):
            if len(left) > 1:
                at = draw(st.integers(0, len(left) - 1))
                left.pop(at)
                for row in kept:
                    row.pop(at)
        fate = draw(st.integers(0, 9))
        if fate:
            made[draw(TABLE_NAMES) if fate == 1 else name] = left, kept
    if "transcript_events" in made and draw(st.integers(0, 5)) == 0:
        _, rows = recorded["transcript_events"]
        event = {"kind": "event", "row": {"seq": 1, "event_json": str(rows[0][2])}}
        body = packed(json.dumps(spoil(event, draw)), draw)
        cold = ["session_id", "archive_name", "archived_at", "archive_blob"]
        row = [rows[0][0], draw(st.sampled_from(["a", "../b", ""])), draw(SCALARS), body]
        made["session_transcript_cold_archives"] = cold, [row]
    return made


def fill(path: Path, tables: Tables) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        for name, (columns, rows) in tables.items():
            quoted = ", ".join(f'"{column}"' for column in columns)
            db.execute(f'CREATE TABLE IF NOT EXISTS "{name}"({quoted})')
            for row in rows:
                marks = ", ".join("?" * len(row))
                try:
                    db.execute(f'INSERT INTO "{name}" VALUES ({marks})', [*map(storable, row)])
                except sqlite3.OperationalError:
                    continue  # the same table twice, with other columns


def storable(value: Any) -> Any:
    """What SQLite takes: no surrogates, no integer of more than 64 bits."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return str(value) if isinstance(value, int) and abs(value) >= 1 << 63 else value


def read_database(platform: str, path: Path, tables: Tables) -> None:
    fill(path, tables)
    source = registry.get(platform)
    environ = {"HOME": str(FOLDER / platform), "OPENCODE_DB": str(path)}
    sessions = {"", "s", "agent:main:main"}
    with contextlib.suppress(MemsearchError):  # a schema that is not known
        sessions |= {each.session for each in source.conversations(environ)}
    noon = datetime(2026, 11, 30, 7, 10, tzinfo=UTC)
    for session in sorted(sessions):
        for turn, start, since in (
            (None, 0, None),
            (None, None, noon),
            ("nobody", None, noon),
            (None, 5, noon),
        ):
            pointer = Pointer(platform, session, str(path), turn=turn, at=noon)
            try:
                turns = source.read(pointer, start=start, not_before=since).turns
                shown = source.conversation(str(path), session, None)
            except MemsearchError:
                continue
            for each in (*turns, *shown):
                assert each.id
                for item in each.items:
                    (item.text + item.output).encode("utf-8")
                dump_turn(each).encode("utf-8")


def openclaw(tables: Tables) -> None:
    path = FOLDER / "openclaw" / ".openclaw" / "agents" / "main" / "agent"
    read_database("openclaw", path / "openclaw-agent.sqlite", tables)


def opencode(tables: Tables) -> None:
    path = FOLDER / "opencode" / ".local" / "share" / "opencode" / "opencode.db"
    read_database("opencode", path, tables)


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


@st.composite
def hook_payloads(draw: Callable[..., Any]) -> Any:
    raw = spoil(draw(st.sampled_from(HOOKS)), draw)
    for key in draw(st.lists(st.sampled_from(["session_id", "cwd", "turn_id", "event"]))):
        raw[key] = draw(VALUES)
    raw["last_assistant_message"] = draw(st.one_of(TEXTS, VALUES))
    return raw


def hook(raw: dict[str, Any]) -> None:
    try:
        data, message = enqueue.pointers(raw, "codex", "", {"HOME": "/x"})
    except enqueue.MalformedError:
        return
    json.dumps({"data": data, "message": message}).encode("ascii")
    for value in data.values():
        assert not isinstance(value, str) or len(value) <= enqueue.MAX_POINTER_CHARS
    assert message is None or len(message.encode("utf-8")) <= 4 * enqueue.MAX_MESSAGE_CHARS


def cleaning(text: str) -> None:
    left = clean(text)
    left.encode("utf-8")
    assert clean(left) == left or "<" in left
    assert "XQZ" not in clean(f"{left}<private>XQZ")


ITEMS = st.builds(
    Item,
    st.sampled_from(["user", "assistant", "tool", "note"]),
    TEXTS,
    st.text(max_size=8),
    TEXTS,
    st.booleans(),
)


def rendering(items: list[Item]) -> None:
    at = datetime(2026, 3, 5, tzinfo=UTC)
    turn = Turn("codex", "t", "s", at, None, tuple(items), "finished", {"rollout": "/x"})
    text = render_conversation([turn, turn], "t")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)
    json.dumps(conversation_dict([turn], "t"))


def cutting(value: tuple[str, int, str, int, str]) -> None:
    kind, off, before, limit, after = value
    frame, secret = CREDENTIALS[kind]
    filling = "over the lazy dog " * 4_000
    text = f"{filling[:off]}\n{before}\n{frame.format(secret)}\n{after}\n{filling[:off]}"
    with reading():
        kept = [trim(text, limit)[0], compact_input({"x": text, "y": [text]}, str, frozenset())]
    assert found_in(redact("\n".join(kept)).text.encode()) == found_in(
        redact(f"{before}\n{after}").text.encode()
    )


CUTS = st.tuples(
    st.sampled_from(sorted(CREDENTIALS)),
    st.integers(0, 6_000),
    st.text(max_size=40),
    st.sampled_from([50, 400, 2_000, 5_000]),
    st.text(max_size=40),
)

#: A repeat of what a pattern may run along, and what it may then fail on.
HOSTILE = st.tuples(
    st.lists(
        st.one_of(
            PIECES,
            st.sampled_from(
                [
                    "a",
                    "A",
                    "0",
                    "-",
                    ".",
                    "/",
                    ":",
                    "@",
                    "://",
                    "key",
                    "pass",
                    "curl -u ",
                    "eyJ",
                    "\\",
                    "\\n",
                    "MII",
                    "seed: ",
                    "abc ",
                    "auth",
                    " login ",
                    "<password>",
                    "sig=",
                    "Cookie: ",
                    "密码",
                    " ",
                ]
            ),
        ),
        min_size=1,
        max_size=4,
    ).map("".join),
    st.lists(PIECES, max_size=3).map("".join),
)
#: Characters of a hostile text, and processor seconds that it may take: some 50 times what
#: a text of this length takes.
HOSTILE_CHARS, HOSTILE_SECONDS = 20_000, 2.0


def hostile(value: tuple[str, str]) -> None:
    repeated, end = value
    text = repeated * (HOSTILE_CHARS // len(repeated)) + end
    started = time.thread_time()
    redact(text)
    assert time.thread_time() - started < HOSTILE_SECONDS


def injecting(texts: list[str]) -> None:
    entries = [Recent("2026-03-05", text[:20].replace("\n", " "), text) for text in texts]
    made = context.compose(entries, 1)
    assert len(made.encode("utf-8", "replace")) <= context.MAX_BYTES
    assert made.count("<memsearch-memory") == made.count("</memsearch-memory") == bool(entries)


def results(text: str) -> None:
    item = {
        "chunk_hash": "0" * 16,
        "score": 1.0,
        "day": None,
        "platform": "",
        "indexed": True,
        "copies": 0,
        "source": "x.md",
        "start_line": 1,
        "end_line": 2,
        "heading": "",
        "heading_level": 0,
        "content": text,
        "foreign": True,
    }
    _, _, *body = result_text(1, item).split("\n")
    assert all(line.startswith(">") for line in body)


def environment(values: dict[str, str]) -> None:
    home = Home(str(FOLDER / "home"))
    home.create()
    Path(home.config_toml).unlink(missing_ok=True)
    environ = {f"MEMSEARCH_{name}": value for name, value in values.items()}
    config.load(home, None, environ=environ, strict=False)


ENVIRONMENTS = st.dictionaries(
    st.sampled_from(
        ["REDACT__PATTERNS", "CAPTURE__EXCLUDE", "SEARCH__TOP_K", "MILVUS__URI", "X__Y", "PROJECTS"]
    ),
    TEXTS,
    max_size=3,
)


TARGETS: dict[str, tuple[st.SearchStrategy[Any], Callable[[Any], None]]] = {
    "claude": (transcripts(CLAUDE), claude),
    "codex": (transcripts(CODEX), codex),
    "codex-events": (transcripts(CODEX_EVENTS), codex),
    "codex-bare": (transcripts(CODEX_BARE), codex),
    "openclaw-lines": (transcripts(OPENCLAW), openclaw_lines),
    "openclaw": (databases(OPENCLAW_TABLES), openclaw),
    "opencode": (databases(OPENCODE_TABLES), opencode),
    "hook": (hook_payloads(), hook),
    "cleaning": (TEXTS, cleaning),
    "rendering": (st.lists(ITEMS, max_size=4), rendering),
    "cutting": (CUTS, cutting),
    "hostile": (HOSTILE, hostile),
    "injecting": (st.lists(TEXTS, max_size=5), injecting),
    "results": (TEXTS, results),
    "environment": (ENVIRONMENTS, environment),
    "chunker": (TEXTS, chunker),
    "anchors": (TEXTS, anchors),
    "journal": (TEXTS, journal),
    "forgetting": (TEXTS, forgetting),
    "configuration": (TEXTS, configuration),
    "redactor": (TEXTS, redactor),
    "fencing": (TEXTS, fencing),
}


def test_of(name: str, counted: list[int]) -> Any:
    """A target as a test of hypothesis, which counts its inputs."""
    inputs, target = TARGETS[name]

    @settings(
        max_examples=100,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(inputs)
    def once(value: Any) -> None:
        counted[0] += 1
        target(value)

    return once


def run(name: str, seconds: float) -> int:
    """Fuzz one target with hypothesis; how many inputs it took."""
    counted = [0]
    once = test_of(name, counted)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        once()
    return counted[0]


def run_guided(name: str, seconds: float) -> int:
    """The same with atheris, which ends its process; how many inputs that took.

    Raises:
        SystemExit: An input failed, and was printed.
    """
    command = [sys.executable, "-P", str(Path(__file__).with_name("guided.py")), name]
    done = subprocess.run(
        [*command, str(max(1, int(seconds)))], capture_output=True, text=True, check=False
    )
    counts = re.findall(r"^#(\d+)\s", done.stderr, re.MULTILINE)
    if done.returncode or not counts:
        print(done.stdout[-20_000:], done.stderr[-20_000:])
        raise SystemExit(1)
    return int(counts[-1])


def main(names: list[str]) -> int:
    seconds = float(os.environ.get("FUZZ_SECONDS", SECONDS))
    chosen = names or list(TARGETS)
    guided = importlib.util.find_spec("atheris") is not None
    share = seconds / len(chosen) / (2 if guided else 1)
    for name in chosen:
        said = f"{run(name, share)} inputs"
        if guided:
            said += f" and {run_guided(name, share)} led by branches"
        print(f"{name}: {said}, nothing found", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
