"""A provider is back: the dead letters of its outage are replayed by themselves.

Nobody can ask a provider whether it is well, so one dead letter is sent ahead; when any
call of the stage succeeds, the others follow. A letter that died while others succeeded is
at fault itself and is left to a person.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from memsearch.config.errors import ErrorClass
from memsearch.pipeline import dead_letters
from memsearch.pipeline.dead_letters import DeadLetter
from memsearch.pipeline.log import EventLog
from memsearch.pipeline.status import epoch

#: Failures of a provider, as opposed to those of a turn.
OUTAGE = frozenset(
    {
        ErrorClass.NETWORK,
        ErrorClass.TIMEOUT,
        ErrorClass.RATE_LIMIT,
        ErrorClass.SERVER,
        ErrorClass.CREDENTIALS,
    }
)
#: Stages that ask a provider, and the events of their success. A document that was indexed
#: without anything written (its text is what it was) says nothing about Milvus.
SUCCESS = {
    "summarize": "type = 'TurnSummarized'",
    "embed": "type = 'DocumentEmbedded'",
    "upsert": "type = 'DocumentIndexed' AND json_extract(data, '$.new') > 0",
}
#: Seconds back that dead letters are replayed by themselves: 7 days.
WINDOW_SECONDS = 7 * 86_400.0
#: The first letter is sent ahead after the base wait, then after so many times the last.
PROBE_FACTOR = 2.0
#: The longest wait between two letters sent ahead, in seconds.
MAX_PROBE_SECONDS = 3_600.0
#: Seconds after which what is owed is counted again though nothing has happened.
RECOUNT_SECONDS = 60.0


@dataclass(slots=True)
class Probe:
    """When the next letter of a stage may be sent ahead (``time.monotonic``)."""

    next: float = 0.0
    wait: float = 0.0


class AutoReplay:
    """Looked at by the worker now and then.

    Args:
        log: The event log.
    """

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._probes: dict[str, Probe] = {}
        self._owed: dict[str, list[DeadLetter]] = {}
        #: The end of the log, and when, at the last count of what is owed.
        self._counted = (-1, 0.0)
        #: By stream: the letter's place in the log, and whether it is at fault itself.
        self._at_fault: dict[str, tuple[int, bool]] = {}

    def look(self, base_seconds: float, now: float) -> int:
        """Replay what a recovered provider owes, or send one letter ahead.

        Args:
            base_seconds: ``retry.base_seconds``, the first wait before a letter is sent ahead.
            now: Seconds since the epoch.

        Returns:
            How many letters were replayed.
        """
        replayed = 0
        self._count(now)
        for stage, success in SUCCESS.items():
            letters = self._owed.get(stage, [])
            if not letters:
                self._probes.pop(stage, None)
                continue
            died = max(letter.seq for letter in letters)
            last = self._log.value(
                f"SELECT seq FROM events WHERE {success} ORDER BY seq DESC LIMIT 1"
            )
            if last is not None and last > died:
                self._probes.pop(stage, None)
                replayed += dead_letters.replay(self._log, letters, "recovery")
            elif self._may_probe(stage, base_seconds):
                replayed += dead_letters.replay(self._log, letters[:1], "recovery")
        return replayed

    def _count(self, now: float) -> None:
        """Look for letters where the log has grown: thousands may lie there for days."""
        end = int(self._log.value("SELECT MAX(seq) FROM events") or 0)
        if end == self._counted[0] and abs(now - self._counted[1]) < RECOUNT_SECONDS:
            return
        self._owed = {stage: self.owed(stage, success, now) for stage, success in SUCCESS.items()}
        self._counted = (end, now)

    def owed(self, stage: str, success: str, now: float) -> list[DeadLetter]:
        """The letters that an outage of the stage's provider left, oldest first."""
        letters = []
        for letter in dead_letters.dead_letters(self._log, stage=stage):
            if letter.reason not in OUTAGE or now - epoch(letter.at) > WINDOW_SECONDS:
                continue
            if not self._died_among_successes(letter, success):
                letters.append(letter)
        return letters

    def _died_among_successes(self, letter: DeadLetter, success: str) -> bool:
        """Whether others succeeded between its last replay by us and its death."""
        known = self._at_fault.get(letter.stream)
        if known is None or known[0] != letter.seq:
            known = (letter.seq, self._is_at_fault(letter, success))
            self._at_fault[letter.stream] = known
        return known[1]

    def _is_at_fault(self, letter: DeadLetter, success: str) -> bool:
        sent = self._log.value(
            "SELECT MAX(seq) FROM events WHERE stream = ? AND type = 'Replayed'"
            " AND json_extract(data, '$.by') = 'recovery'",
            (letter.stream,),
        )
        if sent is None:
            return False
        return (
            self._log.value(
                f"SELECT 1 FROM events WHERE {success} AND seq > ? AND seq <"
                " (SELECT MAX(seq) FROM events WHERE stream = ? AND type = 'DeadLettered') LIMIT 1",
                (sent, letter.stream),
            )
            is not None
        )

    def _may_probe(self, stage: str, base_seconds: float) -> bool:
        moment = time.monotonic()
        probe = self._probes.get(stage)
        if probe is None:
            self._probes[stage] = Probe(moment + base_seconds, base_seconds)
            return False
        if moment < probe.next or self._is_trying(stage):
            return False
        probe.wait = min(max(probe.wait, 1.0) * PROBE_FACTOR, MAX_PROBE_SECONDS)
        probe.next = moment + probe.wait
        return True

    def _is_trying(self, stage: str) -> bool:
        """Whether something of the stage is under way, which tells as much as a letter would."""
        table = "turns" if stage == "summarize" else "documents"
        return (
            self._log.value(
                f"SELECT 1 FROM {table} WHERE state = 'open' AND stage = ?"
                " AND COALESCE(error_class, '') <> 'budget' LIMIT 1",
                (stage,),
            )
            is not None
        )
