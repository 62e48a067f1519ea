"""Loading: the layers' order, strict and lenient, and files that another tool has written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import Home
from memsearch.config.schema import Settings
from memsearch.config.settings import Loaded, load, load_at

DATA = Path(__file__).parent.parent.parent / "data" / "config"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(str(tmp_path / "home"))
    home.create()
    return home


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "my 项目"
    folder.mkdir()
    return folder


def write(home: Home, text: str | bytes) -> None:
    data = text.encode("utf-8") if isinstance(text, str) else text
    Path(home.config_toml).write_bytes(data)


def of_project(project: Path, text: str) -> None:
    (project / ".memsearch.toml").write_text(text, encoding="utf-8")


def loaded(
    home: Home,
    project: Path | None = None,
    *,
    strict: bool = False,
    environ: dict[str, str] | None = None,
    overrides: dict[str, object] | None = None,
) -> Loaded:
    root = str(project) if project else None
    return load(home, root, environ=environ or {}, overrides=overrides, strict=strict)


def test_without_anything(home: Home) -> None:
    found = loaded(home, strict=True)
    assert found.problems == ()
    assert found.origins == {}
    assert found.settings.milvus.uri == home.milvus_db
    assert found.settings.embedding == Settings().embedding
    assert found.settings.summarize.timeout_seconds == 120
    assert found.settings.summarize.max_input_chars == 24_000
    assert found.settings.budget.daily_tokens == 2_000_000


def test_each_layer_goes_before_the_one_below(home: Home, project: Path) -> None:
    environ: dict[str, str] = {}
    overrides: dict[str, object] = {}

    def top_k() -> tuple[int, str]:
        found = loaded(home, project, environ=environ, overrides=overrides, strict=True)
        return found.settings.search.top_k, found.origins.get("search.top_k", "")

    assert top_k() == (5, "")
    write(home, "[search]\ntop_k = 6\n")
    assert top_k() == (6, home.config_toml)
    of_project(project, "[search]\ntop_k = 7\n")
    assert top_k() == (7, str(project / ".memsearch.toml"))
    environ["MEMSEARCH_SEARCH__TOP_K"] = "8"
    assert top_k() == (8, "MEMSEARCH_SEARCH__TOP_K")
    overrides["search.top_k"] = 9
    assert top_k() == (9, "the command line")
    overrides["search.top_k"] = None  # a flag that was not given
    assert top_k() == (8, "MEMSEARCH_SEARCH__TOP_K")


def test_a_layer_sets_keys_not_sections(home: Home) -> None:
    write(home, '[embedding]\nprovider = "openai"\nmodel = "a"\n')
    found = loaded(home, environ={"MEMSEARCH_EMBEDDING__MODEL": "b"}, strict=True)
    assert found.settings.embedding.provider == "openai"
    assert found.settings.embedding.model == "b"


def test_values_of_every_kind(home: Home) -> None:
    write(
        home,
        """
[capture]
exclude = ["~/a", "~/b 项"]
tail = true
[retry]
base_seconds = 5
[summarize.platforms.claude-code]
provider = "extractive"
[projects."/work/我 app"]
collection = "team"
""",
    )
    got = loaded(home, strict=True).settings
    assert got.capture.exclude == ("~/a", "~/b 项")
    assert got.capture.tail is True
    assert got.retry.base_seconds == 5.0
    assert got.summarize.for_platform("claude-code").provider == "extractive"
    assert got.summarize.for_platform("codex").provider == "auto"
    assert got.collections() == {"/work/我 app": "team"}


def test_a_collection_is_of_one_project(home: Home) -> None:
    """Their journals have the same names, so that each would remove the other one's rows."""
    entry = '[projects."{}"]\ncollection = "{}"\n'
    write(home, "".join(entry.format(*pair) for pair in (("/a", "x"), ("/b", "y"), ("/c", "x"))))
    with pytest.raises(MemsearchError, match="x is the collection of /a already"):
        loaded(home, strict=True)
    found = loaded(home, strict=False)
    assert found.settings.collections() == {"/a": "x", "/b": "y"}
    assert [problem.key for problem in found.problems] == ['projects."/c".collection']


def test_the_environment(home: Home) -> None:
    found = loaded(
        home,
        strict=True,
        environ={
            "MEMSEARCH_HOME": "/x",
            "MEMSEARCH_DIR": "/x",
            "MEMSEARCH_INTERNAL": "1",
            "MEMSEARCH_DISABLE": "1",
            "MEMSEARCH_NO_SETTING": "1",
            "OTHER__KEY": "1",
            "MEMSEARCH_CAPTURE__ENABLED": "off",
            "MEMSEARCH_CAPTURE__EXCLUDE": "~/a, ~/b",
            "MEMSEARCH_REDACT__PATTERNS": '["a,b"]',
            "MEMSEARCH_WORKERS__IDLE_EXIT_MINUTES": "0.5",
            "MEMSEARCH_SUMMARIZE__PLATFORMS__CODEX__PROVIDER": "openai",
            "MEMSEARCH_SUMMARIZE__PLATFORMS__CLAUDE_CODE__MODEL": "haiku",
            "MEMSEARCH_EMBEDDING__API_KEY": "",
        },
    )
    got = found.settings
    assert got.capture.enabled is False
    assert got.capture.exclude == ("~/a", "~/b")
    assert got.redact.patterns == ("a,b",)
    assert got.workers.idle_exit_minutes == 0.5
    assert got.summarize.for_platform("codex").provider == "openai"
    assert got.summarize.for_platform("claude-code").model == "haiku"
    assert found.origins["summarize.platforms.claude-code.model"] == (
        "MEMSEARCH_SUMMARIZE__PLATFORMS__CLAUDE_CODE__MODEL"
    )


MISTAKES = [
    ("[embedding]\nmodle = 'x'\n", ["embedding.modle", "did you mean embedding.model?"]),
    ("[embeding]\nmodel = 'x'\n", ["embeding", "did you mean embedding?"]),
    ("top_k = 5\n", ["top_k", "did you mean search.top_k?"]),
    ("[search]\ntop_k = 'x'\n", ["search.top_k", "expected a whole number from 1 to 1000"]),
    ("search = 5\n", ["search", "this is a section", "expected a table"]),
    ("[search.top_k]\nx = 1\n", ["search.top_k", "found a table"]),
    ("[embedding]\nprovider = 'opnai'\n", ["expected one of onnx", "did you mean openai?"]),
    ("[projects]\n'/x' = 'team'\n", ['projects."/x"', "this is a section"]),
    ("[projects.'/x']\ncolection = 'team'\n", ['did you mean projects."/x".collection?']),
    ("[summarize.platforms.claude]\nmodel = 'x'\n", ["summarize.platforms.claude"]),
    ("[search\n", ["not valid TOML", "line 1"]),
    ("x = " + "9" * 5000, ["not valid TOML"]),
    ("x = " + "[" * 5000, ["nested too deeply"]),
    (b"[search]\ntop_k = 5 # \xff\n", ["not UTF-8", "byte 21"]),
]


@pytest.mark.parametrize(("text", "said"), MISTAKES)
def test_a_mistake_is_an_error_for_a_person(home: Home, text: str | bytes, said: list[str]) -> None:
    write(home, text)
    with pytest.raises(MemsearchError) as raised:
        loaded(home, strict=True)
    assert raised.value.kind is ErrorClass.CONFIG
    for words in [home.config_toml, *said]:
        assert words in str(raised.value)


@pytest.mark.parametrize(("text", "said"), MISTAKES)
def test_a_mistake_is_a_problem_for_a_worker(
    home: Home, text: str | bytes, said: list[str]
) -> None:
    write(home, text)
    found = loaded(home)
    assert found.settings == loaded(Home(home.root), strict=False).settings
    assert [problem.severity for problem in found.problems] == ["error"]
    assert all(words in str(found.problems[0]) for words in [home.config_toml, *said])
    assert found.settings.search.top_k == 5


def test_a_mistake_leaves_the_rest_in_force(home: Home) -> None:
    write(
        home, "[search]\ntop_k = 8\nfusion = 'x'\n[redact]\npatterns = ['a+', '(', '(a+)+', 'b']\n"
    )
    found = loaded(home)
    assert found.settings.search.top_k == 8
    assert found.settings.search.fusion == "standardized"
    assert found.settings.redact.patterns == ("a+", "b")
    assert len(found.problems) == 2


def test_a_broken_layer_does_not_hide_the_layer_below(home: Home, project: Path) -> None:
    write(home, "[search]\ntop_k = 8\n")
    of_project(project, "[search]\ntop_k = 'x'\n")
    found = loaded(home, project, environ={"MEMSEARCH_SEARCH__TOP_K": "0"})
    assert found.settings.search.top_k == 8
    assert len(found.problems) == 2


def test_all_mistakes_are_named_at_once(home: Home) -> None:
    write(home, "a = 1\nb = 2\n[search]\ntop_k = 0\n")
    with pytest.raises(MemsearchError) as raised:
        loaded(home, strict=True, environ={"MEMSEARCH_SEARCH__TOPK": "1"})
    lines = str(raised.value).splitlines()
    assert len(lines) == 4
    assert lines[-1].startswith("MEMSEARCH_SEARCH__TOPK: ")


def test_a_byte_order_mark_and_other_line_ends(home: Home) -> None:
    write(home, b"\xef\xbb\xbf[search]\r\ntop_k = 8\r\n")
    assert loaded(home, strict=True).settings.search.top_k == 8


@pytest.mark.parametrize("kind", ["folder", "fifo", "huge", "unreadable"])
def test_what_is_no_file_to_read(home: Home, kind: str) -> None:
    target = Path(home.config_toml)
    if kind == "folder":
        target.mkdir()
    elif kind == "fifo":
        os.mkfifo(target)
    elif kind == "huge":
        with target.open("wb") as file:
            file.truncate(2 << 20)
    else:
        target.symlink_to(target)  # a loop: unreadable for root too
    with pytest.raises(MemsearchError, match="cannot be read"):
        loaded(home, strict=True)
    assert loaded(home).settings.search.top_k == 5


def test_a_project_may_set_few_keys(home: Home, project: Path) -> None:
    of_project(
        project,
        """
[chunking]
max_chunk_size = 800
[indexing]
exclude = ["*.tmp.md"]
[watch]
debounce_ms = 10
[search]
top_k = 3
fusion = "rrf"
[capture]
enabled = false
tail = true
[summarize]
enabled = false
base_url = "https://evil.example"
[summarize.platforms.codex]
provider = "openai"
[redact]
allow = [".*"]
[projects."/x"]
collection = "stolen"
""",
    )
    found = loaded(home, project, strict=True)
    got = found.settings
    assert got.chunking.max_chunk_size == 800
    assert got.indexing.exclude == ("*.tmp.md",)
    assert got.watch.debounce_ms == 10
    assert got.search.top_k == 3
    assert got.capture.enabled is False
    assert got.summarize.enabled is False
    (problem,) = found.problems
    assert problem.severity == "warning"
    assert problem.origin.endswith("my 项目/.memsearch.toml")
    for name in ("search.fusion", "capture.tail", "summarize.base_url", "redact.allow"):
        assert name in problem.key
    assert "and 1 more" not in problem.key
    defaults = Settings()
    assert got.search.fusion == "standardized"
    assert got.summarize.base_url == ""
    assert got.summarize.platforms == defaults.summarize.platforms
    assert got.redact == defaults.redact
    assert got.projects == {}


def test_a_flag_may_set_what_is_known_only(home: Home) -> None:
    found = loaded(
        home, strict=True, overrides={"capture.exclude": ("a",), "embedding.batch_size": "4"}
    )
    assert found.settings.capture.exclude == ("a",)
    assert found.settings.embedding.batch_size == 4
    with pytest.raises(MemsearchError, match=r"the command line: search\.topk"):
        loaded(home, strict=True, overrides={"search.topk": 1})


def test_a_file_of_the_other_memsearch_with_all_its_keys(home: Home, project: Path) -> None:
    write(home, (DATA / "pypi-0.4.23.toml").read_bytes())
    (project / ".memsearch.toml").write_bytes((DATA / "pypi-0.4.23-project.toml").read_bytes())
    found = loaded(home, project, strict=True)
    got = found.settings
    assert got.milvus.uri == "http://localhost:19530"
    assert got.milvus.token == "root:Milvus"
    assert got.embedding.provider == "openai"
    assert got.embedding.model == "text-embedding-3-small"
    assert got.embedding.base_url == "https://api.example.org/v1"
    assert got.embedding.api_key == "env:OPENAI_API_KEY"
    assert got.embedding.batch_size == 64
    assert got.chunking.max_chunk_size == 900
    assert got.chunking.overlap_lines == 3
    assert got.indexing.ignore_files == (".gitignore",)
    assert got.watch.debounce_ms == 2000
    notes = {p.key: p for p in found.problems if p.severity == "note"}
    assert set(notes) == {
        "milvus.collection",
        "compact.llm_provider",
        "compact.llm_model",
        "compact.prompt_file",
        "compact.base_url",
        "compact.api_key",
        "reranker",
        "llm",
        "prompts",
        "plugins",
    }
    assert notes["compact.llm_model"].hint == "see summarize.model"
    assert "keys of the memsearch of PyPI" in notes["plugins"].message
    # Its project file holds two keys that are known but not a project's to set here.
    assert [p.key for p in found.problems if p.severity == "warning"] == ["embedding.batch_size"]
    secrets = ("sk-other-tool", "root:Milvus")
    assert not any(secret in str(p) for p in found.problems for secret in secrets)


def test_the_index_lies_beside_an_older_database_file(home: Home) -> None:
    old = Path(home.milvus_db)
    old.write_bytes(b"SQLite format 3\0 whatever")
    before = old.read_bytes(), old.stat().st_mtime_ns
    beside = os.path.join(home.root, "memsearch-milvus.db")

    found = loaded(home, strict=True)
    assert found.settings.milvus.uri == beside
    assert found.problems == ()

    # The other tool's `config init` writes its default into the file.
    environ = {"HOME": os.path.dirname(home.root)}
    write(home, f'[milvus]\nuri = "~/{os.path.basename(home.root)}/milvus.db"\n')
    found = loaded(home, strict=True, environ=environ)
    assert found.settings.milvus.uri == beside
    (problem,) = found.problems
    assert problem.severity == "note"
    assert "older Milvus Lite" in problem.message

    # Any other place is the user's own choice.
    other = Path(home.root, "other.db")
    other.write_bytes(b"SQLite format 3\0")
    write(home, '[milvus]\nuri = "other.db"\n')
    assert loaded(home, strict=True).settings.milvus.uri == str(other)
    assert (old.read_bytes(), old.stat().st_mtime_ns) == before


def test_the_other_tools_model_for_onnx_gives_way_to_ours(home: Home) -> None:
    write(home, '[embedding]\nprovider = "onnx"\nmodel = "gpahal/bge-m3-onnx-int8"\n')
    found = loaded(home, strict=True)
    assert found.settings.embedding == Settings().embedding
    (problem,) = found.problems
    assert (problem.severity, problem.key) == ("note", "embedding.model")
    write(home, '[embedding]\nprovider = "openai"\nmodel = "gpahal/bge-m3-onnx-int8"\n')
    assert loaded(home, strict=True).settings.embedding.model == "gpahal/bge-m3-onnx-int8"


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("~/data/m.db", "{user}/data/m.db"),
        ("/abs/m 库.db", "/abs/m 库.db"),
        ("sub/../m.db", "{home}/m.db"),
        ("http://h:19530", "http://h:19530"),
        ("env:MILVUS_URI", "env:MILVUS_URI"),
        ("unix:/run/m.sock", "unix:/run/m.sock"),
        ("", "{home}/milvus.db"),
    ],
)
def test_the_uri_is_absolute(home: Home, uri: str, expected: str) -> None:
    write(home, f'[milvus]\nuri = "{uri}"\n')
    found = loaded(home, strict=True, environ={"HOME": "/users/me"})
    assert found.settings.milvus.uri == expected.format(user="/users/me", home=home.root)


def test_an_env_file_that_others_may_read(home: Home) -> None:
    Path(home.env_file).write_text("A=b\n", encoding="utf-8")
    os.chmod(home.env_file, 0o644)
    (problem,) = loaded(home, strict=True).problems
    assert problem.severity == "warning"
    assert "chmod 600" in problem.hint
    os.chmod(home.env_file, 0o600)
    assert loaded(home, strict=True).problems == ()


def test_the_project_and_its_settings_at_once(home: Home, tmp_path: Path) -> None:
    app = Path(os.path.realpath(tmp_path)) / "app"
    (app / ".memsearch" / "memory").mkdir(parents=True)
    (app / "src").mkdir()
    of_project(app, "[search]\ntop_k = 3\n[project]\nisolate_worktrees = true\n")
    write(home, f'[projects."{app}"]\ncollection = "team"\n')
    environ = {"HOME": str(tmp_path), "MEMSEARCH_HOME": home.root}
    project, found = load_at(str(app / "src"), environ, strict=True)
    assert project.root == str(app)
    assert project.collection == "team"
    assert found.settings.search.top_k == 3
    assert found.settings.project.isolate_worktrees is False
    assert [p.key for p in found.problems] == ["project.isolate_worktrees"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.binary(max_size=200))
def test_no_file_stops_a_worker(home: Home, data: bytes) -> None:
    write(home, data)
    assert isinstance(loaded(home).settings, Settings)


VALUES = st.recursive(
    st.sampled_from(
        ["true", "-1", "0", "1e400", "nan", "'x'", '""', "1979-05-27", "99999999999999999999"]
    ),
    lambda inner: (
        st.lists(inner, max_size=2).map(lambda items: f"[{', '.join(items)}]")
        | inner.map(lambda value: f"{{ a = {value} }}")
    ),
    max_leaves=3,
)
NAMES = st.sampled_from(
    ["milvus.uri", "search", "search.top_k", "capture.exclude", "retry.base_seconds", "projects",
     "projects.x", "projects.x.collection", "projects.'*'.collection", "redact.patterns", "'*'",
     "summarize.platforms", "summarize.platforms.codex.timeout_seconds", "embedding.api_key",
     "plugins", "plugins.codex", "milvus.collection", "''", "compact.llm_model.x"]
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(name=NAMES, value=VALUES, as_project=st.booleans())
def test_no_value_stops_a_worker(
    home: Home, project: Path, name: str, value: str, as_project: bool
) -> None:
    write(home, "" if as_project else f"{name} = {value}\n")
    of_project(project, f"{name} = {value}\n" if as_project else "")
    found = loaded(home, project)
    assert isinstance(found.settings, Settings)
    assert found.settings.search.top_k >= 1
    assert str(found.problems)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    rest=st.text("ABC_*项\n", max_size=12),
    section=st.sampled_from(["", "SEARCH__", "PROJECTS__", "SEARCH__TOP_K"]),
    text=st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
)
def test_no_variable_stops_a_worker(home: Home, rest: str, section: str, text: str) -> None:
    found = loaded(home, environ={f"MEMSEARCH_{section}{rest}": text})
    assert isinstance(found.settings, Settings)
