"""A storm: hooks, kills and a slow model at once, from a seed; then the invariant is counted.

Every accepted turn is exactly one entry or one dead letter, entries of a session are in its
order, and the index equals the Markdown. Run as a script it storms longer::

    python -P tests/acceptance/storm.py --seeds 1 2 3 4 5 --turns 200
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from stub_llm import StubLLM  # noqa: E402
from world import COMMAND, Session, World  # noqa: E402

#: Seconds that the work has to come to its end after the storm.
CALM_SECONDS = 180.0


@dataclass
class Report:
    """What a storm did, and what was left after it."""

    seed: int
    turns: int = 0
    refused: int = 0
    kills: int = 0
    hook_kills: int = 0
    stops: int = 0
    model_calls: int = 0
    seconds: float = 0.0
    entries: int = 0
    dead: int = 0
    missing: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    out_of_order: list[str] = field(default_factory=list)
    not_found: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        return not (self.missing or self.twice or self.out_of_order or self.not_found)


class Storm:
    """Blows over one world.

    Args:
        world: The world.
        stub: The model.
        seed: Of everything that is random.
        turns: Turns in all.
        sessions: Sessions they are spread over.
        kill_seconds: Mean time between two kills of the worker.
        pause_seconds: Chance of SIGSTOP instead of a kill, and its length.
        hook_kill: Chance that a hook is killed while it runs.
    """

    def __init__(
        self,
        world: World,
        stub: StubLLM,
        seed: int,
        *,
        turns: int = 200,
        sessions: int = 6,
        kill_seconds: float = 1.0,
        hook_kill: float = 0.05,
        stop_chance: float = 0.1,
    ) -> None:
        self.world, self.stub, self.turns = world, stub, turns
        self.random = random.Random(seed)
        self.kill_seconds, self.hook_kill, self.stop_chance = kill_seconds, hook_kill, stop_chance
        self.sessions = [
            Session(world, f"session-{number}-of-{seed}") for number in range(sessions)
        ]
        self.report = Report(seed)
        self.accepted: dict[str, list[str]] = {session.id: [] for session in self.sessions}
        self._over = threading.Event()
        world.settings |= {
            "MEMSEARCH_WORKERS__AUTOSTART": "true",
            "MEMSEARCH_SUMMARIZE__PROVIDER": "openai",
            "MEMSEARCH_SUMMARIZE__BASE_URL": stub.openai_url,
            "MEMSEARCH_SUMMARIZE__API_KEY": "sk-test",
            "MEMSEARCH_SUMMARIZE__MODEL": "stub",
            "MEMSEARCH_RETRY__BASE_SECONDS": "0.2",
        }

    def blow(self) -> Report:
        """Send the turns while the worker is killed, wait for calm, count."""
        started = time.monotonic()
        killer = threading.Thread(target=self._kill)
        killer.start()
        try:
            for number in range(self.turns):
                self._one_turn(number)
        finally:
            self._over.set()
            killer.join()
        self._wait_for_calm()
        self.report.seconds = time.monotonic() - started
        self._count()
        return self.report

    # -- the storm -------------------------------------------------------------------------------

    def _one_turn(self, number: int) -> None:
        session = self.random.choice(self.sessions)
        word = f"marker{number}x{self.report.seed}"
        turn = session.turn(
            f"Please look into {word} in module m{number}.py", f"Looked into {word}, fixed it."
        )
        hook = subprocess.Popen(
            [*COMMAND, "enqueue", "--platform", "claude-code"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self.world.project,
            env=self.world.environ,
        )
        payload = json.dumps(session.payload(turn=turn)).encode()
        if self.random.random() < self.hook_kill:
            with contextlib.suppress(BrokenPipeError):
                hook.stdin.write(payload)
                hook.stdin.flush()
            time.sleep(self.random.uniform(0, 0.06))
            hook.kill()
            hook.communicate()
            self.report.hook_kills += 1
        else:
            out, _ = hook.communicate(payload, timeout=60)
            if hook.returncode != 0 or out != b"{}\n":
                self.report.refused += 1
        # A killed hook's turn may be missed; the session's next one brings it along.
        self.accepted[session.id].append(turn)
        self.report.turns += 1

    def _worker(self) -> int | None:
        try:
            return int((self.world.home / "run" / "worker.lock").read_text() or 0) or None
        except (OSError, ValueError):
            return None

    def _kill(self) -> None:
        while not self._over.wait(self.random.uniform(0, 2 * self.kill_seconds)):
            pid = self._worker()
            if pid is None or not _is_worker(pid):
                self._poke()
                continue
            with contextlib.suppress(ProcessLookupError):
                if self.random.random() < self.stop_chance:
                    os.kill(pid, signal.SIGSTOP)
                    self._over.wait(self.random.uniform(0.2, 1.5))
                    os.kill(pid, signal.SIGCONT)
                    self.report.stops += 1
                else:
                    os.kill(pid, signal.SIGKILL)
                    self.report.kills += 1
                    self._poke()

    def _poke(self) -> None:
        """Start a worker by hand too: after early deaths the hooks wait before they try again."""
        (self.world.home / "run" / "starting").unlink(missing_ok=True)
        self.world.start("workers", "--foreground")

    # -- after it ----------------------------------------------------------------------------------

    def _wait_for_calm(self) -> None:
        # The last turn of a session whose hook was killed: the session's end brings it along.
        for session in self.sessions:
            self.world.hook(session.payload("SessionEnd", reason="other"))
        deadline = time.monotonic() + CALM_SECONDS
        while self._open() and time.monotonic() < deadline:
            if self._worker() is None or not _is_worker(self._worker() or 0):
                self._poke()
            time.sleep(0.3)

    def _open(self) -> int:
        return sum(
            self.world.sql(f"SELECT COUNT(*) FROM {table} WHERE state = 'open'")[0][0]
            for table in ("hooks", "turns", "documents")
        )

    def _count(self) -> None:
        report = self.report
        written = re.findall(r"<!-- session:(\S+) turn:(\S+) ", self.world.journal())
        seen = Counter(turn for _, turn in written)
        dead = {turn for (turn,) in self.world.sql("SELECT turn FROM turns WHERE state = 'dead'")}
        report.entries, report.dead = len(written), len(dead)
        report.model_calls = self.stub.calls("chat")
        for session, turns in self.accepted.items():
            report.missing += [turn for turn in turns if turn not in seen and turn not in dead]
            report.twice += [turn for turn in turns if seen[turn] + (turn in dead) > 1]
            order = [turn for owner, turn in written if owner == session]
            if order != [turn for turn in turns if turn in seen]:
                report.out_of_order.append(session)
        report.not_found = self._not_found(seen)

    def _not_found(self, seen: Counter[str]) -> list[str]:
        """Turns whose entry the index does not hold, asked of the index itself."""
        from memsearch.config.project import collection_name
        from memsearch.sinks.store import MilvusStore
        from memsearch.sinks.types import Filters

        self.world.stop()
        store = MilvusStore(str(self.world.home / "milvus.db"))
        try:
            name = collection_name(str(self.world.project))
            rows = sum(store.counts(name).values())
            missing = []
            for session, turns in self.accepted.items():
                hits = store.keyword(name, "look fixed", 10_000, Filters(session=session))
                indexed = {hit.turn for hit in hits}
                missing += [turn for turn in turns if turn in seen and turn not in indexed]
            if rows != len(list(seen.elements())):
                missing.append(f"{rows} rows for {len(list(seen.elements()))} entries")
            return missing
        finally:
            store.close()


def _is_worker(pid: int) -> bool:
    try:
        return b"workers" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def main(argv: list[str]) -> int:
    """Storm for each seed and print what happened."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--kill-seconds", type=float, default=1.0)
    parser.add_argument("--model-seconds", type=float, default=0.2)
    options = parser.parse_args(argv)
    from memsearch.sinks.embedders import e5_graph
    from memsearch.sinks.embedders.e5_weights import Weights

    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        models = Path(folder) / "models"
        models.mkdir()
        weights = Weights()
        e5_graph.ensure(str(models), weights)
        weights.close()
        for seed in options.seeds:
            with StubLLM() as stub:
                stub.default = f"slow:{options.model_seconds}"
                world = World(Path(folder) / f"storm {seed}", models)
                storm = Storm(
                    world, stub, seed, turns=options.turns, kill_seconds=options.kill_seconds
                )
                report = storm.blow()
            shown: dict[str, Any] = asdict(report)
            sys.stdout.write(json.dumps(shown) + "\n")
            sys.stdout.flush()
            failed += not report.sound
    sys.stdout.write(f"{len(options.seeds) - failed} storms sound, {failed} not\n")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
