"""Keys: the tree as names, what they take, and what a wrong name was meant to be."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsearch.config import keys
from memsearch.config.keys import Key, dotted, find, nearest, parse_name, toml_value
from memsearch.config.schema import (
    PROJECT_KEYS,
    SECRET_NAMES,
    Embedding,
    Settings,
    Summarize,
    SummarizeOverride,
    SummarizePlatforms,
)


def key(name: str) -> Key:
    path = parse_name(name)
    assert path is not None
    found = find(path)
    assert isinstance(found, Key)
    return found


def test_every_key_is_described_and_its_default_is_allowed() -> None:
    found = list(keys.walk())
    assert len(found) == len({one.name for one in found}) > 50
    for one in found:
        assert one.description.endswith("."), one.name
        assert one.expected
        assert "None" not in one.expected, f"{one.name} is a number without bounds"
        default = list(one.default) if isinstance(one.default, tuple) else one.default
        if default is not None:
            assert one.check(default) == "", one.name


def test_the_sections_are_the_designs() -> None:
    names = "milvus embedding chunking indexing watch capture summarize search retry budget redact"
    names += " workers compact project projects"
    assert list(keys.root().children) == names.split()
    assert all(section.description.endswith(".") for section in keys.sections())


def test_the_secret_marks_and_the_masked_names_agree() -> None:
    assert {one.path[-1] for one in keys.walk() if one.secret} == SECRET_NAMES


def test_what_a_project_may_set() -> None:
    assert [one.name for one in keys.walk() if one.project] == [
        "chunking.max_chunk_size",
        "chunking.overlap_lines",
        "indexing.ignore_files",
        "indexing.exclude",
        "watch.debounce_ms",
        "capture.enabled",
        "summarize.enabled",
        "search.top_k",
    ]
    assert all(find(path) is not None for path in PROJECT_KEYS)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("search.top_k", 1),
        ("search.top_k", 1000),
        ("budget.daily_tokens", 0),
        ("summarize.timeout_seconds", 5),
        ("summarize.timeout_seconds", 1.5),
        ("summarize.platforms.codex.timeout_seconds", 5),
        ("capture.exclude", ["~/私人/*"]),
        ("capture.exclude", []),
        ("capture.journal_suffix", "host-1.主机"),
        ("embedding.provider", "ollama"),
        ("embedding.base_url", ""),
        ("embedding.base_url", "http://localhost:11434/v1"),
        ("embedding.base_url", "https://[::1]:8000"),
        ("embedding.base_url", "env:BASE"),
        ("milvus.uri", ""),
        ("milvus.uri", "~/my data/m.db"),
        ("milvus.uri", "http://host:19530"),
        ("milvus.uri", "https://in01.zilliz.example"),
        ("milvus.uri", "tcp://host:19530"),
        ("milvus.uri", "unix:/run/milvus.sock"),
        ("milvus.token", "env:MILVUS_TOKEN"),
        ("milvus.token", "root:Milvus"),
        ('projects."/a b".collection', "team_1"),
        ('projects."/a b".collection', ""),
        ("redact.patterns", ["a+", "(?i)x"]),
    ],
)
def test_values_that_work(name: str, value: object) -> None:
    assert key(name).check(value) == ""


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("search.top_k", 0, "expected a whole number from 1 to 1000, found 0"),
        ("search.top_k", 1001, "from 1 to 1000"),
        ("search.top_k", -5, "found -5"),
        ("search.top_k", 2.5, "found 2.5"),
        ("search.top_k", True, "found true"),
        ("search.top_k", "5", 'found the text "5"'),
        ("search.top_k", [5], "found a list"),
        ("search.top_k", {"x": 5}, "found a table"),
        ("budget.daily_tokens", -1, "expected a whole number from 0 to"),
        ("budget.daily_tokens", 10**30, "expected a whole number from 0 to"),
        ("budget.daily_tokens", -(10**30), "expected a whole number from 0 to"),
        ("retry.base_seconds", float("nan"), "expected a number from 0 to"),
        ("retry.base_seconds", float("inf"), "expected a number from 0 to"),
        ("retry.base_seconds", -1.0, "expected a number from 0 to"),
        ("summarize.timeout_seconds", 0, "expected a number from 1 to"),
        ("workers.concurrency", 0, "expected a whole number from 1 to 64"),
        ("capture.enabled", "yes", "expected true or false"),
        ("capture.enabled", 1, "expected true or false"),
        ("capture.exclude", "a", "expected a list of texts"),
        ("capture.exclude", ["a", 1], "expected a list of texts"),
        ("capture.journal_suffix", "a/b", "part of a file name"),
        ("embedding.provider", "onx", "expected one of onnx, openai"),
        ("embedding.model", 5, "expected a text, found 5"),
        ("embedding.base_url", "localhost:11434", "begins with none of http://, https://"),
        ("embedding.base_url", "http://", "names no host"),
        ("embedding.base_url", "http://h:99999", "port out of range"),
        ("embedding.base_url", "http://h:0", "port 0"),
        ("embedding.base_url", "http://h:x", "port"),
        ("milvus.uri", "ftp://h/x.db", "begins with none of http://"),
        ("milvus.uri", "http://h:-1", "port"),
        ("milvus.uri", "~/milvus", "must end in .db"),
        ("milvus.token", "env:", "followed by the name of a variable"),
        ("milvus.token", "env:A B", "followed by the name of a variable"),
        ("projects.x.collection", "a-b", "letters, digits and _"),
        ("projects.x.collection", "1a", "no digit first"),
        ("redact.patterns", ["ok", "("], "no regular expression"),
        ("redact.patterns", [""], "matches the empty text"),
        ("redact.patterns", ["ok", "(a+)+b"], "a repeat inside a repeat"),
        ("redact.allow", [r"(x)\1"], "refers back"),
        ("redact.allow", ["a*"], "matches the empty text"),
        ("compact.schedule", "hourly", "expected one of off, daily"),
    ],
)
def test_values_that_cannot_work(name: str, value: object, said: str) -> None:
    why = key(name).check(value)
    assert said in why


def test_a_long_value_is_cut_in_a_message() -> None:
    why = key("embedding.provider").check("x" * 10_000)
    assert len(why) < 250
    assert why.endswith("…")


@pytest.mark.parametrize("value", [12345, ["sk-verysecret"], "env:sk-verysecret!"])
def test_a_secret_is_in_no_message(value: object) -> None:
    for name in ("embedding.api_key", "milvus.token", "summarize.platforms.codex.api_key"):
        why = key(name).check(value)
        assert why
        assert "found" not in why
        assert "verysecret" not in why
        assert "12345" not in why


def test_a_password_in_a_url_is_in_no_message() -> None:
    for value in ("htp://user:hunter2@host", "user:hunter2@host"):
        assert "hunter2" not in key("milvus.uri").check(value)
        assert "hunter2" not in key("summarize.base_url").check(value)


def test_no_repr_shows_a_secret() -> None:
    settings = keys.build(
        {
            ("milvus", "token"): "hunter2",
            ("embedding", "api_key"): "hunter2",
            ("summarize", "api_key"): "hunter2",
            ("summarize", "platforms", "codex", "api_key"): "hunter2",
            ("search", "reranker"): "shown",
        }
    )
    for text in (repr(settings), str(settings), f"{settings.embedding!r}"):
        assert "hunter2" not in text
        assert "api_key=********" in text
    assert "reranker='shown'" in repr(settings)
    assert settings.embedding.api_key == "hunter2"


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("search.top_k", "8", 8),
        ("search.top_k", " 8 ", 8),
        ("budget.daily_tokens", "2_000_000", 2_000_000),
        ("search.top_k", "8.5", "8.5"),
        ("search.top_k", "eight", "eight"),
        ("search.top_k", "", ""),
        ("retry.base_seconds", "5", 5),
        ("retry.base_seconds", "0.5", 0.5),
        ("retry.base_seconds", "1e2", 100.0),
        ("capture.enabled", "true", True),
        ("capture.enabled", "Yes", True),
        ("capture.enabled", "ON", True),
        ("capture.enabled", "1", True),
        ("capture.enabled", "false", False),
        ("capture.enabled", "no", False),
        ("capture.enabled", "off", False),
        ("capture.enabled", "0", False),
        ("capture.enabled", "maybe", "maybe"),
        ("capture.exclude", "", []),
        ("capture.exclude", "a, b c ,", ["a", "b c"]),
        ("capture.exclude", '["a,b", "c"]', ["a,b", "c"]),
        ("capture.exclude", "['\\d+']", ["\\d+"]),
        ("capture.exclude", "[1, 2]", [1, 2]),
        ("capture.exclude", "[a", "[a"),
        ("embedding.model", " as it is ", " as it is "),
        ("embedding.model", "5", "5"),
        ("embedding.provider", "openai", "openai"),
    ],
)
def test_reading_text(name: str, text: str, value: object) -> None:
    parsed = key(name).parse(text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("embedding.modle", "embedding.model"),
        ("embeding.modle", "embedding.model"),
        ("embedding.Model", "embedding.model"),
        ("search.topk", "search.top_k"),
        ("worker.concurrency", "workers.concurrency"),
        ("embedding.concurrency", "workers.concurrency"),
        ("summarize.platforms.claude.provider", "summarize.platforms.claude-code.provider"),
        ("sumarize.platform.codx.modell", "summarize.platforms.codex.model"),
        ("projects./x.colection", 'projects."/x".collection'),
        ("milvus.url", "milvus.uri"),
        ("indexng", "indexing"),
        ("qqqq.zzzz", ""),
    ],
)
def test_the_nearest_name(wrong: str, right: str) -> None:
    assert nearest(tuple(wrong.split("."))) == right


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("search.top_k", ("search", "top_k")),
        (" search . top_k ", ("search", "top_k")),
        ('projects."/a b/项目.x".collection', ("projects", "/a b/项目.x", "collection")),
        ("projects.'/a'.collection", ("projects", "/a", "collection")),
        ("single", ("single",)),
        ("", None),
        ("a..b", None),
        ("a b", None),
        ("a = 1\nb", None),
        ("[a]\nb", ("a", "b")),
        ("项目", None),
    ],
)
def test_reading_a_name(text: str, path: tuple[str, ...] | None) -> None:
    assert parse_name(text) == path


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=4))
def test_a_name_leads_back_to_its_path(parts: list[str]) -> None:
    assert parse_name(dotted(tuple(parts))) == tuple(parts)


@given(
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.lists(st.text(st.characters(exclude_categories=["Cs"])))
)
def test_a_value_is_written_as_toml_reads_it(value: Any) -> None:
    assert tomllib.loads(f"x = {toml_value(value)}")["x"] == value


def test_settings_for_one_agent() -> None:
    general = Summarize(
        model="m",
        api_key="k",
        base_url="https://one.example",
        platforms=SummarizePlatforms(
            codex=SummarizeOverride(provider="openai", timeout_seconds=5.0),
            opencode=SummarizeOverride(base_url="https://two.example"),
            openclaw=SummarizeOverride(base_url="https://two.example", api_key="k2", enabled=False),
        ),
    )
    codex = general.for_platform("codex")
    assert (codex.provider, codex.timeout_seconds) == ("openai", 5.0)
    assert (codex.model, codex.api_key) == ("m", "k")
    assert general.for_platform("opencode").api_key == ""  # not sent to another endpoint
    assert general.for_platform("openclaw").api_key == "k2"
    assert general.for_platform("openclaw").enabled is False
    assert general.for_platform("claude-code") == general


def test_an_agent_that_does_not_exist() -> None:
    from memsearch.config.errors import MemsearchError

    with pytest.raises(MemsearchError, match="no agent 'vim'"):
        Summarize().for_platform("vim")


def test_the_tree_is_frozen_and_comparable() -> None:
    with pytest.raises(AttributeError):
        Embedding().model = "x"  # type: ignore[misc]
    assert keys.build({}) == Settings()
    assert hash(Embedding()) == hash(Embedding())
