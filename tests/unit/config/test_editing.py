"""Changing one key of a file, with everything else of it as it was."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memsearch.config.editing import create, known_key, set_key, unset_key
from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import Home
from memsearch.config.settings import load
from memsearch.config.template import template

BEFORE = """\
# My settings. 我的设置
title_of_mine = "kept"  # unknown, but not ours to drop

[search]   # answers
# more of them
top_k = 8  # was 5

[embedding]
provider = "openai"
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(str(tmp_path / "home"))


@pytest.fixture
def file(home: Home) -> Path:
    home.create()
    return Path(home.config_toml)


def put(home: Home, name: str, text: str) -> str:
    set_key(home, home.config_toml, name, text, project=False)
    return Path(home.config_toml).read_text(encoding="utf-8")


def test_a_value_changes_and_nothing_else(home: Home, file: Path) -> None:
    file.write_text(BEFORE, encoding="utf-8")
    assert put(home, "search.top_k", "9") == BEFORE.replace("top_k = 8 ", "top_k = 9 ")


def test_a_key_is_added_to_its_section(home: Home, file: Path) -> None:
    file.write_text(BEFORE, encoding="utf-8")
    text = put(home, "search.fusion", "rrf")
    added = 'top_k = 8  # was 5\nfusion = "rrf"\n'
    assert text == BEFORE.replace("top_k = 8  # was 5\n", added)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("search.top_k", "9", 9),
        ("capture.tail", "yes", True),
        ("retry.base_seconds", "0.5", 0.5),
        ("capture.exclude", "~/a, ~/b 项", ["~/a", "~/b 项"]),
        ("redact.patterns", '["\\\\d{3},\\"x\\""]', ['\\d{3},"x"']),
        ("summarize.platforms.claude-code.model", "haiku", "haiku"),
        ('projects."/my \\"app\\"/项目".collection', "team", "team"),
        ("embedding.model", "multi\nline \\ \"quotes\" '''", "multi\nline \\ \"quotes\" '''"),
    ],
)
@pytest.mark.parametrize("before", ["", BEFORE, template(), "[search]", "search.fusion = 'rrf'\n"])
def test_every_kind_of_value_in_every_kind_of_file(
    home: Home, file: Path, before: str, name: str, text: str, value: object
) -> None:
    file.write_text(before, encoding="utf-8")
    old = tomllib.loads(before)
    path, _ = set_key(home, str(file), name, text, project=False)
    new = tomllib.loads(file.read_text(encoding="utf-8"))
    here: object = new
    for part in path:
        assert isinstance(here, dict)
        here = here[part]
    assert here == value
    for section, keys in old.items():
        for key, kept in keys.items() if isinstance(keys, dict) else ():
            if (section, key) != path:
                assert new[section][key] == kept
    for line in before.splitlines():
        if line.startswith("# "):
            assert line in file.read_text(encoding="utf-8")


def test_in_a_template_the_line_is_switched_on_where_it_stands(home: Home, file: Path) -> None:
    file.write_text(template(), encoding="utf-8")
    assert put(home, "search.top_k", "9") == template().replace("#top_k = 5", "top_k = 9")
    # Of two sections with a key of this name, the right one.
    text = put(home, "summarize.provider", "openai")
    assert '#provider = "onnx"' in text
    assert '\nprovider = "openai"\n' in text
    assert tomllib.loads(text)["summarize"]["provider"] == "openai"


def test_an_example_within_a_text_is_not_switched_on(home: Home, file: Path) -> None:
    before = 'note = """\n[search]\n#top_k = 5\n"""\n'
    file.write_text(before, encoding="utf-8")
    text = put(home, "search.top_k", "9")
    assert text.startswith(before)
    assert tomllib.loads(text)["search"]["top_k"] == 9


def test_other_line_ends_stay(home: Home, file: Path) -> None:
    file.write_bytes(b"[search]\r\n# more\r\ntop_k = 8\r\n")
    put(home, "search.top_k", "9")
    assert file.read_bytes() == b"[search]\r\n# more\r\ntop_k = 9\r\n"


def test_what_is_set_loads(home: Home, file: Path) -> None:
    put(home, "search.top_k", "9")
    put(home, "summarize.platforms.codex.timeout_seconds", "5")
    got = load(home, environ={}, strict=True).settings
    assert got.search.top_k == 9
    assert got.summarize.for_platform("codex").timeout_seconds == 5
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_unset(home: Home, file: Path) -> None:
    file.write_text(BEFORE, encoding="utf-8")
    assert unset_key(home, str(file), "search.top_k") == (("search", "top_k"), True)
    text = file.read_text(encoding="utf-8")
    assert text == BEFORE.replace("top_k = 8  # was 5\n", "")
    assert unset_key(home, str(file), "search.top_k") == (("search", "top_k"), False)
    # What is no setting can be taken out too, whole sections included.
    assert unset_key(home, str(file), "title_of_mine")[1]
    assert unset_key(home, str(file), "embedding")[1]
    assert tomllib.loads(file.read_text(encoding="utf-8")) == {"search": {}}
    assert "# more of them" in file.read_text(encoding="utf-8")
    with pytest.raises(MemsearchError, match="no setting title_of_mine"):
        unset_key(home, str(file), "title_of_mine")


def test_unset_without_a_file(home: Home) -> None:
    assert unset_key(home, home.config_toml, "search.top_k")[1] is False
    assert not os.path.exists(home.config_toml)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("search.topk", "5", r"no setting search\.topk \(did you mean search\.top_k\?\)"),
        ("search", "5", r"search is a section \(name a setting in it, such as search\.top_k"),
        ("a b", "5", "no name of a setting"),
        ("milvus.collection", "x", "setting of the memsearch of PyPI"),
        ("plugins.codex.summarize.enabled", "x", r"see summarize\.platforms"),
        ("search.top_k", "x", "expected a whole number from 1 to 1000"),
        ("embedding.provider", "opnai", "did you mean openai"),
        ("redact.patterns", "(", "no regular expression"),
    ],
)
def test_mistakes_change_nothing(home: Home, file: Path, name: str, text: str, said: str) -> None:
    file.write_text(BEFORE, encoding="utf-8")
    with pytest.raises(MemsearchError, match=said) as raised:
        set_key(home, str(file), name, text, project=False)
    assert raised.value.kind is ErrorClass.CONFIG
    assert file.read_text(encoding="utf-8") == BEFORE


#: Layouts that a person may choose, each with a key of every section it names.
LAYOUTS = [
    "summarize.platforms.codex.model = 'x'\n[search]\ntop_k = 1\n",
    "[summarize]\nplatforms.codex.model = 'x'\n[search]\n",
    "[summarize.platforms.codex]\nmodel = 'x'\n[search]\n[summarize.platforms.opencode]\n",
    "[summarize.platforms.codex]\nmodel = 'x'\n[search]\n[summarize]\nprovider = 'auto'\n",
    "search = {top_k = 1}\nsummarize = {platforms = {codex = {model = 'x'}}}",
    "[projects.'/x']\ncollection = 'a'\n[search]\n[projects.'/y']\ncollection = 'a'\n",
    "[projects]\n'/x' = {collection = 'a'}\n[search]\ntop_k = 1 # one",
]


@pytest.mark.parametrize("before", LAYOUTS)
@pytest.mark.parametrize(
    "name",
    [
        "search.top_k",
        "search.reranker",
        "summarize.model",
        "summarize.platforms.codex.model",
        "summarize.platforms.opencode.model",
        "projects.'/x'.collection",
        "projects.'/z'.collection",
    ],
)
def test_every_layout_can_be_changed(home: Home, file: Path, before: str, name: str) -> None:
    """Some of these make tomlkit write a key that reads back as another, or not at all."""
    file.write_text(before, encoding="utf-8")
    path, key = known_key(name)
    wanted = tomllib.loads(before)
    here = wanted
    for part in path[:-1]:
        here = here.setdefault(part, {})
    here[path[-1]] = value = 7 if key.type is int else "seven"
    assert tomllib.loads(put(home, name, str(value))) == wanted
    assert unset_key(home, str(file), name)[1]
    after = tomllib.loads(file.read_text(encoding="utf-8"))
    for part in path[:-1]:
        after = after.get(part, {})
    assert path[-1] not in after


@pytest.mark.parametrize("before", ["[search\n", "search = 5\n", "x = '\n"])
def test_a_broken_file_is_left_as_it_is(home: Home, file: Path, before: str) -> None:
    file.write_text(before, encoding="utf-8")
    with pytest.raises(MemsearchError):
        put(home, "search.top_k", "9")
    assert file.read_text(encoding="utf-8") == before


def test_a_projects_file(home: Home, tmp_path: Path) -> None:
    target = tmp_path / ".memsearch.toml"
    set_key(home, str(target), "search.top_k", "3", project=True)
    assert tomllib.loads(target.read_text(encoding="utf-8")) == {"search": {"top_k": 3}}
    assert stat.S_IMODE(target.stat().st_mode) == 0o644
    target.chmod(0o664)
    set_key(home, str(target), "search.top_k", "4", project=True)
    assert stat.S_IMODE(target.stat().st_mode) == 0o664
    with pytest.raises(MemsearchError, match="may not set search.fusion".replace(".", r"\.")):
        set_key(home, str(target), "search.fusion", "rrf", project=True)


def test_a_projects_file_that_leads_elsewhere(home: Home, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    clone = tmp_path / "clone"
    clone.mkdir()
    (clone / ".memsearch.toml").symlink_to(victim)
    with pytest.raises(MemsearchError, match="leads out of the project"):
        set_key(home, str(clone / ".memsearch.toml"), "search.top_k", "3", project=True)
    assert not victim.exists()


def test_a_new_file_never_goes_over_an_old_one(home: Home, file: Path) -> None:
    create(home, str(file), "a = 1\n", 0o600)
    with pytest.raises(MemsearchError, match="is there already"):
        create(home, str(file), "b = 1\n", 0o600)
    assert file.read_text(encoding="utf-8") == "a = 1\n"


def test_a_place_that_cannot_be_written(home: Home, tmp_path: Path) -> None:
    with pytest.raises(MemsearchError, match="cannot be written") as raised:
        create(home, str(tmp_path / "absent" / "x.toml"), "", 0o600)
    assert raised.value.kind is ErrorClass.BAD_FILE
    blocked = Home(str(tmp_path / "blocked"))
    Path(blocked.root).write_bytes(b"")
    with pytest.raises(MemsearchError, match="cannot be written"):
        set_key(blocked, str(tmp_path / "x.toml"), "search.top_k", "3", project=False)


def test_changes_at_the_same_time_all_count(home: Home, file: Path) -> None:
    names = ["search.top_k", "retry.attempts", "workers.concurrency", "chunking.overlap_lines"]
    program = (
        "import sys\n"
        "from memsearch.config.editing import set_key\n"
        "from memsearch.config.paths import Home\n"
        "home = Home(sys.argv[1])\n"
        "set_key(home, home.config_toml, sys.argv[2], '7', project=False)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    running = [
        subprocess.Popen([sys.executable, "-c", program, home.root, name], env=environment)
        for name in names
    ]
    assert [process.wait(60) for process in running] == [0] * len(names)
    got = tomllib.loads(file.read_text(encoding="utf-8"))
    assert len(got) == len(names)


def test_known_keys() -> None:
    path, key = known_key(" search . top_k ")
    assert path == ("search", "top_k")
    assert key.type is int


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40
)
@given(first=TEXTS, second=TEXTS, before=st.sampled_from(["", BEFORE, template()]))
def test_any_text_can_be_set_changed_and_unset(
    home: Home, file: Path, first: str, second: str, before: str
) -> None:
    file.write_text(before, encoding="utf-8")
    for text in (first, second):
        put(home, "embedding.model", text)
        got = tomllib.loads(file.read_text(encoding="utf-8"))
        assert got["embedding"]["model"] == text
    assert unset_key(home, str(file), "embedding.model")[1]
    got = tomllib.loads(file.read_text(encoding="utf-8"))
    expected = tomllib.loads(before)
    expected.setdefault("embedding", {})
    assert got == expected
