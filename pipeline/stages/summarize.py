"""summarize: a captured turn becomes a few notes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.pipeline import rules
from memsearch.pipeline.budget import next_midnight, settle, today
from memsearch.pipeline.events import Event, EventType, session_key
from memsearch.pipeline.status import epoch
from memsearch.pipeline.summarizers.choose import summarizer_for, who
from memsearch.pipeline.turn_codec import dump_bullets, load_turn

if TYPE_CHECKING:
    from memsearch.pipeline.engine import Engine


def summarize(engine: Engine, stream: str) -> None:
    """Summarise one turn.

    Args:
        engine: The engine.
        stream: The turn's stream.
    """
    row = engine.row("summarize", stream)
    if row is None:
        return
    with engine.failing("summarize", row):
        text = engine.log.payload(row["captured_id"])
        if text is None:
            raise MemsearchError(
                "the turn's text is no longer in the log",
                kind=ErrorClass.BAD_FILE,
                hint="memsearch backfill can read it again from the agent's transcript",
            )
        turn = load_turn(text)
        rules.check(engine, "summarize", row["project"])
        settings = engine.settings(row["project"])
        own = settings.summarize.for_platform(turn.platform)
        summarizer = summarizer_for(
            engine.part, settings, turn.platform, engine.home, engine.environ
        )
        asked = who(summarizer, turn.platform, own)
        seconds = engine.pacing.put_off(asked, lambda: _waiting(engine))
        if seconds:
            # No event: nothing has happened to the turn. It is looked at anew then, by when it
            # may have been forgotten, or another provider named.
            with engine.log.transaction() as tx:
                tx.add_task("summarize", stream, time.time() + seconds)
            return
        estimate = summarizer.estimate(turn)

        def ask() -> str:
            return engine.budget.reserve(
                stream,
                estimate,
                settings.budget.daily_tokens,
                project=row["project"] or "",
                provider=summarizer.provider,
            )

        verdict = engine.budget.reserve_in_turn((row["at"], stream), engine.stop, ask)
        if verdict == "wait":
            return  # the worker ends; the next start takes it up
        if verdict == "paused":
            if row["error_class"] == "budget":
                return  # it is known; the sweep looks again
            with engine.commit(row) as tx_or_none:
                if tx_or_none is not None:
                    due = next_midnight(time.time())
                    tx_or_none.append(Event(stream, EventType.BUDGET_PAUSED, {"due": due}))
            engine.note("budget_paused", level="warning", stream=stream)
            return
        try:
            summary = summarizer.summarize(turn, timeout=own.timeout_seconds, stop=engine.stop)
        except MemsearchError as error:
            error.provider = summarizer.provider
            engine.pacing.heard(asked, error, epoch(row["updated"]))
            raise
        engine.pacing.answered(asked)
        with engine.commit(row) as tx_or_none:
            if tx_or_none is None:
                return
            settle(tx_or_none, stream)
            tx_or_none.append(
                Event(
                    stream,
                    EventType.TURN_SUMMARIZED,
                    {
                        "provider": summary.provider,
                        "model": summary.model,
                        "bullets": len(summary.bullets),
                        "usage": {
                            "day": today(),
                            "project": row["project"],
                            "provider": summary.provider,
                            "tokens_in": summary.tokens_in,
                            "tokens_out": summary.tokens_out,
                            "estimated": summary.estimated,
                        },
                    },
                    body=dump_bullets(summary.bullets),
                )
            )
            tx_or_none.add_task("append", session_key(row["platform"], row["session"]))


def _waiting(engine: Engine) -> int:
    waiting = "SELECT COUNT(*) FROM turns WHERE state = 'open' AND stage = 'summarize'"
    return int(engine.log.value(waiting) or 0)
