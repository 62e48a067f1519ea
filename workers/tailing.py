"""Following the agents' conversations where no hook tells of them.

Claude Code's and Codex's files are followed when ``capture.tail`` is set; OpenCode's and
OpenClaw's databases then too, and while our plugin is installed in them: ``opencode run`` ends
without waiting for a plugin, which therefore only wakes the worker. What has grown becomes a
hook like any other, so that there is one way into the log.

It is polled, not watched: a look costs a ``stat`` for each file, and the pause after it grows
with what it cost, so that it takes at most a hundredth of a core however many files there are.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from memsearch.config import statedb
from memsearch.config.errors import MemsearchError
from memsearch.config.paths import AGENT_VARIABLES
from memsearch.sources import registry
from memsearch.sources.base import Conversation, Pointer
from memsearch.sources.tail import FOLLOWED, GREW, QUIET_SECONDS, RESTS, has_plugin

if TYPE_CHECKING:
    from memsearch.pipeline.engine import Engine

#: Seconds that a conversation has to pause before it is looked at: agents write in bursts.
PAUSE_SECONDS = 2.0
#: Seconds after which one that never pauses is looked at all the same.
PATIENCE_SECONDS = 60.0
#: A look's own time that passes before the next one, as a multiple.
REST_FACTOR = 100
#: Seconds between two looks for our plugins.
PLUGIN_SECONDS = 30.0
#: Hooks of an agent by which its folders are known.
HOOKS_LOOKED_AT = 50
#: What changed so long before the last hook was seen by the worker before this one.
OVERLAP = timedelta(seconds=60)
#: Further off than any turn: only the last one is read.
_NEVER = datetime(9000, 1, 1, tzinfo=UTC)

_Key = tuple[str, str]
_Stamp = tuple[datetime, int]


@dataclass(slots=True)
class _Platform:
    """What is known of one agent's conversations.

    Attributes:
        since: What did not change after this was seen before.
        told: Conversations, as they were when a hook was made of them.
        growing: Since when a conversation has grown without a pause.
        rested: Conversations, as they were when they came to rest.
        error: What kept them from being read the last time.
    """

    since: datetime
    told: dict[_Key, _Stamp] = field(default_factory=dict)
    growing: dict[_Key, float] = field(default_factory=dict)
    rested: dict[_Key, _Stamp] = field(default_factory=dict)
    error: str = ""


class Follower:
    """Looks at the agents' conversations now and then.

    Args:
        engine: The engine, whose environment says where the agents keep their files.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._platforms: dict[str, _Platform] = {}
        self._plugins: dict[str, tuple[float, bool]] = {}
        self._due = 0.0

    def look(self) -> None:
        """Make hooks of what has grown, and of what has come to rest."""
        began = time.monotonic()
        if began < self._due:
            return
        for name in registry.platforms():
            if self._is_followed(name):
                self._follow(name)
        now = time.monotonic()
        self._due = now + REST_FACTOR * (now - began)

    def _is_followed(self, name: str) -> bool:
        if self._engine.settings().capture.tail:
            return True
        known = self._plugins.get(name)
        if known is None or time.monotonic() - known[0] > PLUGIN_SECONDS:
            known = (time.monotonic(), self._has_plugin(name))
            self._plugins[name] = known
        return known[1]

    def _has_plugin(self, name: str) -> bool:
        """Whether an agent has our plugin, wherever its last hooks came from."""
        if registry.get(name).resumable:
            return False
        rows = self._engine.log.rows(
            "SELECT e.data FROM hooks AS h JOIN events AS e ON e.id = h.event_id"
            " WHERE h.platform = ? ORDER BY h.at DESC LIMIT ?",
            (name, HOOKS_LOOKED_AT),
        )
        hooks = [json.loads(row["data"]) for row in rows]
        folders = [str(hook["cwd"]) for hook in hooks if hook.get("cwd")]
        environs = [dict(self._engine.environ)]
        for hook in hooks:
            environ = {**self._engine.environ, **(hook.get("env") or {})}
            if environ not in environs:
                environs.append(environ)
        return any(has_plugin(name, environ, folders) for environ in environs)

    def _follow(self, name: str) -> None:
        state = self._platforms.get(name)
        if state is None:
            state = self._platforms[name] = _Platform(self._since(name))
        try:
            found = list(registry.get(name).conversations(self._engine.environ))
        except MemsearchError as error:
            if str(error) != state.error:
                state.error = str(error)
                self._engine.note(
                    "agent_unreadable", level="warning", platform=name, error=state.error
                )
            return
        state.error = ""
        now = time.time()
        for conversation in found:
            if conversation.changed >= state.since:
                self._look_at(conversation, state, now)

    def _since(self, name: str) -> datetime:
        """Since when changes have to be looked at; the first time it is put into the log."""
        at = self._engine.log.value("SELECT MAX(at) FROM hooks WHERE platform = ?", (name,))
        if at:
            return datetime.fromisoformat(at) - OVERLAP
        now = datetime.now(UTC)
        self._tell({"platform": name, "event": FOLLOWED})
        return now

    def _look_at(self, conversation: Conversation, state: _Platform, now: float) -> None:
        key = (conversation.path, conversation.session)
        stamp = (conversation.changed, conversation.size)
        pause = now - conversation.changed.timestamp()
        if state.told.get(key) != stamp:
            since = state.growing.setdefault(key, now)
            if pause < PAUSE_SECONDS and now - since < PATIENCE_SECONDS:
                return
            state.growing.pop(key)
            state.told[key] = stamp
            self._tell(self._about(conversation, GREW))
        elif pause >= QUIET_SECONDS and state.rested.get(key) != stamp:
            state.rested[key] = stamp
            if self._is_open(conversation):
                self._tell(self._about(conversation, RESTS))

    def _is_open(self, conversation: Conversation) -> bool:
        """Whether the last turn of a conversation has not ended by its records."""
        pointer = Pointer(conversation.platform, conversation.session, conversation.path)
        source = registry.get(conversation.platform)
        try:
            turns = source.read(pointer, start=None, not_before=_NEVER).turns
        except MemsearchError:
            return False  # it went away; the capture stage says so where it matters
        return bool(turns) and turns[-1].state == "open"

    def _about(self, conversation: Conversation, event: str) -> dict[str, object]:
        data: dict[str, object] = {
            "platform": conversation.platform,
            "session": conversation.session,
            "path": os.path.abspath(conversation.path),
            "event": event,
        }
        if conversation.cwd:
            data["cwd"] = conversation.cwd
        return data

    def _tell(self, data: dict[str, object]) -> None:
        environ: Mapping[str, str] = self._engine.environ
        data["env"] = {name: environ[name] for name in AGENT_VARIABLES if environ.get(name)}
        record: dict[str, object] = {
            "id": statedb.new_id(),
            "at": statedb.utc_now(),
            "data": data,
            "message": None,
        }
        with self._engine.log.transaction() as tx:
            tx.insert_hook(record)
