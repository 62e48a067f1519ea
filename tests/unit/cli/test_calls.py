"""Calls that name what does not exist, or options that do not go together."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from memsearch.cli.main import cli


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("serach x", "search"),
        ("search --topk 3 x", "--top-k"),
        ("search --platform claude x", "claude-code, codex"),
        ("list --platform claude", "claude-code, codex"),
        ("dead-letter lsit", "list"),
        ("dead-letter list --stage summarise", "'summarize'"),
        ("dead-letter replay", "--all"),
        ("dead-letter replay abcd1234 --stage embed", "--all"),
        ("dead-letter replay --waiting --all", "--waiting"),
        ("dead-letter discard abcd1234 --stage embed", "--older"),
        ("events --type deadletter", "DeadLettered"),
        ("events --type nothing-like-it", "TurnCaptured"),
        ("workers --json", "--drain"),
        ("workers --wait", "--drain"),
        ("workers --drain status", "status"),
        ("config get serch.top_k", "search.top_k"),
        ("config set search.fusion rff", "rrf"),
        ("install vim", "claude-code, codex"),
        ("backfill --platform vim", "claude-code, codex"),
        ("model fetch bge-m4", "bge-m3"),
        ("forget --text x --json", "--dry-run"),
    ],
)
def test_a_wrong_call_ends_with_2_and_says_what_is_right(words: str, says: str) -> None:
    done = CliRunner().invoke(cli, words.split(), prog_name="memsearch")
    assert (done.exit_code, done.stdout) == (2, "")
    assert says in done.stderr


@pytest.mark.parametrize(
    "words",
    ["index", "reset --yes", "compact", "forget --text x --yes", "backfill", "stats", "search x"],
)
def test_nothing_is_done_by_a_default_in_the_place_of_a_setting(words: str) -> None:
    home = Path(os.environ["MEMSEARCH_HOME"])
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text('[embedding]\nprovider = "voyge"\n', encoding="utf-8")
    done = CliRunner().invoke(cli, words.split(), prog_name="memsearch")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "did you mean voyage?" in done.stderr
    assert not (home / "milvus.db").exists()
