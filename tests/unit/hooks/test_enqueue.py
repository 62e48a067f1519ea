"""What a hook makes of its input, without a process."""

import json
import os
import threading

import pytest

from memsearch.config.paths import Home
from memsearch.hooks import enqueue


def read(data: bytes, *, close: bool = True) -> dict:
    reader, writer = os.pipe()
    thread = threading.Thread(target=lambda: (os.write(writer, data), close and os.close(writer)))
    thread.start()
    try:
        return enqueue.read_object(reader)
    finally:
        thread.join()
        os.close(reader)
        if not close:
            os.close(writer)


def test_an_object_is_read_before_the_pipe_is_closed():
    assert read(b'{"session_id": "s", "a": {"b": 1}}\n', close=False) == {
        "session_id": "s",
        "a": {"b": 1},
    }


def test_a_byte_order_mark_and_broken_utf8_do_not_stop_it():
    assert read(b'\xef\xbb\xbf{"session_id": "\xff"}') == {"session_id": "\ufffd"}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"   \n", "not complete"),
        (b"[1]", "not an object"),
        (b"{oops}", "not JSON"),
        (b'{"a": 1', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"a":' * 100_000 + b"}", "not JSON"),
    ],
)
def test_malformed_input_says_why(data, reason):
    with pytest.raises(enqueue.MalformedError, match=reason):
        read(data)


def test_an_open_pipe_without_an_object_is_not_waited_for_for_ever(monkeypatch):
    monkeypatch.setattr(enqueue, "STDIN_BOUND_SECONDS", 0.1)
    with pytest.raises(enqueue.MalformedError, match="not complete"):
        read(b'{"a": 1', close=False)


def test_only_pointers_and_the_last_message_are_kept():
    raw = {
        "session_id": "s",
        "prompt_id": "p",
        "transcript_path": '/t/项目 "x".jsonl',
        "cwd": "/w",
        "hook_event_name": "Stop",
        "prompt": "SECRET PROMPT",
        "tool_response": {"stdout": "SECRET OUTPUT"},
        "last_assistant_message": "done",
        "stop_hook_active": True,
    }
    data, message = enqueue.pointers(raw, "claude-code", "", {"MEMSEARCH_DIR": "/m", "X": "y"})
    assert message == "done"
    assert data == {
        "platform": "claude-code",
        "session": "s",
        "turn": "p",
        "path": '/t/项目 "x".jsonl',
        "cwd": "/w",
        "event": "Stop",
        "stop_hook_active": True,
        "env": {"MEMSEARCH_DIR": "/m"},
    }
    assert "SECRET" not in json.dumps(data)


def test_the_payloads_event_wins_over_the_command_lines():
    data, _ = enqueue.pointers({"session_id": "s"}, "codex", "Stop", {})
    assert data["event"] == "Stop"
    data, _ = enqueue.pointers({"session_id": "s", "hook_event_name": "X"}, "codex", "Stop", {})
    assert data["event"] == "X"


def test_a_payload_that_points_nowhere_is_refused():
    with pytest.raises(enqueue.MalformedError, match="session_id"):
        enqueue.pointers({"cwd": "/w", "session_id": 7}, "codex", "", {})


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        ([], "--platform"),
        (["--platform"], "needs a value"),
        (["--platform", "vim"], "not one of"),
        (["--platform=codex", "--fast"], "unknown argument"),
    ],
)
def test_a_wrong_command_line_says_why(argv, reason):
    with pytest.raises(enqueue.MalformedError, match=reason):
        enqueue.parse_arguments(argv)


@pytest.mark.parametrize(
    ("config", "environ", "expected"),
    [
        (None, {}, True),
        (b"[workers]\nautostart = false\n", {}, False),
        (b"[workers]\nautostart = true\n", {}, True),
        (b"[workers\nautostart = false\n", {}, True),
        (b"autostart = \xff", {}, True),
        (b"[workers]\nautostart = false\n", {"MEMSEARCH_WORKERS__AUTOSTART": "true"}, True),
        (None, {"MEMSEARCH_WORKERS__AUTOSTART": "0"}, False),
    ],
)
def test_autostart_follows_the_settings_and_survives_broken_ones(
    tmp_path, config, environ, expected
):
    home = enqueue.Home(str(tmp_path))
    if config is not None:
        (tmp_path / "config.toml").write_bytes(config)
    assert enqueue.autostart(home, environ) is expected


def test_a_path_that_is_not_utf8_survives_the_spool(tmp_path):
    home = Home(str(tmp_path / "home"))
    record = {"id": "1" * 32, "at": "2026-03-03T10:00:00.000Z", "data": {"path": "/t/\udcff.jsonl"}}
    enqueue.spool(home, record)
    (written,) = (tmp_path / "home" / "spool").iterdir()
    assert json.loads(written.read_text("ascii")) == record
