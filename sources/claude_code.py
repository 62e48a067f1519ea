"""Claude Code: ``${CLAUDE_CONFIG_DIR:-~/.claude}/projects/<slug>/<session>.jsonl``.

A line is one record. A turn begins with a ``user`` record that holds words of the user;
its id is the record's ``promptId`` (written since about 2.1.80), else its ``uuid``. The
records between it and the next such record are the turn. ``--fork-session`` writes the turns
before the fork once more, all under the ``promptId`` of the first one behind it: they are the
other session's, whose file has them under their own. The format is not documented;
what is said here was seen in recordings of 2.1.332 and in transcripts of older releases,
and whatever a record lacks or holds beside it is passed over.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from memsearch.config.paths import untilde, user_home
from memsearch.sources.base import Conversation, Pointer, State, Turn
from memsearch.sources.bounds import beginning, compact_input
from memsearch.sources.builder import Step, TurnBuilder
from memsearch.sources.claude_records import (
    Said,
    is_nobodys,
    message_blocks,
    plain_text,
    read_result,
    read_user,
    time_of,
)
from memsearch.sources.cleaning import clean, text_of
from memsearch.sources.jsonl import JsonlSource, Opening, count
from memsearch.sources.lines import Record
from memsearch.sources.listing import files_under, of_file
from memsearch.sources.recent import RecentSet

#: Book-keeping of Claude Code. Some of it repeats prompts, none of it is talk.
_BOOKKEEPING = frozenset(
    {
        "agent-color",
        "agent-name",
        "ai-title",
        "api-request",
        "api-request-blob",
        "api-request-shape",
        "atis-latch",
        "continued-in",
        "cost-state",
        "custom-title",
        "file-history-delta",
        "file-history-snapshot",
        "last-prompt",
        "mode",
        "permission-mode",
        "pr-link",
        "progress",
        "summary",
        "tag",
        "tools-used",
    }
)
#: What a user record can begin a turn with.
_OPENERS = frozenset({"prompt", "command", "bare"})
#: Reasons to stop after which the model goes on by itself.
_GOES_ON = frozenset({"tool_use", "pause_turn"})
#: Tools whose input is one command, which is given as it is.
_SHELLS = frozenset({"Bash", "PowerShell"})
#: Keys of a tool's input that are never cut.
_WHOLE_KEYS = frozenset({"command"})
#: Records whose copies are recognised (about 100 bytes each).
_REMEMBERED = 100_000
#: Queued messages that are looked after at the same time.
_MAX_QUEUE = 200
#: Messages of the model whose blocks are compared with later copies.
_MAX_MESSAGES = 32
#: Bytes of another transcript that are looked through at a time.
_BLOCK = 1 << 20
#: Aliases that a turn keeps.
_MAX_ALIASES = 200


class ClaudeCode(JsonlSource):
    """The source of Claude Code's conversations."""

    platform = "claude-code"
    display_name = "Claude Code"
    opening_marks = (b'"user"',)

    def roots(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """The projects folder, as a real path."""
        home = user_home(environ)
        config = untilde(environ.get("CLAUDE_CONFIG_DIR") or "~/.claude", home)
        return (os.path.realpath(os.path.join(config, "projects")),)

    def conversations(self, environ: Mapping[str, str]) -> Iterator[Conversation]:
        """Every session's transcript; subagents' files are none."""
        for path in files_under(self.roots(environ), ".jsonl"):
            if not self.is_foreign(path):
                yield from of_file(self.platform, path, Path(path).stem)

    def locate(
        self,
        session: str,
        environ: Mapping[str, str],
        agent: str = "",  # noqa: ARG002
    ) -> str | None:
        """The transcript of a session, in whatever project's folder it lies."""
        found = [each.path for each in self.conversations(environ) if each.session == session]
        return found[-1] if found else None

    def is_foreign(self, path: str) -> bool:
        """A subagent's own file; releases before 2.1 kept it beside the sessions."""
        file = Path(path)
        return file.parent.name == "subagents" or file.name.startswith("agent-")

    def fold(self, pointer: Pointer, fallback: datetime) -> _Fold:
        """A fold for one session."""
        return _Fold(pointer, fallback)

    def opening(self, record: Record, offset: int) -> Opening | None:
        """What a record opens: the same decision as the fold's, without its memory."""
        if record.get("type") != "user" or record.get("isSidechain"):
            return None
        said = read_user(record, offset)
        kind: Literal["turn", "maybe", "alias"]
        if said.joins:
            return None
        match said.kind:
            case "prompt":
                kind = "turn"
            case "command" | "bare":
                kind = "maybe"
            case "notice":
                kind = "alias"
            case "nothing":
                return None
        return Opening(said.id, time_of(record), kind)

    def is_answered(self, following: Iterator[Record]) -> bool:
        """Whether the agent answered a command: a local one prints something instead."""
        for record in following:
            if record.get("isSidechain"):
                continue
            match record.get("type"):
                case "assistant" if not _is_filler(record):
                    return True
                case "system" if record.get("subtype") == "local_command":
                    return False
                case "user":
                    said = read_user(record, 0)
                    if said.local_output or said.wakes or said.kind in _OPENERS:
                        return False
        return False

    def first_words(self, record: Record) -> str | None:
        """The first thing that the user sent, as it was sent."""
        if record.get("type") != "user" or record.get("isSidechain"):
            return None
        said = read_user(record, 0)
        if said.kind == "bare" or not said.raw.strip() or is_nobodys(record):
            return None
        return said.raw


# The fold ----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Run:
    """A turn that is going on."""

    id: str
    position: int
    at: datetime | None
    cwd: str | None
    #: Its place among the session's turns, where the record says it.
    index: int | None = None
    #: The id of the record that began it.
    uuid: str = ""
    #: A fork wrote it, of the turn of another session; ``marked``: it may have.
    copied: bool = False
    marked: bool = False
    steps: TurnBuilder = field(default_factory=TurnBuilder)
    private: bool = False
    #: It was begun by a command or shell line, which is a turn only if it is answered.
    is_bare: bool = False
    ended: bool = False
    interrupted: bool = False
    aborted: bool = False
    last: Literal["user", "assistant", "tool"] = "user"
    api_errors: int = 0
    api_error: str = ""
    aliases: list[str] = field(default_factory=list)
    #: Ids that become aliases when the agent does something under them.
    named: list[str] = field(default_factory=list)
    #: The texts of the last messages of the model, by message id.
    messages: dict[str, list[Step]] = field(default_factory=dict)
    calls: RecentSet = field(default_factory=lambda: RecentSet(_REMEMBERED))
    #: How often a queued message was heard of, by each of the two ways.
    queued: dict[str, Counter[str]] = field(
        default_factory=lambda: {"attachment": Counter(), "queue": Counter()}
    )

    def settle(self) -> None:
        """The agent went on: what was named by now names this turn."""
        for name in self.named:
            if name != self.id and name not in self.aliases and len(self.aliases) < _MAX_ALIASES:
                self.aliases.append(name)
        self.named.clear()

    def say(self, said: Said) -> None:
        """Words of the user, once each."""
        self.private = self.private or said.private
        if said.words and not self.steps.has_user_text(said.words):
            self.steps.add("user", said.words)


@dataclass(slots=True)
class _Queued:
    """A message that was typed while the agent worked and has not been sent yet."""

    content: str
    #: The turn it was typed into; None when no turn was running.
    run: _Run | None
    #: A tool's result came after it, so the next request could have carried it.
    after_result: bool = False
    #: The running turn is taken to have taken it up, in this step.
    taken_up: bool = False
    step: Step | None = None


class _Fold:
    """Claude Code's records in, turns out."""

    def __init__(self, pointer: Pointer, fallback: datetime) -> None:
        self.unknown: Counter[str] = Counter()
        self._session = pointer.session or Path(pointer.path).stem
        self._cwd = pointer.cwd
        self._anchor = {"transcript": os.path.abspath(pointer.path)}
        self._fallback = fallback
        self._last_at: datetime | None = None
        #: Copies of a record (in one file up to five were seen): the first one wins.
        self._records = RecentSet(_REMEMBERED)
        #: Ids, and times with words, of the turns that have begun.
        self._begun = RecentSet(_REMEMBERED)
        self._current: _Run | None = None
        #: A slash command that the agent has not answered yet, beside the current turn.
        self._command: _Run | None = None
        #: Commands with words that are done, to come out after the current turn.
        self._after: list[_Run] = []
        #: Everything up to the next opening is a copy of a turn that has been read.
        self._muted = False
        self._queue: deque[_Queued] = deque(maxlen=_MAX_QUEUE)
        #: A message has left the queue, and its record has not come yet.
        self._leaving = False
        #: The session that this one was forked from, as far as its records tell.
        self._origin = ""

    @property
    def resume(self) -> int | None:
        if self._current is not None:
            return self._current.position
        if self._after:
            return self._after[-1].position
        return self._command.position if self._command is not None else None

    def feed(self, record: Record, offset: int) -> list[Turn]:
        kind = text_of(record.get("type"))
        if not kind:
            count("(no type)", self.unknown)
            return []
        if kind in _BOOKKEEPING or record.get("isSidechain") or self._is_copy(kind, record):
            return []
        at = time_of(record)
        self._last_at = at or self._last_at
        match kind:
            case "user":
                return self._user(record, offset, at)
            case "assistant":
                return self._assistant(record, at)
            case "system":
                self._system(record)
            case "attachment":
                self._attachment(record)
            case "queue-operation":
                self._queue_operation(record)
            case _:
                count(kind, self.unknown)
        return []

    def finish(self) -> list[Turn]:
        runs = [*self._after]
        if self._command is not None and not self._command.is_bare:
            runs.append(self._command)
        if self._current is not None:
            runs.insert(0, self._current)
        return [self._build(run, next_began=False) for run in runs if self._is_own(run)]

    # Records

    def _is_copy(self, kind: str, record: Record) -> bool:
        """Whether a record was read before, by its uuid or by its time and content."""
        uuid = text_of(record.get("uuid"))
        if uuid:
            return not self._records.add(uuid)
        stamp = record.get("timestamp")
        if not isinstance(stamp, str | int | float):
            return False
        about = (
            record.get("operation"),
            record.get("content"),
            record.get("message"),
            record.get("attachment"),
        )
        return not self._records.add((kind, stamp, repr(about)))

    def _user(self, record: Record, offset: int, at: datetime | None) -> list[Turn]:
        said = read_user(record, offset)
        for name in said.unknown:
            count(name, self.unknown)
        done: list[Turn] = []
        if said.results and not self._muted:
            current = self._current
            keys = [text_of(block.get("tool_use_id")) for block in said.results]
            if current is None or not any(current.steps.awaits(key) for key in keys):
                done += self._promote()
            self._results(said, record)
        if said.interrupted and not self._muted:
            self._interrupt()
        if said.kind != "nothing":
            self._dequeued(said)
        if said.kind in _OPENERS:
            done += self._open(said, record, offset, at)
        elif said.kind == "notice" and not self._muted:
            self._notice(said)
        return done

    def _open(self, said: Said, record: Record, offset: int, at: datetime | None) -> list[Turn]:
        index = _turn_index(record)
        forked = self._current is not None and _begins_another(self._current, said, index)
        if forked and self._current is not None:
            self._current.copied = True
        for run in (self._command, self._current):
            if run is not None and said.id == run.id and not forked:
                self._muted = False
                run.say(said)
                run.is_bare = run.is_bare and said.kind == "bare"
                return []
        if said.joins:
            if self._current is not None and not self._muted:
                self._current.say(said)
            return []
        same = (text_of(record.get("timestamp")), said.words)
        known = said.id in self._begun or (bool(same[0] and same[1]) and same in self._begun)
        if said.kind != "bare":
            self._begun.add(said.id)
            self._begun.add(same)
        if known and not forked:
            # A copy that a resume or a compaction wrote: the turn has been read.
            self._muted = True
            return []
        self._muted = False
        for run in (self._command, self._current):
            # An id that begins a turn of its own is no alias, whatever came before.
            if run is not None and said.id in run.named:
                run.named.remove(said.id)
        cwd = text_of(record.get("cwd"))
        run = _Run(
            id=said.id,
            position=offset,
            at=at,
            cwd=cwd if os.path.isabs(cwd) else self._cwd,
            index=index,
            uuid=text_of(record.get("uuid")),
            is_bare=said.kind == "bare",
        )
        run.say(said)
        if said.kind == "prompt":
            done = self._close()
            self._current = run
            return done
        # A command may be a local one (/model), run beside a turn that goes on: it only
        # takes over when the agent answers it.
        self._drop_command(next_began=True)
        self._command = run
        return []

    def _notice(self, said: Said) -> None:
        """Nobody's words. What the agent does about them belongs to the turn before.

        A background task that ends wakes the agent under a promptId of its own, and a
        hook gives that id. No message of the user began this, so it is no turn: the answer
        is added to the current one, and the id becomes an alias of it. A turn that was
        captured before keeps its entry, since its identity did not change.
        """
        if said.local_output:
            self._local_output()
        if said.wakes:
            self._drop_command(next_began=True)  # what the agent answers now is this
        run = self._current
        if run is None:
            return
        waiting = self._command is not None and self._command.id == said.id
        is_turn = waiting or said.id in self._begun
        if said.has_prompt_id and not is_turn and said.id not in run.named:
            run.named.append(said.id)
            del run.named[:-_MAX_ALIASES]
        if said.feedback:
            run.ended = False
        if said.local_output:
            run.settle()

    def _results(self, said: Said, record: Record) -> None:
        run = self._current
        if run is None:
            count("result without a turn", self.unknown)
            return
        for block in said.results:
            output, failed, left_out = read_result(block, record, only=len(said.results) == 1)
            self._result(run, block, output, failed=failed, left_out=left_out)
        for queued in self._queue:
            queued.after_result = queued.after_result or queued.run is run

    def _result(
        self, run: _Run, block: dict[str, Any], output: str, *, failed: bool, left_out: int
    ) -> None:
        key = text_of(block.get("tool_use_id"))
        if not run.steps.result(key, output, failed=failed, left_out=left_out):
            # Of a call that lies before the part that is read, or that was copied.
            count("result without its call", self.unknown)
            return
        run.last = "tool"
        run.ended = False
        run.settle()

    def _interrupt(self) -> None:
        run = self._command or self._current
        if run is None or run.interrupted:
            return
        run.interrupted = True
        run.steps.add("note", "The user interrupted this turn.")
        run.settle()

    def _assistant(self, record: Record, at: datetime | None) -> list[Turn]:
        if self._muted or _is_filler(record):
            return []
        message = record.get("message")
        details = message if isinstance(message, dict) else {}
        failed = record.get("isApiErrorMessage") is True
        done = self._promote()
        run = self._current
        if run is None:
            count("answer without a turn", self.unknown)
            return done
        run.at = run.at or at
        run.settle()
        run.api_errors = 0
        if failed:
            words = clean(plain_text(details.get("content"))).strip()
            run.steps.add("note", f"The provider failed: {words or 'no reason given'}")
            run.ended = True
            return done
        asked_by = text_of(record.get("requestSessionId"))
        if asked_by and asked_by != text_of(record.get("sessionId")):
            run.marked, self._origin = True, asked_by
        self._absorb(run)
        run.interrupted = False
        run.aborted = bool(record.get("isAbortedMidStream"))
        visible = self._answer(run, text_of(details.get("id")), message_blocks(record))
        reason = text_of(details.get("stop_reason"))
        # The record of a thinking block carries the reason of the whole message, whose
        # text comes with the next record: a turn has not ended before that.
        run.ended = bool(reason) and reason not in _GOES_ON and visible
        return done

    def _answer(self, run: _Run, message: str, blocks: list[dict[str, Any]]) -> bool:
        """Add the blocks of an answer; whether there was one that a person would see."""
        visible = False
        for block in blocks:
            kind = text_of(block.get("type"))
            match kind:
                case "thinking" | "redacted_thinking" | "fallback":
                    continue
                case "text":
                    text = clean(text_of(block.get("text"))).strip()
                    if text:
                        self._text(run, message, text)
                        run.last = "assistant"
                case "image":
                    run.steps.add("assistant", "[image]")
                case "tool_use" | "server_tool_use" | "mcp_tool_use":
                    self._call(run, block)
                case _ if block.get("tool_use_id"):
                    output = clean(plain_text(block.get("content")))
                    is_error = block.get("is_error") is True
                    self._result(run, block, output, failed=is_error, left_out=0)
                case _:
                    count(f"block:{kind or '(none)'}", self.unknown)
                    continue
            visible = True
        return visible

    def _text(self, run: _Run, message: str, text: str) -> None:
        """A text of the model, once: copies and earlier states of it give way."""
        if not message:
            run.steps.add("assistant", text)
            return
        known = run.messages.setdefault(message, [])
        if len(run.messages) > _MAX_MESSAGES:
            del run.messages[next(iter(run.messages))]
        for step in known:
            if step.is_whole and step.text.startswith(text):
                return
            if step.is_whole and text.startswith(step.text):
                run.steps.add("assistant", text, extend=step)
                return
        known.append(run.steps.add("assistant", text))

    def _call(self, run: _Run, block: dict[str, Any]) -> None:
        key = text_of(block.get("id"))
        if key and not run.calls.add(key):
            return
        name = clean(text_of(block.get("name"))) or "tool"
        asked = block.get("input")
        command = asked.get("command") if isinstance(asked, dict) else None
        if name in _SHELLS and isinstance(command, str):
            text = clean(command)
        else:
            text = compact_input(asked, clean, _WHOLE_KEYS)
        run.steps.call(key, name, text)
        run.last = "tool"

    def _system(self, record: Record) -> None:
        run = self._current
        match record.get("subtype"):
            case "local_command":
                self._local_output()
            case "stop_hook_summary" | "turn_duration" if run is not None:
                run.ended = True
            case "api_error" if run is not None:
                run.api_errors += 1
                run.api_error = beginning(clean(_api_error(record.get("error"))), 400)

    def _local_output(self) -> None:
        """A local command has printed: it is over, and no agent answers it."""
        if self._command is not None:
            self._command.ended = True
            self._drop_command(next_began=False)
        elif self._current is not None and self._current.last == "user":
            # A skill that runs by itself leaves the command as plain words, and its
            # result as the output of a local command.
            self._current.ended = True

    # Messages that were typed while the agent worked

    def _attachment(self, record: Record) -> None:
        """A message that the running turn took up. Every other attachment is injected."""
        attachment = record.get("attachment")
        if not isinstance(attachment, dict) or attachment.get("type") != "queued_command":
            return
        origin = attachment.get("origin")
        by_human = not isinstance(origin, dict) or origin.get("kind") in (None, "human")
        if attachment.get("commandMode") in (None, "prompt") and by_human:
            prompt = attachment.get("prompt")
            as_message = {"message": {"content": prompt}, "promptId": "queued"}
            self._take_up("attachment", read_user(as_message, 0))

    def _queue_operation(self, record: Record) -> None:
        """The queue of prompts: in a run without a terminal every prompt passes through it.

        ``dequeue`` makes a message a turn of its own; the user record that follows tells
        which one.
        ``remove`` means that the running turn took it up (with the reason
        ``absorbed_mid_turn`` since 2.1.246, without one before). ``popAll`` puts all of
        them back under the user's cursor.
        """
        content = text_of(record.get("content"))
        match record.get("operation"):
            case "enqueue":
                run = self._current
                running = run is not None and not run.ended and not run.interrupted
                self._queue.append(_Queued(content, run if running else None))
            case "dequeue":
                self._leaving = True
            case "remove":
                queued = self._unqueue(content)
                if record.get("reason") not in (None, "", "absorbed_mid_turn"):
                    self._withdraw(queued)
                elif content and (queued is None or not queued.taken_up):
                    self._take_up("queue", _queued_words(content))
            case "popAll":
                while self._queue:
                    self._withdraw(self._unqueue(""))
            case _:
                count("queue-operation:other", self.unknown)

    def _dequeued(self, said: Said) -> None:
        """Take out of the queue what a user record holds."""
        left, self._leaving = self._leaving, False
        text = said.raw.strip()
        for queued in self._queue:
            content = queued.content.strip()
            if content == text or (said.wakes and content.startswith("<task-notification>")):
                self._withdraw(queued)
                self._queue.remove(queued)
                return
        if left and self._queue:
            # Written otherwise than it was queued, for instance with an image.
            self._queue.popleft()

    def _unqueue(self, content: str) -> _Queued | None:
        """Take the message with this content out of the queue, the first one without."""
        found = next((each for each in self._queue if each.content == content), None)
        if found is None and not content and self._queue:
            found = self._queue[0]
        if found is not None:
            self._queue.remove(found)
        return found

    def _withdraw(self, queued: _Queued | None) -> None:
        """A message was taken for taken up, and was not."""
        if queued is None or queued.step is None or queued.run is None:
            return
        queued.run.steps.withdraw(queued.step)

    def _absorb(self, run: _Run) -> None:
        """Take up what no record ever took out of the queue.

        The agent answers after a tool's result that came after the message: that request
        carried it. Slash commands wait for the turn's end instead.
        """
        for queued in self._queue:
            if queued.run is run and queued.after_result and not queued.taken_up:
                queued.taken_up = True
                queued.step = self._take_up("queue", _queued_words(queued.content))

    def _take_up(self, way: Literal["attachment", "queue"], said: Said) -> Step | None:
        """Add a message to the running turn, unless the other way has told of it already."""
        run = self._current
        if run is None or self._muted or said.kind != "prompt" or not said.words:
            return None
        # An image is named in the attachment and not in the queue.
        key = " ".join(said.words.replace("[image]", " ").split())
        before = max(heard[key] for heard in run.queued.values())
        if len(run.queued[way]) > _MAX_QUEUE:
            run.queued[way].clear()
        run.queued[way][key] += 1
        if run.queued[way][key] <= before:
            return None
        return run.steps.add("user", said.words)

    # Turns

    def _promote(self) -> list[Turn]:
        """The agent works on the command that was waiting: it is the turn now."""
        if self._command is None:
            return []
        run, self._command = self._command, None
        run.is_bare = False
        self._begun.add(run.id)
        done = self._close()
        self._current = run
        return done

    def _drop_command(self, *, next_began: bool) -> None:
        run, self._command = self._command, None
        if run is None:
            return
        if run.is_bare:
            if self._current is not None:
                self._current.named.append(run.id)
                self._current.settle()
            return
        run.ended = run.ended or not next_began
        self._after.append(run)

    def _close(self) -> list[Turn]:
        """The turns that are over because another one begins."""
        self._drop_command(next_began=True)
        runs = [*([self._current] if self._current is not None else []), *self._after]
        self._current = None
        self._after = []
        for run in runs:
            run.settle()
        for queued in self._queue:
            queued.run = None
        return [self._build(run, next_began=True) for run in runs if self._is_own(run)]

    def _is_own(self, run: _Run) -> bool:
        """Whether a turn is this file's to tell; a copy is while the original is there no more.

        It then goes by the id of its record, which copies have in common.
        """
        if not run.copied and not run.marked:
            return True
        original = Path(self._anchor["transcript"]).with_name(f"{self._origin}.jsonl")
        if not run.copied:
            # The last copy, before the first turn behind the fork is there.
            return not _holds(original, run.uuid)
        if not self._origin or not run.uuid or original.exists():
            return False
        run.id = run.uuid
        return True

    def _build(self, run: _Run, *, next_began: bool) -> Turn:
        state, notes = _ending(run, next_began=next_began)
        return run.steps.build(
            platform=ClaudeCode.platform,
            id=run.id,
            session=self._session,
            at=run.at or self._last_at or self._fallback,
            cwd=run.cwd,
            state=state,
            anchor=self._anchor,
            position=run.position,
            aliases=tuple(run.aliases),
            private=run.private and not run.steps.has_words,
            notes=notes,
        )


def _begins_another(run: _Run, said: Said, index: int | None) -> bool:
    """Whether words under the id of a turn begin another one.

    A message that the agent took up while it worked has the turn's id too, and its place.
    """
    if said.id != run.id or said.kind not in ("prompt", "command") or not said.has_prompt_id:
        return False
    if index is not None and run.index is not None:
        return index != run.index
    return (run.ended or run.interrupted) and not run.steps.has_user_text(said.words)


def _holds(path: Path, uuid: str) -> bool:
    """Whether a transcript has a record of this id."""
    wanted, rest = uuid.encode(), b""
    try:
        with path.open("rb") as file:
            while uuid and (block := file.read(_BLOCK)):
                if wanted in rest + block:
                    return True
                rest = block[-len(wanted) :]
    except OSError:
        return False
    return False


def _turn_index(record: Record) -> int | None:
    place = record.get("turnPosition")
    index = place.get("turnIndex") if isinstance(place, dict) else None
    return index if isinstance(index, int) else None


def _is_filler(record: Record) -> bool:
    """What Claude Code writes itself where an answer has to stand."""
    message = record.get("message")
    model = message.get("model") if isinstance(message, dict) else None
    return model == "<synthetic>" and record.get("isApiErrorMessage") is not True


def _queued_words(content: str) -> Said:
    """A queued text. Slash commands are not taken up by a running turn."""
    said = read_user({"message": {"content": content}, "promptId": "queued"}, 0)
    return replace(said, kind="notice") if content.lstrip().startswith("/") else said


def _ending(run: _Run, *, next_began: bool) -> tuple[State, tuple[str, ...]]:
    """How a turn stands, and what has to be said about its end."""
    notes: list[str] = []
    if run.api_errors and (next_began or run.interrupted):
        times = f" ({run.api_errors} attempts)" if run.api_errors > 1 else ""
        notes.append(f"The provider did not answer: {run.api_error or 'unknown'}{times}")
    if run.interrupted:
        return "interrupted", tuple(notes)
    if run.ended:
        return "finished", tuple(notes)
    if run.aborted or (next_began and run.last != "assistant"):
        # Killed, or cut off: what follows in the file belongs to another turn. Releases
        # that write no stop reason end a finished turn with an answer.
        notes.append("This turn was cut off before it ended.")
        return "interrupted", tuple(notes)
    return ("finished" if next_began else "open"), tuple(notes)


def _api_error(error: object) -> str:
    if isinstance(error, dict):
        return text_of(error.get("formatted")) or text_of(error.get("message"))
    return text_of(error)
