"""Notes without a model: what was asked, what was run and edited, how it ended.

Pure and deterministic. It repeats the turn's own words, cut but never reworded, and counts;
it draws no conclusion, so it cannot claim what did not happen.
"""

from __future__ import annotations

import json
import posixpath
import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass

from memsearch.pipeline.summarizers.answer import tidy
from memsearch.pipeline.summarizers.prompt import Prompt, agent_name
from memsearch.pipeline.summarizers.words import clip, is_chinese, one_line, plain
from memsearch.pipeline.types import Summary
from memsearch.sources.base import Item, Turn

#: Characters of the user's or the agent's words in one note.
MAX_WORDS_CHARS = 200
#: Characters up to which a command is given whole.
MAX_COMMAND_CHARS = 120
#: Commands that are named; the others are counted.
MAX_COMMANDS = 4
#: Files that are named; the others are counted.
MAX_FILES = 6
#: Other tools that are named.
MAX_TOOLS = 5
#: Failures that are named.
MAX_FAILURES = 2
#: Characters of an error that are given.
MAX_ERROR_CHARS = 100

# Names of tools in lower case; MCP tools and new ones fall under "used".
_SHELLS = frozenset(
    (
        *("bash", "shell", "exec", "exec_command", "shell_command", "local_shell"),
        *("run_command", "terminal", "commandexecution", "powershell", "unified_exec"),
    )
)
_EDITORS = frozenset(
    (
        *("edit", "write", "multiedit", "notebookedit", "apply_patch", "patch", "create"),
        *("update", "str_replace", "str_replace_editor", "write_file", "edit_file", "filechange"),
    )
)
_READERS = frozenset(("read", "read_file", "view", "cat", "open", "notebookread"))
#: Keys under which the tools of the four agents name a file.
_PATH_KEYS = ("file_path", "filePath", "path", "notebook_path", "filename", "file")

_PATCH_FILE = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.{1,400})$", re.M)
# For an input that was cut and is no JSON any more.
_CUT_PATH = re.compile(
    r'"(?:file_?path|path|notebook_path|file)"\s*:\s*"((?:[^"\\]|\\.){1,400})"', re.I
)
_FENCED = re.compile(r"(`{3,}|~{3,}).*?(?:\1|\Z)", re.S)
_MARKDOWN_HEAD = re.compile(r"^[ \t]*(?:#{1,6}[ \t]+|>[ \t]?|[-*+][ \t]+)", re.M)
_ERROR_LINE = re.compile(
    r"error|exception|fail|fatal|denied|not found|no such|refused|panic|错误|失败|异常", re.I
)


class ExtractiveSummarizer:
    """The summariser that needs no model and costs nothing."""

    provider = "extractive"
    model = ""

    def estimate(self, turn: Turn) -> int:  # noqa: ARG002 - the protocol's signature
        """Always 0."""
        return 0

    def summarize(
        self,
        turn: Turn,
        *,
        timeout: float,  # noqa: ARG002
        stop: threading.Event,  # noqa: ARG002
    ) -> Summary:
        """Notes of one turn; never fails and never waits."""
        return Summary(bullets=extract(turn), provider=self.provider, model=self.model)

    def cost_of(self, asked: Prompt) -> int:  # noqa: ARG002
        """Always 0."""
        return 0

    def answer_to(
        self,
        asked: Prompt,  # noqa: ARG002
        *,
        most: int,  # noqa: ARG002
        timeout: float,  # noqa: ARG002
        stop: threading.Event,  # noqa: ARG002
    ) -> None:
        """Nobody is asked: always None."""
        return


def extract(turn: Turn) -> tuple[str, ...]:
    """2 to 6 notes of a turn in the user's language (English or Chinese).

    Args:
        turn: Any turn, redacted.
    """
    user = [text for item in turn.items if item.kind == "user" and (text := item.text.strip())]
    name = agent_name(turn.platform)
    words: _Words = _Chinese(name) if is_chinese("\n".join(user)) else _English(name)
    work = _work(turn)
    bullets = [words.asked(excerpt(user[0]) if user else "")]
    if len(user) > 1:
        bullets.append(words.added([excerpt(text) for text in user[1:]]))
    if work.commands:
        bullets.append(words.ran(work.commands))
    if work.edited or work.read or work.tools:
        bullets.append(words.touched(work.edited, work.read, work.tools))
    if work.failures:
        bullets.append(words.failed(work.failures))
    bullets.append(words.ended(turn.state, *_ending(turn.items)))
    return tuple(tidy(bullet) for bullet in bullets)


# ------------------------------------------------------------------------- what was done


@dataclass(frozen=True, slots=True)
class _Work:
    """The tools' part of a turn; names without doubles, in order."""

    commands: tuple[str, ...]
    edited: tuple[str, ...]
    read: tuple[str, ...]
    tools: tuple[str, ...]
    failures: tuple[tuple[str, str], ...]  # what, and the first line of its error


def _work(turn: Turn) -> _Work:
    commands: list[str] = []
    edited: list[str] = []
    read: list[str] = []
    tools: list[str] = []
    failures: list[tuple[str, str]] = []
    for item in turn.items:
        if item.kind != "tool":
            continue
        name = item.name.strip().lower()
        what = one_line(item.name) or "tool"
        if name in _SHELLS:
            what = _code(_whole(item.text, MAX_COMMAND_CHARS))
            commands.append(what)
        elif files := tuple(_relative(path, turn.cwd) for path in _paths(name, item.text)):
            what = ", ".join(files[:MAX_FILES])
            if not item.failed:
                (edited if name in _EDITORS else read).extend(files)
        elif not item.failed:
            tools.append(clip(what, 60))
        if item.failed:
            failures.append((clip(what, MAX_COMMAND_CHARS), _error(item.output)))
    # A file that was changed was looked at too: said once.
    read = [path for path in read if path not in edited]
    return _Work(_once(commands), _once(edited), _once(read), _once(tools), tuple(failures))


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name))


def _whole(text: str, limit: int) -> str:
    """A command in one line, whole or visibly cut at a word."""
    line = one_line(plain(text))
    if len(line) <= limit:
        return line
    cut = line.rfind(" ", limit // 2, limit - 1)
    return line[: cut if cut > 0 else limit - 1] + "…"


def _code(text: str) -> str:
    """``text`` as inline code, with a fence that it does not hold."""
    if not text:
        return ""
    if "`" not in text:
        return f"`{text}`"
    fence = "``" if "``" not in text else "````"
    return f"{fence} {text} {fence}"


def _paths(tool: str, text: str) -> tuple[str, ...]:
    """The files that a tool's input names; none for a tool that is not about files."""
    if tool not in _EDITORS and tool not in _READERS:
        return ()
    if "*** " in text and (found := _PATCH_FILE.findall(text.replace("\\n", "\n"))):
        return tuple(one_line(path) for path in found)
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        cut = _CUT_PATH.search(text)
        return (one_line(cut[1]),) if cut else ()
    if not isinstance(given, dict):
        return ()
    for key in _PATH_KEYS:
        value = given.get(key)
        if isinstance(value, str) and value.strip():
            return (one_line(value),)
    return ()


def _relative(path: str, cwd: str | None) -> str:
    if cwd and path.startswith(cwd.rstrip("/") + "/"):
        path = path[len(cwd.rstrip("/")) + 1 :]
    return clip(posixpath.normpath(path) if path else path, MAX_COMMAND_CHARS)


def _error(output: str) -> str:
    """The line of an output that says what went wrong, else its last line; or ""."""
    lines = [line.strip() for line in plain(output).splitlines() if line.strip()]
    if not lines:
        return ""
    told = next((line for line in lines if _ERROR_LINE.search(line[:400])), lines[-1])
    return clip(told, MAX_ERROR_CHARS)


def excerpt(text: str) -> str:
    """The beginning of a text as one bounded line, without code blocks and Markdown marks.

    A text that is nothing but code gives its code.
    """
    spoken = _FENCED.sub(" ", text)
    if not spoken.strip():
        spoken = re.sub(r"`{3,}|~{3,}", " ", text)
    return clip(_MARKDOWN_HEAD.sub("", plain(spoken)), MAX_WORDS_CHARS)


def _ending(items: tuple[Item, ...]) -> tuple[str, str]:
    """The agent's last words after everything it did, and the last note of ours."""
    answer = note = ""
    for item in items:
        if item.kind == "assistant" and item.text.strip():
            answer = item.text
        elif item.kind == "tool":
            answer = ""  # what it said before a step is not how it ended
        elif item.kind == "note" and item.text.strip():
            note = item.text
    return excerpt(answer), excerpt(note)


# ---------------------------------------------------------------------------- the wording


class _Words:
    """How the facts are said in one language."""

    def __init__(self, agent: str) -> None:
        self.agent = agent

    def asked(self, text: str) -> str:
        raise NotImplementedError

    def added(self, texts: list[str]) -> str:
        raise NotImplementedError

    def ran(self, commands: tuple[str, ...]) -> str:
        raise NotImplementedError

    def touched(
        self, edited: tuple[str, ...], read: tuple[str, ...], tools: tuple[str, ...]
    ) -> str:
        raise NotImplementedError

    def failed(self, failures: tuple[tuple[str, str], ...]) -> str:
        raise NotImplementedError

    def ended(self, state: str, answer: str, note: str) -> str:
        raise NotImplementedError


class _English(_Words):
    def asked(self, text: str) -> str:
        return f"User asked: {text}" if text else "User sent a message without text"

    def added(self, texts: list[str]) -> str:
        more = f" (and {len(texts) - 1} more messages)" if len(texts) > 1 else ""
        return f"User added: {texts[0]}{more}"

    def ran(self, commands: tuple[str, ...]) -> str:
        return f"{self.agent} ran {self._list(commands, MAX_COMMANDS, 'commands')}"

    def touched(
        self, edited: tuple[str, ...], read: tuple[str, ...], tools: tuple[str, ...]
    ) -> str:
        parts = []
        if edited:
            parts.append(f"edited {self._list(edited, MAX_FILES, 'files')}")
        if read:
            parts.append(f"read {self._list(read, MAX_FILES, 'files')}")
        if tools:
            parts.append(f"used {self._list(tools, MAX_TOOLS, 'tools')}")
        return f"{self.agent} {', '.join(parts)}"

    def failed(self, failures: tuple[tuple[str, str], ...]) -> str:
        told = [f"{what} ({error})" if error else what for what, error in failures]
        return f"Failed: {self._list(tuple(told), MAX_FAILURES, 'steps', '; ')}"

    def ended(self, state: str, answer: str, note: str) -> str:
        parts = []
        if answer:
            parts.append(f"{self.agent} answered: {answer}")
        if state == "interrupted":
            parts.append("The user interrupted the turn before it was finished")
        elif state == "open":
            parts.append("The turn was still open when it was recorded")
        elif not answer and not note:
            parts.append(f"{self.agent} ended without a final message")
        if note:
            parts.append(note)
        return _sentences(parts, " ")

    @staticmethod
    def _list(names: tuple[str, ...], limit: int, unit: str, joint: str = ", ") -> str:
        shown = joint.join(names[:limit])
        rest = len(names) - limit
        return f"{shown} and {rest} more {unit}" if rest > 0 else shown


class _Chinese(_Words):
    def asked(self, text: str) -> str:
        return f"用户提出：{text}" if text else "用户发送了一条没有文字的消息"

    def added(self, texts: list[str]) -> str:
        more = f"（另有 {len(texts) - 1} 条消息）" if len(texts) > 1 else ""
        return f"用户补充：{texts[0]}{more}"

    def ran(self, commands: tuple[str, ...]) -> str:
        return f"{self.agent} 运行了 {self._list(commands, MAX_COMMANDS, '条命令')}"

    def touched(
        self, edited: tuple[str, ...], read: tuple[str, ...], tools: tuple[str, ...]
    ) -> str:
        parts = []
        if edited:
            parts.append(f"修改了 {self._list(edited, MAX_FILES, '个文件')}")
        if read:
            parts.append(f"读取了 {self._list(read, MAX_FILES, '个文件')}")
        if tools:
            parts.append(f"使用了 {self._list(tools, MAX_TOOLS, '个工具')}")
        return f"{self.agent} {'，'.join(parts)}"

    def failed(self, failures: tuple[tuple[str, str], ...]) -> str:
        told = [f"{what}（{error}）" if error else what for what, error in failures]
        return f"失败：{self._list(tuple(told), MAX_FAILURES, '步', '；')}"

    def ended(self, state: str, answer: str, note: str) -> str:
        parts = []
        if answer:
            parts.append(f"{self.agent} 回答：{answer}")
        if state == "interrupted":
            parts.append("用户中断了这一轮，尚未完成")
        elif state == "open":
            parts.append("记录时这一轮尚未结束")
        elif not answer and not note:
            parts.append(f"{self.agent} 结束时没有给出最终回复")
        if note:
            parts.append(note)
        return _sentences(parts, "")

    @staticmethod
    def _list(names: tuple[str, ...], limit: int, unit: str, joint: str = "、") -> str:
        shown = joint.join(names[:limit])
        rest = len(names) - limit
        return f"{shown} 等，另有 {rest} {unit}" if rest > 0 else shown


def _sentences(parts: list[str], space: str) -> str:
    """Parts as sentences: each but the last gets an end mark unless it has one."""
    joined = ""
    for part in parts:
        if joined:
            mark = "" if joined[-1] in ".。！？!?…" else ("。" if not space else ".")
            joined += mark + space
        joined += part
    return joined
