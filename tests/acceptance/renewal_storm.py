"""Models change, files change, workers and indexes are killed, from a seed; each search is whole.

After every step a search must find every file as it is now, at once, and compare no vector of
one model with one of another. In the end the index is of the last model, and nothing is left
over. Run as a script it storms longer::

    python -P tests/acceptance/renewal_storm.py --seeds 1 2 3 --steps 60
    python -P tests/acceptance/renewal_storm.py --seeds 1 2 3 --server
"""

from __future__ import annotations

import argparse
import contextlib
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from stub_llm import StubLLM, vector  # noqa: E402
from world import COMMAND, World  # noqa: E402

from memsearch.config.errors import MemsearchError  # noqa: E402
from memsearch.config.paths import Home  # noqa: E402
from memsearch.recall import backend, requests  # noqa: E402

#: One length for all models, so that Milvus itself would not notice a mixture.
DIMENSION = 24
#: Seconds that the index has to come to its end after the storm.
CALM_SECONDS = 180.0


class Storm:
    """One storm."""

    def __init__(self, world: World, stubs: dict[str, StubLLM], seed: int, uri: str = "") -> None:
        self.world = world
        self.stubs = stubs
        self.rng = random.Random(seed)
        self.files: dict[str, str] = {}
        self.worker: subprocess.Popen[bytes] | None = None
        self.counts: Counter[str] = Counter()
        self.versions = iter(range(1, 10**6))
        self.home = Home(str(world.home))
        self.home.create()
        world.memory.mkdir(parents=True)
        if uri:
            world.settings["MEMSEARCH_MILVUS__URI"] = uri
        for _ in range(8):
            self.add()
        self.model = ""
        self.switch()

    def run(self, steps: int) -> None:
        """So many steps, each followed by a search; then calm."""
        self.world.run("index")
        actions = {
            self.add: 2,
            self.edit: 5,
            self.delete: 1,
            self.switch: 5,
            self.start: 4,
            self.kill: 4,
            self.index_killed: 4,
            self.wait: 3,
        }
        for _ in range(steps):
            (action,) = self.rng.choices(list(actions), weights=list(actions.values()))
            self.counts[action.__name__] += 1
            action()
            self.search()
        self.calm()

    # -- what happens ----------------------------------------------------------------------

    def add(self) -> None:
        name = f"note-{next(self.versions)}.md"
        self.write(name)

    def edit(self) -> None:
        if self.files:
            self.write(self.rng.choice(sorted(self.files)))

    def write(self, name: str) -> None:
        version = next(self.versions)
        parts = [
            f"## Part {part} of {name}\n\nThe valve leaks, version{version}.\n"
            for part in range(self.rng.randint(1, 3))
        ]
        if self.rng.random() < 0.5 and name in self.files:  # text that stays, in another place
            parts.append(self.files[name].split("\n\n## ")[0])
        self.files[name] = "\n".join(parts)
        (self.world.memory / name).write_text(self.files[name], encoding="utf-8")

    def delete(self) -> None:
        if len(self.files) > 3:
            name = self.rng.choice(sorted(self.files))
            del self.files[name]
            (self.world.memory / name).unlink()

    def switch(self) -> None:
        """Another model, in the user's settings."""
        self.model = self.rng.choice([name for name in self.stubs if name != self.model])
        text = (
            '[embedding]\nprovider = "openai"\napi_key = "sk-test"\n'
            f'base_url = "{self.stubs[self.model].openai_url}"\nmodel = "{self.model}"\n'
            f"batch_size = {self.rng.choice([1, 4, 64])}\n"
        )
        temporary = self.world.home / "config.new"
        temporary.write_text(text, encoding="utf-8")
        temporary.rename(self.world.home / "config.toml")

    def start(self) -> None:
        if self.worker is None or self.worker.poll() is not None:
            self.worker = self.world.start("workers")

    def kill(self) -> None:
        if self.worker is not None:
            self.worker.send_signal(signal.SIGKILL)
            self.worker.wait()
            self.worker = None

    def index_killed(self) -> None:
        """An index by hand, killed somewhere unless it was faster."""
        with subprocess.Popen(
            [*COMMAND, "index"],
            cwd=self.world.project,
            env=self.world.environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(self.rng.uniform(0.8, 5.0))
            process.kill()

    def wait(self) -> None:
        time.sleep(self.rng.uniform(0.1, 3.0))

    # -- what must be so -------------------------------------------------------------------

    def search(self) -> str:
        """The model of the vectors that answered; empty for keywords alone."""
        request = requests.search_request(
            "valve", cwd=str(self.world.project), environ={}, top_k=300
        )
        answer = backend.answer("search", request, self.home, self.world.environ, wait_seconds=30)
        assert not answer["degraded"], answer["notes"]
        found: dict[str, set[str]] = {}
        for item in answer["results"]:
            found.setdefault(Path(item["source"]).name, set()).add(item["content"].strip())
        assert found.keys() == self.files.keys(), (found.keys() ^ self.files.keys(), answer)
        for name, parts in found.items():
            assert all(part in self.files[name] for part in parts), (name, parts, answer["notes"])
        near = [item for item in answer["results"] if item["similarity"] is not None]
        if not near:
            assert any("keywords alone" in note for note in answer["notes"]), answer["notes"]
            self.counts["by keywords"] += 1
            return ""
        # The worker looks at the settings once a second: it may still be the model before.
        fits = [name for name in self.stubs if all(self._is_of(name, item) for item in near)]
        assert fits, [(item["content"], item["similarity"]) for item in near]
        self.counts["by meaning"] += 1
        return fits[0]

    def _is_of(self, model: str, item: dict[str, object]) -> bool:
        salt = self.stubs[model].salt
        question, text = (vector(t, DIMENSION, salt) for t in ("valve", str(item["content"])))
        cosine = sum(a * b for a, b in zip(question, text, strict=True))
        return abs(float(item["similarity"]) - cosine) < 2e-3  # type: ignore[arg-type]

    def calm(self) -> None:
        """Nothing more happens: the index comes to be of the last model, and only that."""
        self.start()
        deadline = time.monotonic() + CALM_SECONDS
        while not self._is_calm():
            assert time.monotonic() < deadline, self.world.status()
            time.sleep(0.3)
        assert self.search() == self.model
        assert self.world.run("status", check=None).returncode == 0, self.world.status()
        self.world.stop()

    def _is_calm(self) -> bool:
        if self.world.sql("SELECT 1 FROM renewals"):
            return False
        rows = self.world.sql("SELECT state, identity FROM documents WHERE state <> 'removed'")
        return len(rows) == len(self.files) and all(
            state == "done" and str(identity).startswith(f"openai/{self.model}/")
            for state, identity in rows
        )


def storm(seed: int, steps: int, *, server: bool = False) -> Counter[str]:
    """A storm in a world of its own; what happened, counted."""
    with contextlib.ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="renewal-")))
        stubs = {
            f"model-{salt}": stack.enter_context(StubLLM(dimension=DIMENSION, salt=salt))
            for salt in "abc"
        }
        uri = ""
        if server:
            from milvus_lite.adapter.grpc.server import start_server_in_thread

            running, engine, port = start_server_in_thread(str(root / "server"))
            stack.callback(engine.close)
            stack.callback(lambda: running.stop(grace=None).wait())
            uri = f"http://127.0.0.1:{port}"
        (root / "models").mkdir()
        world = World(root / "machine", root / "models")
        made = Storm(world, stubs, seed, uri)
        try:
            made.run(steps)
        except BaseException:
            with contextlib.suppress(OSError, MemsearchError):
                log = (world.home / "logs" / "worker.log").read_text("utf-8")
                print(log[-6000:], file=sys.stderr)
            raise
        finally:
            made.kill()
            world.stop()
        return made.counts


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--server", action="store_true", help="on Milvus Lite's own server")
    given = parser.parse_args()
    for seed in given.seeds:
        started = time.monotonic()
        counts = storm(seed, given.steps, server=given.server)
        print(f"seed {seed}: {dict(counts)} in {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
