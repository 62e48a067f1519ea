"""What single records of Codex's rollouts say: pure functions that take any shape.

Three shapes are read, and the same talk comes out of each:

- *paged* (seen in 0.171): ``event_msg`` of type ``item_completed`` beside ``response_item``;
- *events* (before it): ``event_msg`` of type ``user_message`` and ``agent_message`` beside
  ``response_item``;
- *bare*: only ``response_item``, in the oldest files without the frame around it.

All of them hold the model's own history (``response_item``), most hold it twice, so what a
record says carries the *way* in which it was said; :mod:`memsearch.sources.codex` counts.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from memsearch.sources.bounds import beginning, compact_input, well_formed
from memsearch.sources.cleaning import blocks_of, clean, text_of
from memsearch.sources.injected import strip_injected
from memsearch.sources.lines import Record
from memsearch.sources.private import strip_private
from memsearch.sources.times import parse_time

#: How every tool that runs a command is called in a turn, whatever its name in a release.
SHELL = "shell"
#: The ``name`` of the user's message that is a command to review.
REVIEW = "review"

#: Texts that begin so are nobody's words, whatever role they carry.
_INJECTED = (
    "<environment_context>",
    "<user_instructions>",
    "<INSTRUCTIONS>",
    "# AGENTS.md instructions",
    "<permissions instructions>",
    "<collaboration_mode>",
    "<turn_aborted>",
    "<subagent_notification>",
    "<user_shell_command>",
    "<user_action>",
    "<hook_prompt",
    "<skill>",
    "<model_switch>",
    "<personality_spec>",
    "<apps_instructions>",
    "<plugins_instructions>",
    "<skills_instructions>",
    "<recommended_plugins>",
    "<goal_context>",
    "<context_window_reminder>",
    "<context_window>",
    "<codex_delegation>",
    "<rollout_budget>",
    "<model_catalog>",
    "<user_verification_notice>",
    "<EXTERNAL SESSION IMPORTED>",
    "Another language model started to solve this problem",
)
#: What stands around an image in the model's history.
_IMAGE_FRAME = ("<image>", "<image name=", "</image>")
#: An editor puts its state before the user's words, and this line between them.
_IDE = "# Context from my IDE setup:"
_IDE_REQUEST = "## My request for Codex:"
#: Keys of a tool's input that are never cut.
_WHOLE_KEYS = frozenset({"command", "cmd"})
#: Tools whose input is one command.
_SHELLS = frozenset(
    {"shell", "shell_command", "exec_command", "container.exec", "local_shell", "unified_exec"}
)
_SHELL_NAMES = frozenset({"sh", "bash", "zsh", "dash", "fish", "pwsh", "powershell"})
#: What Codex writes before an output that the model gets.
_OUTPUT_HEAD = re.compile(
    r"(?:(?:Chunk ID|Wall time|Exit code|Process exited with code|Original token count"
    r"|Total output lines|Process running with session ID)\b[^\n]*\n)+(?:Output:\n)?"
)
_EXIT_CODE = re.compile(r"(?:Exit code:|Process exited with code) *(-?\d+)")
#: Types of records and events that are no talk.
_SILENT = frozenset({"world_state", "token_usage_record", "compacted"})
_SILENT_ITEMS = frozenset(
    {
        "reasoning",
        "ghost_snapshot",
        "compaction",
        "compaction_summary",
        "compaction_trigger",
        "context_compaction",
        "tool_search_call",
        "tool_search_output",
        "other",
    }
)
_SILENT_EVENTS = frozenset(
    {
        "agent_reasoning",
        "agent_reasoning_raw_content",
        "agent_reasoning_section_break",
        "context_compacted",
        "exited_review_mode",
        "exec_command_begin",
        "exec_command_end",
        "mcp_tool_call_begin",
        "mcp_tool_call_end",
        "patch_apply_begin",
        "patch_apply_end",
        "web_search_begin",
        "web_search_end",
        "item_started",
        "plan_update",
        "session_configured",
        "stream_error",
        "thread_name_updated",
        "thread_rolled_back",
        "thread_settings_applied",
        "token_count",
        "turn_diff",
        "undo_completed",
        "undo_started",
        "view_image_tool_call",
        "warning",
    }
)
_SILENT_THINGS = frozenset(
    {
        "Reasoning",
        "ContextCompaction",
        "HookPrompt",
        "ExitedReviewMode",
        "Plan",
        "Sleep",
    }
)

Kind = Literal[
    "nothing",
    "begin",
    "context",
    "user",
    "assistant",
    "call",
    "result",
    "end",
    "aborted",
    "error",
    "compacted",
]
#: Kinds that show that a turn has begun to be worked on.
ACTIVITY = frozenset({"assistant", "call", "result", "end", "aborted", "error"})


@dataclass(frozen=True, slots=True)
class Entry:
    """What one record says.

    Attributes:
        kind: ``begin`` a task starts (it is a turn when the user's words follow);
            ``context`` its working directory; ``call`` and ``result`` of a tool (a call that
            holds its result has both); ``end`` and ``aborted`` how it ended.
        turn: The turn's id, empty where the record does not say it.
        at: When.
        way: By which of the ways a text came; the same text comes by several.
        text: The words, without what is private or injected.
        raw: The user's words before that.
        private: Something in it was private.
        key: The id of a tool's call.
        name: The tool.
        output: What it gave; None when this record holds no result.
        failed: The tool failed.
        cwd: The working directory.
        thread: The thread that it happened in, where the record says so.
        unknown: The type of the record, if it is not known.
    """

    kind: Kind
    turn: str = ""
    at: datetime | None = None
    way: str = ""
    text: str = ""
    raw: str = ""
    private: bool = False
    key: str = ""
    name: str = ""
    output: str | None = None
    failed: bool = False
    cwd: str = ""
    thread: str = ""
    unknown: str = ""


_NOTHING = Entry("nothing")


def read_record(record: Record) -> Entry:
    """What a record says. Pure; takes any shape."""
    kind = record.get("type")
    payload = record.get("payload")
    at = parse_time(record.get("timestamp"))
    if not isinstance(payload, dict):
        if kind is None and ("record_type" in record or "instructions" in record):
            return _NOTHING  # the head and the state lines of the oldest files
        payload, kind = record, "response_item"
    match kind:
        case "response_item":
            about = record.get("metadata")
            if isinstance(about, dict) and about.get("compaction_output") is True:
                return _NOTHING  # the summary of a compaction, which the model wrote
            return _response(payload, at)
        case "event_msg":
            thread = text_of(payload.get("thread_id"))
            entry = _event(payload, at)
            return replace(entry, thread=thread) if thread else entry
        case "turn_context":
            return Entry(
                "context", turn=text_of(payload.get("turn_id")), at=at, cwd=path_of(payload)
            )
        case "compacted":
            return Entry("compacted", at=at, text=clean(text_of(payload.get("message"))))
        case "session_meta":
            return _NOTHING
        case str() if kind in _SILENT:
            return _NOTHING
        case _:
            return Entry("nothing", unknown=text_of(kind) or "(no type)")


# The model's history ------------------------------------------------------------------------


def _response(item: dict[str, Any], at: datetime | None) -> Entry:
    about = item.get("internal_chat_message_metadata_passthrough")
    about = about if isinstance(about, dict) else {}
    turn = text_of(about.get("turn_id"))
    at = parse_time(about.get("create_time")) or at
    key = text_of(item.get("call_id")) or text_of(item.get("id"))
    match item.get("type"):
        case "message" if item.get("role") == "user":
            return _user(_said(item.get("content"), about.get("content_item_kinds")), turn, at, "r")
        case "message" if item.get("role") == "assistant":
            return _assistant(_plain(item.get("content")), turn, at, "r")
        case "message":
            return _NOTHING  # developer and system: what was put in, our context among it
        case "function_call":
            name = text_of(item.get("name"))
            return _call(turn, at, key, name, _arguments(item.get("arguments")))
        case "custom_tool_call":
            return _call(turn, at, key, text_of(item.get("name")), item.get("input"))
        case "local_shell_call":
            return _call(turn, at, key, SHELL, item.get("action"))
        case "web_search_call":
            action = item.get("action")
            return _call(turn, at, key or str(at), "web_search", action)
        case "function_call_output" | "custom_tool_call_output":
            output, failed = read_output(item.get("output"))
            return Entry("result", turn, at, key=key, output=output, failed=failed)
        case str(kind) if kind in _SILENT_ITEMS:
            return _NOTHING
        case kind:
            return Entry("nothing", unknown=f"item:{text_of(kind) or '(none)'}")


def _said(content: object, kinds: object) -> list[str]:
    """The user's own parts of a message in the model's history."""
    own: list[str] = []
    for place, part in enumerate(blocks_of(content)):
        kind = text_of(kinds[place]) if isinstance(kinds, list) and place < len(kinds) else "user"
        if not kind.startswith(("user", "unknown")):
            continue
        match part.get("type"):
            case "input_text" | "text" | "output_text":
                own.append(text_of(part.get("text")))
            case "input_image" | "image" | "local_image":
                own.append("[image]")
    return own


def _user(parts: list[str], turn: str, at: datetime | None, way: str) -> Entry:
    rest: list[str] = []
    for part in parts:
        text = part.strip()
        if text.startswith(_INJECTED) or (text.startswith(_IMAGE_FRAME) and len(text) < 200):
            continue
        if text.startswith(_IDE) and _IDE_REQUEST in text:
            text = text.partition(_IDE_REQUEST)[2].strip()
        if text:
            rest.append(text)
    raw = "\n".join(rest)
    words, private = strip_private(strip_injected(raw))
    words = words.strip()
    if not words and not private:
        return _NOTHING
    return Entry("user", turn, at, way=way, text=words, raw=raw, private=private)


def _assistant(text: str, turn: str, at: datetime | None, way: str) -> Entry:
    words = clean(text).strip()
    return Entry("assistant", turn, at, way=way, text=words) if words else _NOTHING


def _call(turn: str, at: datetime | None, key: str, name: str, asked: object) -> Entry:
    command = command_of(asked) if name in _SHELLS else None
    if command is not None:
        return Entry("call", turn, at, key=key, name=SHELL, text=clean(command))
    text = clean(asked) if isinstance(asked, str) else compact_input(asked, clean, _WHOLE_KEYS)
    return Entry("call", turn, at, key=key, name=clean(name) or "tool", text=text)


def command_of(asked: object) -> str | None:
    """The command in a tool's input; None when there is none."""
    if isinstance(asked, dict):
        asked = asked.get("command", asked.get("cmd"))
    if isinstance(asked, str):
        return well_formed(asked)
    if not isinstance(asked, list) or not asked:
        return None
    words = [text_of(word) for word in asked]
    shell = words[0].rpartition("/")[2].removesuffix(".exe")
    if len(words) == 3 and shell in _SHELL_NAMES and words[1].startswith("-"):
        return words[2]
    return shlex.join(words)


def _arguments(text: object) -> object:
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def read_output(output: object) -> tuple[str, bool]:
    """The output of a tool as the model got it, and whether the tool failed."""
    failed = False
    if isinstance(output, dict):
        failed = output.get("success") is False
        output = output.get("content", output.get("output"))
    text = output if isinstance(output, str) else _plain(output)
    if text.startswith("{") and '"output"' in text:
        inner = _arguments(text)
        if isinstance(inner, dict) and isinstance(inner.get("output"), str):
            details = inner.get("metadata")
            code = details.get("exit_code") if isinstance(details, dict) else 0
            return clean(well_formed(inner["output"])).strip("\n"), failed or bool(code)
    text = well_formed(text)
    head = _OUTPUT_HEAD.match(text)
    if head is not None:
        code_found = _EXIT_CODE.search(head[0])
        failed = failed or (code_found is not None and code_found[1] != "0")
        text = text[head.end() :]
    return clean(text).strip("\n"), failed


# Events -------------------------------------------------------------------------------------


def _event(event: dict[str, Any], at: datetime | None) -> Entry:
    turn = text_of(event.get("turn_id"))
    match event.get("type"):
        case "task_started" | "turn_started":
            if event.get("root_turn_id") not in (None, turn):
                return _NOTHING  # a task of the agent's own, for instance of its reviewer
            return Entry("begin", turn, parse_time(event.get("started_at")) or at)
        case "task_complete" | "turn_complete":
            said = clean(text_of(event.get("last_agent_message"))).strip()
            return Entry("end", turn, at, way="end", text=said)
        case "turn_aborted":
            return Entry("aborted", turn, at, text=text_of(event.get("reason")))
        case "error":
            return Entry(
                "error", turn, at, text=beginning(clean(text_of(event.get("message"))), 400)
            )
        case "user_message":
            if event.get("kind") not in (None, "plain"):
                return _NOTHING
            images = event.get("images"), event.get("local_images")
            count = sum(len(each) for each in images if isinstance(each, list))
            parts = [text_of(event.get("message")), *["[image]"] * count]
            return _user(parts, turn, at, "e")
        case "agent_message":
            return _assistant(text_of(event.get("message")), turn, at, "e")
        case "entered_review_mode":
            return _review(event, turn, at, "e")
        case "item_completed":
            return _item(event, turn, at)
        case str(kind) if kind in _SILENT_EVENTS:
            return _NOTHING
        case kind:
            return Entry("nothing", unknown=f"event:{text_of(kind) or '(none)'}")


def _item(event: dict[str, Any], turn: str, at: datetime | None) -> Entry:
    item = event.get("item")
    if not isinstance(item, dict):
        return _NOTHING
    key = text_of(item.get("id"))
    failed = item.get("status") in ("failed", "declined")
    match item.get("type"):
        case "UserMessage":
            when = parse_time(event.get("started_at_ms")) or at
            return _user(_said(item.get("content"), None), turn, when, "i")
        case "AgentMessage":
            return _assistant(_plain(item.get("content")), turn, at, "i")
        case "EnteredReviewMode":
            return _review(item, turn, at, "i")
        case "CommandExecution":
            command = command_of(item.get("command"))
            output = clean(text_of(item.get("aggregated_output"))).strip("\n")
            code = item.get("exit_code")
            return Entry(
                "call",
                turn,
                at,
                key=key,
                name=SHELL,
                text=clean(command or ""),
                output=output,
                failed=failed or code not in (None, 0),
            )
        case str(kind) if kind in _SILENT_THINGS:
            return _NOTHING
        case "McpToolCall" | "DynamicToolCall" | "CollabAgentToolCall":
            asked = item.get("arguments", item.get("prompt"))
            name = text_of(item.get("tool")) or "tool"
            return _whole(turn, at, key, name, asked, item.get("result"), failed)
        case "WebSearch":
            return _whole(turn, at, key, "web_search", item.get("query"), "", failed)
        case "FileChange":
            return _whole(turn, at, key, "apply_patch", item.get("changes"), "", failed)
        case "ImageView" | "ImageGeneration":
            return _whole(turn, at, key, "image", item.get("path"), "", failed)
        case kind:
            return Entry("nothing", unknown=f"thing:{text_of(kind) or '(none)'}")


def _review(about: dict[str, Any], turn: str, at: datetime | None, way: str) -> Entry:
    """The user asked for a review; the words that its model gets are not the user's."""
    hint = text_of(about.get("user_facing_hint"))
    return replace(_user([f"/review {hint}".strip()], turn, at, way), name=REVIEW)


def _whole(
    turn: str,
    at: datetime | None,
    key: str,
    name: str,
    asked: object,
    result: object,
    failed: bool,
) -> Entry:
    """A tool's call with its result."""
    call = _call(turn, at, key, name, asked)
    output = result if isinstance(result, str) else _result_text(result)
    return Entry(
        "call",
        turn,
        at,
        key=key,
        name=call.name,
        text=call.text,
        output=clean(well_formed(output)).strip("\n"),
        failed=failed,
    )


def _result_text(result: object) -> str:
    if isinstance(result, dict):
        for name in ("Ok", "Err", "content"):
            if name in result:
                return _result_text(result[name])
        return compact_input(result, clean, frozenset())
    return result if isinstance(result, str) else _plain(result)


# Shapes -------------------------------------------------------------------------------------


def _plain(content: object) -> str:
    """The text of a content; what is no text is named in brackets."""
    texts: list[str] = []
    for part in blocks_of(content):
        kind = text_of(part.get("type"))
        if kind.casefold() in ("text", "input_text", "output_text", "refusal"):
            texts.append(text_of(part.get("text")) or text_of(part.get("refusal")))
        elif "image" in kind.casefold():
            texts.append("[image]")
        else:
            texts.append(f"[{kind[:60] or 'unknown'}]")
    return "\n".join(texts)


def path_of(payload: dict[str, Any]) -> str:
    """The working directory in a payload; empty without one."""
    cwd = text_of(payload.get("cwd"))
    return cwd if cwd.startswith("/") else ""
