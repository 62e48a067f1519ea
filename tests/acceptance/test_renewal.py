"""Another model: the old index answers by keywords until the new one takes its place.

Whatever is killed, and however often the mind is changed, a search finds everything at once,
and no vector of one model is ever compared with one of another.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from renewal_storm import storm
from stub_llm import StubLLM, vector
from world import Session, World

from memsearch.config.paths import Home
from memsearch.recall import backend, requests
from memsearch.workers.asking import ask

FILES = 6
#: One length for both models, so that Milvus itself would not notice a mixture.
DIMENSION = 24
SEED = int(os.environ.get("MEMSEARCH_TEST_SEED", "20261130"))


class Two:
    """A world with two embedding models, each at an endpoint of its own."""

    def __init__(self, world: World, stubs: dict[str, StubLLM]) -> None:
        self.world = world
        self.stubs = stubs
        self.model = ""
        world.memory.mkdir(parents=True)
        self.home.create()
        for number in range(FILES):
            (world.memory / f"note-{number}.md").write_text(
                f"# Pump{number}\n\nThe valve of pump{number} was tightened.\n\n"
                f"## Log\n\nIts valve leaked at noon {number}.\n",
                encoding="utf-8",
            )

    def use(self, model: str) -> None:
        """Have the settings name a model."""
        self.model = model
        self.world.settings |= {
            "MEMSEARCH_EMBEDDING__PROVIDER": "openai",
            "MEMSEARCH_EMBEDDING__BASE_URL": self.stubs[model].openai_url,
            "MEMSEARCH_EMBEDDING__API_KEY": "sk-test",
            "MEMSEARCH_EMBEDDING__MODEL": model,
        }

    @property
    def home(self) -> Home:
        return Home(str(self.world.home))

    def index(self) -> dict[str, Any]:
        """Bring the index up to date, in this process."""
        request = {"cwd": str(self.world.project), "environ": {}, "paths": [], "force": False}
        return ask(self.home, self.world.environ, "index", request, wait=True)

    def killed(self, fault: str) -> None:
        """The same in a process that kills itself; it must have come to that point."""
        script = str(Path(__file__).with_name("faulty.py"))
        done = subprocess.run(
            [sys.executable, "-P", script, "index"],
            cwd=self.world.project,
            env=self.world.environ | {"FAULT": fault},
            capture_output=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == -signal.SIGKILL, (fault, done.stdout, done.stderr)

    def search(self) -> str:
        """Everything is found, at once; the model of the vectors, empty for keywords alone."""
        request = requests.search_request(
            "valve", cwd=str(self.world.project), environ={}, top_k=100
        )
        answer = backend.answer("search", request, self.home, self.world.environ, wait_seconds=20)
        assert not answer["degraded"], answer["notes"]
        found = {item["source"] for item in answer["results"]}
        assert found == {
            f".memsearch/memory/{path.name}" for path in self.world.memory.iterdir()
        }, answer["notes"]
        near = [item for item in answer["results"] if item["similarity"] is not None]
        if not near:
            assert any("keywords alone" in note for note in answer["notes"]), answer["notes"]
            return ""
        question = vector("valve", DIMENSION, self.stubs[self.model].salt)
        for item in near:
            text = vector(item["content"], DIMENSION, self.stubs[self.model].salt)
            cosine = sum(a * b for a, b in zip(question, text, strict=True))
            assert item["similarity"] == pytest.approx(cosine, abs=2e-3), item
        return self.model

    def tidy(self) -> bool:
        """Nothing of a renewal is left."""
        names = {path.name for path in (self.world.home / "milvus.db" / "collections").iterdir()}
        return len(names) == 1 and not self.world.sql("SELECT * FROM renewals")


@pytest.fixture
def two(world: World) -> Iterator[Two]:
    with (
        StubLLM(dimension=DIMENSION, salt="a") as a,
        StubLLM(dimension=DIMENSION, salt="b") as b,
        StubLLM(dimension=DIMENSION, salt="c") as c,
    ):
        made = Two(world, {"model-a": a, "model-b": b, "model-c": c})
        made.use("model-a")
        yield made


#: The moments of a renewal: its beginning, its rows, the swap's steps, the end.
FAULTS = {
    "beginning": [
        "create_collection:1:after",
        "alter_collection_properties:1:after",
    ],
    "rows": [f"upsert:{FILES // 2}:before", f"upsert:{FILES}:after"],
    "swap": [
        "rename_collection:1:within",
        "rename_collection:1:after",
        "rename_collection:2:within",
        "rename_collection:2:after",
    ],
    "end": ["drop_collection:1:before", "noted:1:before"],
}


@pytest.mark.parametrize("moment", FAULTS)
def test_a_kill_at_any_moment_leaves_a_whole_index(two: Two, moment: str) -> None:
    two.index()
    assert two.search() == "model-a"
    models = itertools.cycle(("model-b", "model-a"))
    for fault in FAULTS[moment]:
        two.use(next(models))
        two.killed(fault)
        two.search()
        two.index()
        assert two.search() == two.model, fault
        assert two.tidy(), fault
    assert two.stubs["model-a"].calls("embeddings") >= 1


def test_kills_at_random_while_workers_renew(two: Two) -> None:
    rng = random.Random(SEED)
    two.index()
    two.stubs["model-b"].embeddings_default = "slow:0.2"
    two.use("model-b")
    two.world.settings["MEMSEARCH_EMBEDDING__BATCH_SIZE"] = "1"
    for _ in range(3):
        worker = two.world.start("workers")
        time.sleep(rng.uniform(0.6, 2.5))
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        two.search()
    two.index()
    assert two.search() == "model-b"
    assert two.tidy()
    # What was embedded before a kill is not embedded again: each of the 12 texts, once more at
    # the most for what was under way at each kill.
    sent = [text for each in two.stubs["model-b"].of("embeddings") for text in each.body["input"]]
    assert len([text for text in sent if text != "valve"]) <= 2 * FILES + 3 * 4


def test_a_change_of_mind_in_the_middle(two: Two) -> None:
    """A to B, back to A; then to B, on to C: none is mixed, none is left over."""
    two.index()
    for last in ("model-a", "model-c"):
        two.use("model-b")
        two.killed(f"upsert:{FILES // 2}:after")
        assert two.search() == ""
        # Changed while neither model is whole: its rows have vectors of neither.
        (two.world.memory / "note-1.md").write_text(f"# Valve\n\nA new valve for {last}.\n")
        two.killed("upsert:2:after")
        assert two.search() == ""
        two.use(last)
        two.search()
        two.index()
        assert two.search() == last
        assert two.tidy()


def test_an_endpoint_that_gives_other_vectors_under_the_same_name(two: Two) -> None:
    two.index()
    two.stubs["model-a"].dimension = 2 * DIMENSION
    assert two.search() == ""
    request = {"cwd": str(two.world.project), "environ": {}, "paths": [], "force": True}
    ask(two.home, two.world.environ, "index", request, wait=True)
    answer = backend.answer(
        "search",
        requests.search_request("valve", cwd=str(two.world.project), environ={}),
        two.home,
        two.world.environ,
    )
    assert all(item["similarity"] is not None for item in answer["results"])
    assert two.tidy()


def test_settings_change_while_workers_run_and_turns_come(world: World, session: Session) -> None:
    """The built-in model, an endpoint of another dimension, and back, by the commands alone."""
    with StubLLM(dimension=12) as stub:
        world.run("config", "set", "workers.autostart", "false")
        worker = world.start("workers")
        turns = iter(range(1, 100))

        def turn() -> str:
            word = f"gauge{next(turns)}"
            world.hook(session.payload(turn=session.turn(f"Look at the {word} now", "Done.")))
            world.wait_for(lambda: word in world.journal())
            return word

        def told(word: str) -> tuple[bool, str]:
            """Whether it is found, first; whether by meaning too; what was said."""
            done = world.run("search", word, "--json")
            first = json.loads(done.stdout)[0]
            assert word in first["content"]
            return first["ranks"]["dense"] is not None, done.stderr

        words = [turn()]
        world.wait_for(lambda: told(words[0])[0])
        stub.embeddings_default = "slow:1.0"
        for key, value in {
            "provider": "openai",
            "base_url": stub.openai_url,
            "api_key": "sk-test",
            "model": "stub-embed",
        }.items():
            world.run("config", "set", f"embedding.{key}", value)
        world.wait_for(lambda: "stub-embed" in told(words[0])[1])
        by_meaning, said = told(words[0])
        assert not by_meaning
        assert "keywords alone" in said
        words.append(turn())
        stub.embeddings_default = "fine"
        for word in words:
            world.wait_for(lambda word=word: told(word)[0])
        assert not world.status()["renewals"]
        stats = json.loads(world.run("stats", "--json").stdout)
        assert stats["identity"].startswith("openai/stub-embed/")

        calls = stub.calls("embeddings")
        for key in ("provider", "base_url", "api_key", "model"):
            world.run("config", "unset", f"embedding.{key}")
            # Between two of them the settings may name what does not exist: keywords answer.
            by_meaning, said = told(words[1])
            assert by_meaning or "keywords alone" in said
        words.append(turn())
        for word in words:
            world.wait_for(lambda word=word: told(word)[0])
        # Nothing but questions went to the old endpoint, while it was still in the settings.
        later = [each.body["input"] for each in stub.of("embeddings")[calls:]]
        assert all(asked == [words[1]] for asked in later)
        assert worker.poll() is None


@pytest.fixture
def on_a_server(two: Two, tmp_path: Path) -> Iterator[Any]:
    """Milvus Lite's own server, over TCP; its engine."""
    from milvus_lite.adapter.grpc.server import start_server_in_thread

    running, engine, port = start_server_in_thread(str(tmp_path / "server"))
    two.world.settings["MEMSEARCH_MILVUS__URI"] = f"http://127.0.0.1:{port}"
    yield engine
    running.stop(grace=None).wait()
    engine.close()


@pytest.mark.parametrize("fault", ["rename_collection:1:after", "rename_collection:2:after"])
def test_the_same_on_a_server(two: Two, on_a_server: Any, fault: str) -> None:
    two.index()
    assert two.search() == "model-a"
    two.use("model-b")
    two.killed(fault)
    two.search()
    two.index()
    assert two.search() == "model-b"
    assert not two.world.sql("SELECT * FROM renewals")
    assert len(on_a_server.list_collections()) == 1


def test_what_other_machines_indexed_goes_along(two: Two, on_a_server: Any) -> None:
    """They share a collection on a server; this one neither has their files nor knows of them."""
    two.index()
    for path in (*two.world.home.glob("state.db*"), *two.world.home.glob("embeddings.db*")):
        path.unlink()
    everything = sorted(path.name for path in two.world.memory.iterdir())
    for name in everything[::2]:
        (two.world.memory / name).unlink()
    two.use("model-b")
    two.index()
    request = requests.search_request("valve", cwd=str(two.world.project), environ={}, top_k=100)
    answer = backend.answer("search", request, two.home, two.world.environ)
    assert sorted({Path(item["source"]).name for item in answer["results"]}) == everything
    for item in answer["results"]:
        question, text = (vector(t, DIMENSION, "b") for t in ("valve", item["content"]))
        cosine = sum(a * b for a, b in zip(question, text, strict=True))
        assert item["similarity"] == pytest.approx(cosine, abs=2e-3)
    assert len(on_a_server.list_collections()) == 1


def test_a_storm_of_models_kills_and_edits() -> None:
    """A short one; the script storms longer, and on a server."""
    counts = storm(SEED, 12)
    assert counts["switch"]
