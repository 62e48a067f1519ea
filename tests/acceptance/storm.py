"""A storm: hooks, kills and a slow model at once, from a seed; then the invariant is counted.

Every accepted turn is exactly one entry or one dead letter, entries of a session are in its
order, and the index equals the Markdown. Run as a script it storms longer::

    python -P tests/acceptance/storm.py --seeds 1 2 3 4 5 --turns 200
    python -P tests/acceptance/storm.py --seeds 1 2 3 --faults all

Faults beside the kills, by name: ``two`` (workers started in pairs), ``freeze`` (SIGSTOP for
longer than the model's deadline), ``hooks`` (a third of the hooks are killed, at any point),
``model`` (errors, garbage and silence), ``held`` (another program holds the database),
``tables`` (tables of the queue and projections are emptied or dropped), ``clock`` (it jumps by
up to a day, both ways), ``resume`` (sessions go on in a new file that repeats their turns),
``shadows`` (the index and the embedding cache are deleted), ``damage`` (the log's file is
written into, which its last good copy and the transcripts make good again; not among ``all``).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from stub_llm import StubLLM  # noqa: E402
from world import COMMAND, Session, World  # noqa: E402

#: Seconds that the work has to come to its end after the storm.
CALM_SECONDS = 180.0

FAULTS = ("two", "freeze", "hooks", "model", "held", "tables", "clock", "resume", "shadows")
#: What the model does in place of an answer, each as often as it stands here.
_MODEL_FAULTS = ("429:0.1", "500", "502", "garbage", "empty", "reset", "slow:0.6", "never", "prose")
#: Emptied beneath a running worker, the turns that are captured before it notices stand alone:
#: none is lost, but they cannot wait for earlier ones.
_EMPTIED = "DELETE FROM turns"
#: Statements that take a table of the queue or the projections away.
_TABLE_FAULTS = (
    "DELETE FROM task",
    "DELETE FROM schedule",
    "DROP TABLE task",
    "DROP TABLE schedule",
    _EMPTIED,
    "DROP TABLE turns",
    "DROP TABLE hooks",
    "DROP TABLE documents",
    "DROP TABLE usage",
    "DELETE FROM transcripts",
)
#: Read by the commands of a storm with ``clock``: their time is off by what a file says.
_CLOCK = '''"""The clock of a storm: off by as many seconds as the file STORM_CLOCK says."""
import os, time

_time, _localtime, _gmtime = time.time, time.localtime, time.gmtime
_path = os.environ.get("STORM_CLOCK")

def _shifted():
    try:
        with open(_path) as file:
            return _time() + float(file.read() or 0)
    except (OSError, ValueError):
        return _time()

if _path:
    time.time = _shifted
    time.time_ns = lambda: int(_shifted() * 1e9)
    time.localtime = lambda at=None: _localtime(_shifted() if at is None else at)
    time.gmtime = lambda at=None: _gmtime(_shifted() if at is None else at)
'''


@dataclass
class Report:
    """What a storm did, and what was left after it."""

    seed: int
    faults: list[str] = field(default_factory=list)
    turns: int = 0
    refused: int = 0
    kills: int = 0
    hook_kills: int = 0
    stops: int = 0
    other_faults: dict[str, int] = field(default_factory=dict)
    model_calls: int = 0
    seconds: float = 0.0
    entries: int = 0
    dead: int = 0
    dead_hooks: int = 0
    still_open: int = 0
    spooled: int = 0
    log_mib: float = 0.0
    missing: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    out_of_order: list[str] = field(default_factory=list)
    not_found: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        wrong = (self.missing, self.twice, self.out_of_order, self.not_found)
        return not any(wrong) and not (self.refused or self.still_open or self.spooled)


class Storm:
    """Blows over one world.

    Args:
        world: The world.
        stub: The model.
        seed: Of everything that is random.
        turns: Turns in all.
        sessions: Sessions they are spread over.
        kill_seconds: Mean time between two kills of the worker.
        hook_kill: Chance that a hook is killed while it runs.
        stop_chance: Chance of SIGSTOP in place of a kill.
        faults: Of ``FAULTS``.
        pace_seconds: Mean time between two turns, so that the faults have time to blow.
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
        faults: Sequence[str] = (),
        pace_seconds: float = 0.0,
    ) -> None:
        self.world, self.stub, self.turns, self.faults = world, stub, turns, frozenset(faults)
        self.random = random.Random(seed)
        self.kill_seconds, self.stop_chance = kill_seconds, stop_chance
        self.pace_seconds = pace_seconds
        self.hook_kill = 0.33 if "hooks" in self.faults else hook_kill
        self.sessions = [
            Session(world, f"session-{number}-of-{seed}") for number in range(sessions)
        ]
        self.report = Report(seed, sorted(self.faults))
        #: By session, the turns of its transcript in their order.
        self.accepted: dict[str, list[str]] = {session.id: [] for session in self.sessions}
        self._over = threading.Event()
        self._resumed = 0
        self._clock = world.root / "clock"
        world.settings |= {
            "MEMSEARCH_WORKERS__AUTOSTART": "true",
            "MEMSEARCH_SUMMARIZE__PROVIDER": "openai",
            "MEMSEARCH_SUMMARIZE__BASE_URL": stub.openai_url,
            "MEMSEARCH_SUMMARIZE__API_KEY": "sk-test",
            "MEMSEARCH_SUMMARIZE__MODEL": "stub",
            "MEMSEARCH_RETRY__BASE_SECONDS": "0.2",
        }
        if "model" in self.faults:
            world.settings["MEMSEARCH_SUMMARIZE__TIMEOUT_SECONDS"] = "1.5"
            choices = random.Random(seed + 1)
            stub.decide = lambda _: choices.choice((None, None, *_MODEL_FAULTS))
        if "clock" in self.faults:
            folder = world.root / "clockwork"
            folder.mkdir()
            (folder / "sitecustomize.py").write_text(_CLOCK, encoding="utf-8")
            known = os.environ.get("PYTHONPATH", "")
            world.settings["PYTHONPATH"] = f"{folder}{os.pathsep}{known}".rstrip(os.pathsep)
            world.settings["STORM_CLOCK"] = str(self._clock)

    def blow(self) -> Report:
        """Send the turns while the worker is killed, wait for calm, count."""
        started = time.monotonic()
        # What began before memsearch was there is left to backfill: it is there from now on.
        self.world.hook(self.sessions[0].payload("SessionStart", source="startup"))
        blowing = [threading.Thread(target=self._kill), threading.Thread(target=self._disturb)]
        for thread in blowing:
            thread.start()
        try:
            for number in range(self.turns):
                if "resume" in self.faults and self.random.random() < 0.05:
                    self._resume()
                self._one_turn(number)
                time.sleep(self.random.uniform(0, 2 * self.pace_seconds))
        finally:
            self._over.set()
            for thread in blowing:
                thread.join()
        self._wait_for_calm()
        self.report.seconds = round(time.monotonic() - started, 1)
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
            time.sleep(self.random.uniform(0, 0.12 if "hooks" in self.faults else 0.06))
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

    def _resume(self) -> None:
        """A session goes on in a new file that begins with all that was said in it."""
        place = self.random.randrange(len(self.sessions))
        old = self.sessions[place]
        if not self.accepted[old.id]:
            return
        self._resumed += 1
        new = Session(self.world, f"{old.id.split('+')[0]}+{self._resumed}", at=old.at)
        text = old.path.read_text("utf-8")
        new.path.write_text(text.replace(f'"{old.id}"', f'"{new.id}"'), encoding="utf-8")
        new._last = old._last
        self.sessions[place] = new
        self.accepted[new.id] = list(self.accepted[old.id])
        self._did("resumes")
        # The last hook of the old one may have been killed, and nobody speaks there any more.
        self.world.hook(old.payload("SessionEnd", reason="resume"))

    def _did(self, what: str) -> None:
        done = self.report.other_faults
        done[what] = done.get(what, 0) + 1

    def _disturb(self) -> None:
        """The faults that are neither kills nor the model's, now and then."""
        chance = random.Random(self.report.seed + 2)
        blows: dict[str, Callable[[random.Random], None]] = {
            "held": self._hold,
            "tables": self._take_table,
            "clock": self._set_clock,
            "shadows": self._take_shadow,
            "damage": self._damage,
        }
        chosen = [blow for name, blow in sorted(blows.items()) if name in self.faults]
        while chosen and not self._over.wait(chance.uniform(0.5, 3.0)):
            chance.choice(chosen)(chance)

    def _hold(self, chance: random.Random) -> None:
        path = self.world.home / "state.db"
        with (
            contextlib.suppress(sqlite3.OperationalError),
            closing(sqlite3.connect(path, timeout=1, isolation_level=None)) as db,
        ):
            db.execute("BEGIN IMMEDIATE")
            self._over.wait(chance.uniform(0.3, 2.5))
            db.execute("ROLLBACK")
            self._did("holds")

    def _take_table(self, chance: random.Random) -> None:
        path = self.world.home / "state.db"
        with (
            contextlib.suppress(sqlite3.OperationalError),
            closing(sqlite3.connect(path, timeout=1, isolation_level=None)) as db,
        ):
            blow = chance.choice(_TABLE_FAULTS)
            db.execute(blow)
            self._did("tables")
            if blow == _EMPTIED:
                self._did("turns emptied")

    def _set_clock(self, chance: random.Random) -> None:
        offset = chance.choice((0, 3600, -3600, 86_400, -86_400, 90, -90))
        fresh = self._clock.with_suffix(".new")
        fresh.write_text(str(offset), encoding="ascii")
        os.replace(fresh, self._clock)
        self._did("clock jumps")

    def _take_shadow(self, chance: random.Random) -> None:
        if chance.random() < 0.5:
            shutil.rmtree(self.world.home / "milvus.db", ignore_errors=True)
        else:
            for path in self.world.home.glob("embeddings.db*"):
                path.unlink(missing_ok=True)
        self._did("shadows")

    def _damage(self, chance: random.Random) -> None:
        """Garbage over a page of the log's file that is not its first."""
        with (self.world.home / "state.db").open("r+b") as file:
            pages = file.seek(0, os.SEEK_END) // 4096
            if pages < 20:
                return
            file.seek(4096 * chance.randrange(1, pages))
            file.write(os.urandom(4096))
        self._did("damages")

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
                    longest = 4.0 if "freeze" in self.faults else 1.5
                    os.kill(pid, signal.SIGSTOP)
                    self._over.wait(self.random.uniform(0.2, longest))
                    os.kill(pid, signal.SIGCONT)
                    self.report.stops += 1
                else:
                    os.kill(pid, signal.SIGKILL)
                    self.report.kills += 1
                    self._poke()

    def _poke(self) -> None:
        """Start a worker by hand too: after early deaths the hooks wait before they try again."""
        (self.world.home / "run" / "starting").unlink(missing_ok=True)
        for _ in range(self.random.choice((1, 2, 3)) if "two" in self.faults else 1):
            self.world.start("workers", "--foreground")

    # -- after it ----------------------------------------------------------------------------------

    def _wait_for_calm(self) -> None:
        self.stub.decide = lambda _: None
        self._clock.unlink(missing_ok=True)
        # The last turn of a session whose hook was killed: the session's end brings it along.
        for session in self.sessions:
            self.world.hook(session.payload("SessionEnd", reason="other"))
        deadline = time.monotonic() + CALM_SECONDS
        quiet = 0
        while quiet < 3 and time.monotonic() < deadline:
            if not _is_worker(self._worker() or 0):
                self._poke()
            quiet = 0 if self._open() or self._spooled() else quiet + 1
            time.sleep(0.3)
        if "shadows" in self.faults:
            self.world.run("index")
        self.report.still_open, self.report.spooled = self._open(), self._spooled()

    def _open(self) -> int:
        """What is not at its end; a table that is missing is about to come back."""
        try:
            return sum(
                self.world.sql(f"SELECT COUNT(*) FROM {table} WHERE state = 'open'")[0][0]
                for table in ("hooks", "turns", "documents")
            )
        except sqlite3.OperationalError:
            return 1

    def _spooled(self) -> int:
        # A hidden one is what a killed hook left half written.
        return len(list((self.world.home / "spool").rglob("[!.]*.json")))

    def _count(self) -> None:
        report = self.report
        written = re.findall(r"<!-- session:(\S+) turn:(\S+) ", self.world.journal())
        seen = Counter(turn for _, turn in written)
        dead = {turn for (turn,) in self.world.sql("SELECT turn FROM turns WHERE state = 'dead'")}
        report.entries, report.dead = len(written), len(dead)
        report.dead_hooks = self.world.sql("SELECT COUNT(*) FROM hooks WHERE state = 'dead'")[0][0]
        report.model_calls = self.stub.calls("chat")
        everything = dict.fromkeys(turn for turns in self.accepted.values() for turn in turns)
        report.missing = [turn for turn in everything if turn not in seen and turn not in dead]
        report.twice = [turn for turn in everything if seen[turn] + (turn in dead) > 1]
        # A turn that gave up and was replayed comes at the end of its day.
        replayed = {
            stream.rpartition(":")[2]
            for (stream,) in self.world.sql(
                "SELECT DISTINCT stream FROM events WHERE type = 'DeadLettered'"
            )
        }
        in_order = self.accepted if "turns emptied" not in report.other_faults else {}
        for session, turns in in_order.items():
            # A turn that two transcripts hold stands in the session that was read first.
            order = [turn for owner, turn in written if owner == session and turn not in replayed]
            if order != [turn for turn in turns if turn in set(order)]:
                report.out_of_order.append(session)
        report.not_found = self._not_found(seen)
        size = sum(path.stat().st_size for path in self.world.home.glob("state.db*"))
        report.log_mib = round(size / 2**20, 1)

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
            indexed = {
                hit.turn
                for session in self.accepted
                for hit in store.keyword(name, "look fixed", 10_000, Filters(session=session))
            }
            missing = [turn for turn in seen if turn not in indexed]
            if rows != sum(seen.values()):
                missing.append(f"{rows} rows for {sum(seen.values())} entries")
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
    parser.add_argument("--pace-seconds", type=float, default=0.0)
    parser.add_argument("--faults", nargs="*", default=[], choices=[*FAULTS, "damage", "all"])
    parser.add_argument("--keep", action="store_true", help="Leave the homes of unsound storms.")
    options = parser.parse_args(argv)
    faults = (*options.faults, *(FAULTS if "all" in options.faults else ()))
    from memsearch.sinks.embedders import e5_graph
    from memsearch.sinks.embedders.e5_weights import Weights

    failed = 0
    folder = Path(tempfile.mkdtemp())
    try:
        models = folder / "models"
        models.mkdir()
        weights = Weights()
        e5_graph.ensure(str(models), weights)
        weights.close()
        for seed in options.seeds:
            with StubLLM() as stub:
                stub.default = f"slow:{options.model_seconds}"
                world = World(folder / f"storm {seed}", models)
                storm = Storm(
                    world,
                    stub,
                    seed,
                    turns=options.turns,
                    kill_seconds=options.kill_seconds,
                    faults=faults,
                    pace_seconds=options.pace_seconds,
                )
                try:
                    report = storm.blow()
                finally:
                    world.stop()
            shown: dict[str, Any] = asdict(report)
            sys.stdout.write(json.dumps(shown) + "\n")
            sys.stdout.flush()
            failed += not report.sound
    finally:
        if failed and options.keep:
            sys.stdout.write(f"kept: {folder}\n")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.write(f"{len(options.seeds) - failed} storms sound, {failed} not\n")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
