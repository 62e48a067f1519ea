"""The Python API on the real index, and its example."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from memsearch import MemSearch, MemsearchError
from memsearch.config.errors import ErrorClass
from memsearch.config.paths import Home
from memsearch.pipeline.engine import Engine
from memsearch.pipeline.log import EventLog
from memsearch.workers.service import Service
from memsearch.workers.watching import Watcher

DOCS = Path(__file__).parent.parent.parent / "docs" / "python.md"

NOTES = """# 2026-03-05

### 09:00
- Moved the sessions from Redis to PostgreSQL since evictions logged people out

### 10:00
- 修复了备份脚本上传超时的问题

### 11:00
- The turbine of station seven was replaced
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's home and a project in it that holds notes; the current folder."""
    project = tmp_path / "it's a 项目"
    memory = project / ".memsearch" / "memory"
    memory.mkdir(parents=True)
    (memory / "2026-03-05.md").write_text(NOTES, encoding="utf-8")
    for name in [name for name in os.environ if name.startswith("MEMSEARCH_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MEMSEARCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MEMSEARCH_WORKERS__AUTOSTART", "false")
    monkeypatch.chdir(project)
    return project


def cli(*arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "memsearch._entry", *arguments],
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def test_importing_the_package_loads_nothing() -> None:
    code = (
        "import sys; before = set(sys.modules); import memsearch;"
        " print(len([m for m in set(sys.modules) - before if m != 'memsearch']));"
        " memsearch.MemSearch; heavy = {'numpy', 'pymilvus', 'onnxruntime', 'openai', 'click',"
        " 'huey', 'structlog', 'watchdog', 'starlette', 'tokenizers'};"
        " print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, check=True, text=True
    )
    assert done.stdout.split("\n")[:2] == ["0", "[]"]


def test_the_ways_give_the_same_answers(place: Path) -> None:
    """Python, the command line, and both again through the workers' service."""
    memory = MemSearch()
    assert asyncio.run(memory.index()) == 3
    questions: list[tuple[str, dict[str, Any], list[str]]] = [
        ("why did people get logged out", {}, []),
        ("备份脚本", {"top_k": 2}, ["--top-k", "2"]),
        ("turbine", {"day": "2026-03-05"}, ["--day", "2026-03-05"]),
        ("turbine", {"kinds": ["note"]}, ["--kind", "note"]),
    ]

    def ids(found: list[dict[str, Any]]) -> list[str]:
        return [item["chunk_hash"] for item in found]

    def by_python() -> list[list[dict[str, Any]]]:
        return [asyncio.run(memory.search(text, **how)) for text, how, _ in questions]

    def by_command() -> list[list[dict[str, Any]]]:
        return [cli("search", text, "--json", *options) for text, _, options in questions]

    here = by_python()
    assert [bool(found) for found in here] == [True, True, True, False]
    assert "PostgreSQL" in here[0][0]["content"]
    assert by_command() == here
    home = Home(os.environ["MEMSEARCH_HOME"])
    log = EventLog(home.state_db)
    engine = Engine(home, dict(os.environ), log)
    service = Service(engine)
    service.start()
    try:
        assert by_python() == here
        assert by_command() == here
    finally:
        service.stop()
        engine.close()
        log.close()
    key = ids(here[0])[0]
    assert asyncio.run(memory.expand(key))["content"].startswith("### 09:00")
    assert asyncio.run(memory.expand(key)) == cli("expand", key, "--json")


def test_what_is_wrong_is_an_error(place: Path, tmp_path: Path) -> None:
    memory = MemSearch()
    with pytest.raises(MemsearchError) as caught:
        asyncio.run(memory.search("x", since="soon"))
    assert caught.value.kind is ErrorClass.CONFIG
    with pytest.raises(MemsearchError):
        asyncio.run(memory.search(""))
    with pytest.raises(MemsearchError):
        MemSearch(embedding_provider="nobody")
    with pytest.raises(MemsearchError):
        MemSearch(project=tmp_path / "missing")
    with pytest.raises(MemsearchError, match="does not exist"):
        asyncio.run(MemSearch([place / "missing.md"]).index())
    with pytest.raises(TypeError):
        asyncio.run(memory.search("x", colour="blue"))


def test_named_files_and_folders(place: Path) -> None:
    docs = place / "docs"
    docs.mkdir()
    (docs / "design.md").write_text("# Design\n\n- the frobnicator has stages\n", encoding="utf-8")

    async def run() -> None:
        async with MemSearch([docs]) as memory:
            # The memory of a project that is indexed comes with it.
            assert await memory.index() == 4
            assert "frobnicator" in (await memory.search("frobnicator"))[0]["content"]
            (docs / "design.md").unlink()
            assert await memory.index() == 3
            (docs / "more.md").write_text("# More\n\n- of it\n", encoding="utf-8")
            assert await memory.index() == 4
            shutil.rmtree(docs)
            assert await memory.index() == 3
            with pytest.raises(MemsearchError, match="docs does not exist") as caught:
                await memory.index()  # and nothing of it is left in the index
            assert caught.value.kind is ErrorClass.BAD_REQUEST
            note = place / ".memsearch" / "memory" / "2026-03-05.md"
            assert await memory.index_file(note) == 3
            answer = await memory.answer("turbine", top_k=1)
            assert answer["freshness"]["stale"] is False
            assert answer["results"][0]["indexed"] is True

    asyncio.run(run())


def test_settings_of_its_own_leave_the_users_index_alone(place: Path) -> None:
    own = MemSearch(collection="team_notes")
    assert own.collection == "team_notes"
    assert asyncio.run(own.index()) == 3
    assert len(asyncio.run(own.search("turbine", top_k=1))) == 1
    assert MemSearch().collection != "team_notes"
    home = Path(os.environ["MEMSEARCH_HOME"])
    assert not (home / "milvus.db").exists()
    assert not (home / "state.db").exists()
    # Equal settings, equal place; the model is shared with the user's.
    assert asyncio.run(MemSearch(collection="team_notes").index()) == 3
    (instance,) = (home / "instances").iterdir()
    assert (instance / "models").resolve() == home / "models"
    elsewhere = MemSearch(milvus_uri="here.db")
    assert asyncio.run(elsewhere.index()) == 3
    assert (place / "here.db").is_dir()


def test_forgetting_reaches_an_index_of_its_own(place: Path) -> None:
    own = MemSearch(collection="team_notes")
    assert asyncio.run(own.index()) == 3
    store = Path(os.environ["MEMSEARCH_HOME"], "instances")
    assert holds(store, "gearbox") is False
    assert holds(store, "turbine") is True
    forgotten = cli("forget", "--text", "turbine", "--yes", "--json")
    assert len(forgotten["entries"]) == 1
    assert holds(store, "turbine") is False
    found = asyncio.run(own.answer("turbine"))
    assert "turbine" not in json.dumps(found["results"])
    assert len(found["results"]) == 2


def holds(folder: Path, word: str) -> bool:
    """Whether a file of the folder holds a word, as it stands or in a Parquet file."""
    import pyarrow.parquet as parquet  # type: ignore[import-untyped]

    for path in folder.rglob("*"):
        if path.suffix == ".parquet":
            if word in str(parquet.read_table(path).to_pydict()):
                return True
        elif path.is_file() and word.encode() in path.read_bytes():
            return True
    return False


def test_the_programs_own_logging_is_left_alone(place: Path) -> None:
    root = logging.getLogger()
    before = (list(root.handlers), root.level)
    asyncio.run(MemSearch().index())
    assert (list(root.handlers), root.level) == before
    log = Path(os.environ["MEMSEARCH_HOME"], "logs", "worker.log").read_text(encoding="utf-8")
    assert "worker_started" in [json.loads(line)["event"] for line in log.splitlines()]


def test_compact(place: Path) -> None:
    memory = MemSearch()
    journal = place / ".memsearch" / "memory" / "2026-03-05.md"
    plan = asyncio.run(memory.compact(older_than_days=1, dry_run=True))
    assert plan["months"][0]["journals"] == [str(journal)]
    assert journal.exists()
    done = asyncio.run(memory.compact(older_than_days=1))
    archived = place / ".memsearch" / "archive" / "2026-03-05.md"
    assert done["moved"] == [{"journal": str(journal), "archive": str(archived)}]
    assert archived.read_text(encoding="utf-8") == NOTES
    found = asyncio.run(memory.search("the turbine of station seven", top_k=1))[0]
    assert found["source"] == ".memsearch/memory/digest-2026-03.md"


def test_watch(place: Path) -> None:
    seen: list[tuple[str, str]] = []
    came = threading.Event()

    def tell(kind: str, path: Path, error: str) -> None:
        assert not error
        seen.append((kind, path.name))
        came.set()

    with MemSearch() as memory:
        memory.watch(on_event=tell, debounce_ms=50)
        note = place / ".memsearch" / "memory" / "turbine.md"
        for text in ("# T\n\n- the old gearbox was oiled\n", "# T\n\n- the new gearbox is quiet\n"):
            came.clear()
            draft = note.with_suffix(".tmp")
            draft.write_text(text, encoding="utf-8")
            os.replace(draft, note)  # as editors save
            assert came.wait(60)
        found = asyncio.run(memory.search("gearbox", top_k=1))[0]
        assert "quiet" in found["content"]
        assert found["indexed"] is True
    assert set(seen) == {("indexed", "turbine.md")}


class TestWatcher:
    def test_a_failure_is_told_and_tried_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("memsearch.workers.watching.RETRY_SECONDS", 0.1)
        calls: list[list[str]] = []
        failures: list[str] = []
        done = threading.Event()

        def changed(paths: Any) -> None:
            calls.append([Path(path).name for path in paths])
            if len(calls) == 1:
                raise OSError("the disk is away")
            done.set()

        with Watcher(
            [str(tmp_path)], changed, debounce=0.05, failed=lambda e: failures.append(str(e))
        ):
            (tmp_path / "a.md").write_text("a")
            assert done.wait(20)
        assert calls[:2] == [["a.md"], ["a.md"]]
        assert failures == ["the disk is away"]

    def test_only_documents_of_the_named_places(self, tmp_path: Path) -> None:
        (tmp_path / "in").mkdir()
        (tmp_path / "one.md").write_text("x")
        calls: list[str] = []

        def changed(paths: Any) -> None:
            calls.extend(Path(path).name for path in paths)

        with Watcher([str(tmp_path / "in"), str(tmp_path / "one.md")], changed, debounce=0.05):
            for name in ("two.md", "in/.a.md.swp", "in/b.md~", "in/c.tmp", "in/.#d.md", "in/e.md"):
                (tmp_path / name).write_text("x")
            (tmp_path / "one.md").write_text("y")
            deadline = time.monotonic() + 20
            while set(calls) != {"e.md", "one.md"} and time.monotonic() < deadline:
                time.sleep(0.05)
        assert set(calls) == {"e.md", "one.md"}

    def test_a_missing_place_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(MemsearchError, match="does not exist"):
            Watcher([str(tmp_path / "no")], lambda paths: None, debounce=0.1)


def test_the_example_of_the_documentation(place: Path) -> None:
    """The agent loop, as it is printed; the model repeats what it was told to remember."""
    text = DOCS.read_text(encoding="utf-8")
    found = re.search(r"<!-- example: agent loop -->\n```python\n(.*?)\n```", text, re.DOTALL)
    assert found is not None
    example = ModuleType("example")
    exec(compile(found[1], "docs/python.md", "exec"), example.__dict__)
    prompts: list[str] = []

    def model(prompt: str) -> str:
        prompts.append(prompt)
        return "noted"

    notes = place / ".memsearch" / "memory"
    said = ["My favourite colour is teal.", "Which colour do I like best?"]
    assert asyncio.run(example.chat(notes, said, model)) == ["noted", "noted"]
    assert "teal" not in prompts[0].split("Question:")[0]
    assert "favourite colour is teal" in prompts[1].split("Question:")[0]
    # The command line finds what the program wrote.
    assert "teal" in cli("search", "favourite colour", "--json")[0]["content"]
