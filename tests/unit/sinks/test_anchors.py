import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsearch.sinks.anchors import (
    MAX_ANCHOR_CHARS,
    anchors_in,
    decode_value,
    encode_value,
    format_anchor,
    parse_anchor,
    told_platform,
    without_comments,
)
from memsearch.sinks.types import Anchor

S = "8f14e45f-ceea-467f-a9d3-5b1c2a9e0001"
T = "8f14e45f-ceea-467f-a9d3-5b1c2a9e0002"


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/李 雷")


@pytest.mark.parametrize(
    ("anchor", "line"),
    [
        (
            Anchor(S, T, "claude-code", transcript="/home/李 雷/.claude/projects/-w-app/x.jsonl"),
            f"<!-- session:{S} turn:{T} transcript:~/.claude/projects/-w-app/x.jsonl -->",
        ),
        (
            Anchor(S, T, "codex", rollout="/srv/codex/rollout-2026.jsonl"),
            f"<!-- session:{S} turn:{T} rollout:/srv/codex/rollout-2026.jsonl -->",
        ),
        (
            Anchor("ses_1", "msg_2", "opencode", db="/home/李 雷/.local/share/opencode/o.db"),
            "<!-- session:ses_1 turn:msg_2 db:~/.local/share/opencode/o.db -->",
        ),
        (
            Anchor("s", "t", "openclaw", db="/home/李 雷/.openclaw/agents/main/state.db"),
            "<!-- session:s turn:t db:~/.openclaw/agents/main/state.db -->",
        ),
        # The keys would tell OpenCode, so the platform is written.
        (
            Anchor("s", "t", "openclaw", db="/data/state.db"),
            "<!-- session:s turn:t platform:openclaw db:/data/state.db -->",
        ),
        # A session that holds blanks, a path that would end the comment, Chinese kept.
        (
            Anchor("a b", "c%d", transcript="/w/我的 项目/x--y>.jsonl"),
            "<!-- session:a%20b turn:c%25d transcript:/w/我的%20项目/x-%2Dy%3E.jsonl -->",
        ),
        (
            Anchor("s", "t", transcript="/w/a\nb\t\x1b\u2028\u202e.jsonl"),
            "<!-- session:s turn:t transcript:/w/a%0Ab%09%1B%E2%80%A8%E2%80%AE.jsonl -->",
        ),
        (
            Anchor("s", "", "codex", rollout="/r", extra=(("agent", "main"),)),
            "<!-- session:s rollout:/r agent:main -->",
        ),
    ],
)
def test_format(anchor: Anchor, line: str) -> None:
    assert format_anchor(anchor) == line
    parsed = parse_anchor(line)
    assert parsed is not None
    assert (parsed.session, parsed.turn) == (anchor.session, anchor.turn)
    assert parsed.path.replace("~", "/home/李 雷", 1) == anchor.path
    assert parsed.extra == anchor.extra
    if anchor.platform:
        assert parsed.platform == anchor.platform


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # any order, blanks after the colon, blanks around
        (
            f"<!--transcript:~/x.jsonl   turn: {T} session:{S}-->",
            Anchor(S, T, "claude-code", transcript="~/x.jsonl"),
        ),
        # older forms
        (f"<!-- session:{S} transcript:~/x.jsonl -->", Anchor(S, "", "claude-code", "~/x.jsonl")),
        (
            f"<!-- session:{S} rollout:{T} db: -->",
            Anchor(S, "", "codex", rollout=T),
        ),
        (
            f"<!-- rollout:{T} db:~/.codex/state.sqlite -->",
            Anchor("", "", "codex", rollout=T, db="~/.codex/state.sqlite"),
        ),
        (
            "<!-- session:s turn:t db:~/.openclaw/a.db -->",
            Anchor("s", "t", "openclaw", db="~/.openclaw/a.db"),
        ),
        (
            "<!-- session:s transcript:~/.openclaw-dev/sessions/a.jsonl -->",
            Anchor("s", "", "openclaw", "~/.openclaw-dev/sessions/a.jsonl"),
        ),
        # never encoded: blanks, a stray percent sign, a drive letter
        (
            "<!-- session:s turn:t transcript:~/my files/100%/x.jsonl -->",
            Anchor("s", "t", "claude-code", "~/my files/100%/x.jsonl"),
        ),
        (
            r"<!-- session:s turn:t transcript:C:\Users\x y\z.jsonl -->",
            Anchor("s", "t", "claude-code", r"C:\Users\x y\z.jsonl"),
        ),
        # unknown keys are kept, a key that comes twice counts once
        (
            "<!-- session:s source:hook session:z turn:t ver:2 -->",
            Anchor("s", "t", extra=(("source", "hook"), ("ver", "2"))),
        ),
        # as a person types it
        (f"session:{S} turn:{T}", Anchor(S, T)),
        # inside other text; the torn one before it does not hide it
        ("x\n<!-- note -->\n<!-- session:s turn:t -->\n- y", Anchor("s", "t")),
        ("<!-- session:a tu\n\n### 14:48\n<!-- session:s turn:t -->", Anchor("s", "t")),
    ],
)
def test_parse(text: str, expected: Anchor | None) -> None:
    assert parse_anchor(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<!---->",
        "<!-- -->",
        "<!-- session: -->",
        "<!-- TODO: session:x -->",
        "<!-- session: we talked about the cache -->",
        "<!-- turn:t -->",
        "<!-- session:s turn:t",
        "just a line",
        "session",
        "see http://x/y and session:s",
        "<!-- session:" + "x" * MAX_ANCHOR_CHARS + " -->",
    ],
)
def test_what_is_no_anchor(text: str) -> None:
    assert parse_anchor(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "<!--" * 250_000,
        "<!-- session:" + " a:" * 330_000,
        "-->" * 330_000,
        "<!-- " + "ab:" * 330_000 + " -->",
        "<!--x-->" * 125_000,
        "<!-- session:" + "%" * 1_000_000 + " -->",
        " " * 1_000_000 + "<!--",
        "a" * 1_000_000,
    ],
)
def test_megabyte_lines_take_one_pass(text: str) -> None:
    begin = time.process_time()
    assert parse_anchor(text) is None
    assert anchors_in(text) == []
    without_comments(text)
    # A quadratic reading of these takes minutes.
    assert time.process_time() - begin < 5


@given(st.text(), st.text(), st.text())
def test_any_values_come_back(session: str, turn: str, path: str) -> None:
    line = format_anchor(Anchor(f"s{session}", turn, transcript=f"/{path}"))
    assert "\n" not in line
    assert len(line.splitlines()) == 1
    assert line.count("-->") == 1
    assert line.count("<!--") == 1
    parsed = parse_anchor(f"- x\n{line}\n- y")
    assert parsed is not None
    assert parsed.session == f"s{session}"
    assert parsed.turn == turn
    assert parsed.transcript == f"/{path}"


@given(st.binary())
def test_paths_that_are_no_utf8_come_back(raw: bytes) -> None:
    path = raw.decode("utf-8", "surrogateescape")
    assert decode_value(encode_value(path)) == path
    format_anchor(Anchor("s", "t", transcript=f"/{path}")).encode("utf-8")


@given(st.text(alphabet=st.sampled_from("<!-> sesion:turdbx%2\n~/")))
def test_garbage_is_never_an_error(text: str) -> None:
    anchor = parse_anchor(f"<!-- {text} -->")
    if anchor is not None:
        assert anchor.session or anchor.path
        format_anchor(anchor)


def test_half_a_surrogate_pair_is_no_error() -> None:
    line = format_anchor(Anchor("s\ud800", "t"))
    assert line == "<!-- session:s%3F turn:t -->"


def test_all_anchors_of_a_section() -> None:
    text = "<!-- session:a turn:b -->\n- x <\\!-- session:no -->\n<!-- session:c turn:d -->"
    assert [a.session for a in anchors_in(text)] == ["a", "c"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a<!-- b -->c", "ac"),
        ("<!-- b\nc -->", ""),
        ("a <!-- b", "a <!-- b"),
        ("a --> b", "a --> b"),
        ("<!--a--><!--b-->c<!--", "c<!--"),
        ("", ""),
        ("<!-- torn\n- kept\n\n<!-- end -->\n", "<!-- torn\n- kept\n\n\n"),
    ],
)
def test_without_comments(text: str, expected: str) -> None:
    assert without_comments(text) == expected


@pytest.mark.parametrize(
    ("keys", "platform"),
    [
        (("", "", ""), ""),
        (("~/.claude/projects/x.jsonl", "", ""), "claude-code"),
        (("~/code/openclaw/x.jsonl", "", ""), "claude-code"),
        (("~/.openclaw/sessions/x.jsonl", "", ""), "openclaw"),
        ((r"C:\Users\a\.openclaw\x.jsonl", "", ""), "openclaw"),
        (("", "x", "y"), "codex"),
        (("", "", "~/.local/share/opencode/opencode.db"), "opencode"),
        (("", "", "/srv/OpenClaw/state.db"), "openclaw"),
    ],
)
def test_told_platform(keys: tuple[str, str, str], platform: str) -> None:
    assert told_platform(*keys) == platform


def test_no_more_than_were_asked_for() -> None:
    text = "<!-- session:a turn:1 -->\n" * 3
    assert len(anchors_in(text)) == 3
    assert len(anchors_in(text, limit=2)) == 2


def test_a_comment_that_is_too_long_is_passed_over_wherever_it_stands() -> None:
    """Its own length counts, not its place."""
    far = "x" * (2 * MAX_ANCHOR_CHARS) + "\n<!-- session:a turn:1 -->"
    assert [anchor.session for anchor in anchors_in(far)] == ["a"]
    long = f"<!-- session:{'s' * MAX_ANCHOR_CHARS} turn:1 -->\n<!-- session:b turn:2 -->"
    assert [anchor.session for anchor in anchors_in(long)] == ["b"]
