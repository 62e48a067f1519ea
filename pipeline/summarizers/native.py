"""Notes by the agent's own command line, closed: no tools, no hooks, no session kept.

What each agent needs is one entry of ``AGENTS``. The turn goes in by standard input where
the agent takes it there. The child carries ``MEMSEARCH_INTERNAL``, on which everything of
ours that an agent may start exits at once, so a summary never captures itself.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from memsearch.config.agent_env import without_session
from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import Home, user_home
from memsearch.pipeline.redact import excerpt
from memsearch.pipeline.summarizers import answer, processes, prompt
from memsearch.pipeline.summarizers.calls import StoppedError, estimated_cost, timed_out
from memsearch.pipeline.summarizers.words import estimate_tokens, one_line, plain
from memsearch.pipeline.types import Summary
from memsearch.sources.base import Turn

#: Set in every child of ours that is an agent.
INTERNAL_VARIABLE = "MEMSEARCH_INTERNAL"
#: Folder under ``run/`` that the agents work in: empty, so no project's files are read.
CWD_NAME = "summaries"
#: What Codex calls an MCP server; another name would not come through its command line.
_SERVER_NAME = re.compile(r"[A-Za-z0-9_-]+")
#: Characters of an agent's complaint that are given on.
MAX_COMPLAINT_CHARS = 300
#: Longest wait that a usage limit's end may ask for, in seconds.
MAX_RETRY_AFTER_SECONDS = 86_400.0
#: Bytes of a turn that goes in as an argument; the system allows 128 kB for one.
MAX_ARGUMENT_BYTES = 90_000
#: Where agents are installed that a worker's bare PATH may lack, relative to the user's home.
EXTRA_FOLDERS = (
    ".local/bin",
    ".claude/local",
    ".opencode/bin",
    ".bun/bin",
    ".npm-global/bin",
    "/opt/homebrew/bin",
    "/usr/local/bin",
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What an agent printed, understood.

    ``fault`` is its complaint when it failed, ``status`` the HTTP status behind it.
    """

    text: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    fault: str = ""
    status: int | None = None
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Agent:
    """How one agent is asked.

    Attributes:
        program: Its name on the PATH.
        arguments: From the prompt and the model, without the program.
        stdin: What it reads; "" when the prompt is among the arguments.
        read: From its standard output.
        environ: Variables that its child gets.
        closing: Arguments, behind the first one, that depend on what its user has set up.
        model: The model when none is set: a small one, since notes need no large one.
        needs: Texts that its ``--help`` must hold; without them it would not be closed.
        older: The arguments for its releases that lack some of these, and hold
            ``older_needs`` instead.
        login: Arguments that exit 0 when it is logged in; none: not asked.
        overhead: Tokens that it adds to our prompt.
    """

    program: str
    arguments: Callable[[prompt.Prompt, str], list[str]]
    stdin: Callable[[prompt.Prompt], str]
    read: Callable[[str], Answer]
    environ: Callable[[prompt.Prompt], Mapping[str, str]] = lambda asked: {}  # noqa: ARG005
    closing: Callable[[Mapping[str, str]], list[str]] = lambda environ: []  # noqa: ARG005
    model: str = ""
    needs: tuple[str, ...] = ()
    older: Callable[[prompt.Prompt, str], list[str]] | None = None
    older_needs: tuple[str, ...] = ()
    help: tuple[str, ...] = ("--help",)
    login: tuple[str, ...] = ()
    overhead: int = 500


class NativeSummarizer:
    """The summariser that asks an agent's own command line.

    Args:
        platform: Which agent.
        program: Path of its program, from ``find_program``.
        home: The home, whose ``run/`` holds the working directory.
        environ: The worker's environment.
        model: A name that the agent knows; empty: its small one.
        max_input_chars: Room for a rendered turn in the prompt, in characters.
        older: Whether it is a release that is closed in the older way (``Agent.older``).
    """

    provider = "native"

    def __init__(
        self,
        platform: str,
        program: str,
        *,
        home: Home,
        environ: Mapping[str, str],
        model: str = "",
        max_input_chars: int = 24_000,
        older: bool = False,
    ) -> None:
        self.agent = AGENTS[platform]
        self._arguments = self.agent.arguments
        if older and self.agent.older is not None:
            self._arguments = self.agent.older
        self.program = program
        self.model = model or self.agent.model
        self._model_is_ours = not model and bool(self.agent.model)
        self._home = home
        self._environ = environ
        self._max_input_chars = max_input_chars
        self._name = f"{prompt.agent_name(platform)}'s command line"

    def estimate(self, turn: Turn) -> int:
        """Tokens that a call is likely to cost."""
        asked = prompt.build(turn, max_chars=self._max_input_chars)
        return estimated_cost(asked, self.agent.overhead)

    def summarize(self, turn: Turn, *, timeout: float, stop: threading.Event) -> Summary:
        """Notes of one turn; see ``Summarizer``."""
        asked = prompt.build(turn, max_chars=self._max_input_chars)
        return self.answer_to(asked, most=answer.MAX_BULLETS, timeout=timeout, stop=stop)

    def cost_of(self, asked: prompt.Prompt) -> int:
        """See ``Summarizer``."""
        return estimated_cost(asked, self.agent.overhead)

    def answer_to(
        self, asked: prompt.Prompt, *, most: int, timeout: float, stop: threading.Event
    ) -> Summary:
        """See ``Summarizer``."""
        started = time.monotonic()
        try:
            return self._notes(asked, self.model, most, timeout, stop)
        except MemsearchError as error:
            # An endpoint behind the agent may not have its maker's small model.
            if error.kind is not ErrorClass.CONFIG or not self._model_is_ours:
                raise
            left = timeout - (time.monotonic() - started)
            summary = self._notes(asked, "", most, left, stop)
            self.model, self._model_is_ours = "", False
            return summary

    def _notes(
        self, asked: prompt.Prompt, model: str, most: int, timeout: float, stop: threading.Event
    ) -> Summary:
        ended = self._run(asked, model, timeout, stop)
        if ended.why == "stop":
            raise StoppedError(self._name)
        if ended.why == "timeout":
            raise timed_out(self._name, timeout)
        found = self.agent.read(ended.out)
        spent = found.tokens_in + found.tokens_out
        if found.refused:
            raise MemsearchError(
                f"{self._name} refused the content", kind=ErrorClass.REFUSED, tokens=spent
            )
        if ended.status != 0 or found.fault:
            raise failure(self._name, ended, found, time.time())
        tokens_in, tokens_out, estimated = found.tokens_in, found.tokens_out, spent == 0
        if estimated:
            tokens_in = estimate_tokens(asked.whole) + self.agent.overhead
            tokens_out = estimate_tokens(found.text)
        return Summary(
            bullets=answer.clean(found.text, tokens=tokens_in + tokens_out, most=most),
            provider=self.provider,
            model=model,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            estimated=estimated,
        )

    def _run(
        self, asked: prompt.Prompt, model: str, timeout: float, stop: threading.Event
    ) -> processes.Ended:
        cwd = os.path.join(self._home.run, CWD_NAME)
        os.makedirs(cwd, mode=0o700, exist_ok=True)
        words = self._arguments(asked, model)
        words[1:1] = self.agent.closing(self._environ)
        try:
            return processes.run(
                [self.program, *words],
                stdin=self.agent.stdin(asked).encode("utf-8", "replace"),
                env=child_environ(self._environ, self.agent.environ(asked)),
                cwd=cwd,
                timeout=timeout,
                stop=stop,
            )
        except FileNotFoundError as error:
            raise MemsearchError(
                f"{self.program} is no longer there",
                kind=ErrorClass.CONFIG,
                hint="install it again, or set summarize.provider",
            ) from error
        except OSError as error:
            raise MemsearchError(
                f"{self.program} cannot be started: {error.strerror}",
                kind=ErrorClass.PERMISSION
                if isinstance(error, PermissionError)
                else ErrorClass.BUSY,
            ) from error


def child_environ(environ: Mapping[str, str], extra: Mapping[str, str]) -> dict[str, str]:
    """The environment of an agent that summarises: no session of another, marked as ours."""
    return {**without_session(environ), **extra, INTERNAL_VARIABLE: "1"}


def find_program(name: str, environ: Mapping[str, str]) -> str | None:
    """Absolute path of a program, from PATH and the folders where agents are installed.

    Relative entries of PATH are passed over: in a project's folder they would run what the
    project brought along.
    """
    home = environ.get("HOME") or os.path.expanduser("~")
    folders = [folder for folder in environ.get("PATH", "").split(os.pathsep) if folder]
    folders += [os.path.join(home, folder) for folder in EXTRA_FOLDERS]
    absolute = [folder for folder in folders if os.path.isabs(folder)]
    return shutil.which(name, path=os.pathsep.join(absolute)) if absolute else None


# ------------------------------------------------------------------------ what went wrong

#: Complaints of the agents in words, first match first.
_COMPLAINTS: tuple[tuple[ErrorClass, re.Pattern[str]], ...] = (
    (
        ErrorClass.CREDENTIALS,
        re.compile(
            r"not logged in|please run /?login|log ?in (?:again|first)"
            r"|invalid (?:api|x-api)[ -]?key|authenticat|unauthori[sz]ed|oauth token"
            r"|no credentials|credit balance|api key"
            r"|\b40[13]\b",
            re.IGNORECASE,
        ),
    ),
    (
        ErrorClass.RATE_LIMIT,
        re.compile(r"rate.?limit|usage limit|limit reached|too many requests|quota|\b429\b", re.I),
    ),
    (ErrorClass.SERVER, re.compile(r"overloaded|internal server|server error|\b5\d\d\b", re.I)),
    (
        ErrorClass.NETWORK,
        re.compile(
            r"connection|ECONN|ENOTFOUND|EAI_AGAIN|network|fetch failed|socket|timed? ?out"
            r"|getaddrinfo",
            re.IGNORECASE,
        ),
    ),
    (ErrorClass.BAD_REQUEST, re.compile(r"too (?:long|large)|context (?:window|length)", re.I)),
    (
        ErrorClass.CONFIG,
        re.compile(
            r"unknown (?:option|argument|command|feature)|unexpected argument|selected model"
            r"|model .{0,60}(?:not (?:found|exist|supported)|may not exist)",
            re.IGNORECASE,
        ),
    ),
)
_LIMIT_ENDS = re.compile(r"\|(\d{10})\b")


def failure(name: str, ended: processes.Ended, found: Answer, now: float) -> MemsearchError:
    """What a failed run means. Pure.

    Args:
        name: The subject of the message.
        ended: The program's end.
        found: What was understood of its output.
        now: Seconds since the epoch, for a limit that says when it ends.
    """
    words = found.fault or ended.err.strip() or ended.out.strip()
    complaint = excerpt(one_line(plain(excerpt(words, 4_000))), MAX_COMPLAINT_CHARS)
    kind = _kind(found.status, complaint)
    how = f"ended by signal {-ended.status}" if ended.status < 0 else "failed"
    message = f"{name} {how}: {complaint}" if complaint else f"{name} {how} ({ended.status})"
    retry_after = None
    if kind is ErrorClass.RATE_LIMIT and (when := _LIMIT_ENDS.search(words)):
        retry_after = min(max(0.0, int(when[1]) - now), MAX_RETRY_AFTER_SECONDS)
    hint = ""
    if kind is ErrorClass.CREDENTIALS:
        hint = "log in again in a terminal, or set summarize.provider"
    elif kind is ErrorClass.CONFIG:
        hint = "look at summarize.model, or update the agent"
    return MemsearchError(
        message,
        kind=kind,
        hint=hint,
        retry_after=retry_after,
        tokens=found.tokens_in + found.tokens_out,
    )


def _kind(status: int | None, complaint: str) -> ErrorClass:
    if status is not None:
        if status in (401, 402, 403):
            return ErrorClass.CREDENTIALS
        if status == 429:
            return ErrorClass.RATE_LIMIT
        if status == 404:
            return ErrorClass.CONFIG
        if status == 408 or status == 409 or status >= 500:
            return ErrorClass.SERVER
        if 400 <= status < 500:
            return ErrorClass.BAD_REQUEST
    for kind, pattern in _COMPLAINTS:
        if pattern.search(complaint):
            return kind
    # Killed, crashed or silent: another try may do.
    return ErrorClass.SERVER


# --------------------------------------------------------------------- the four agents


def _objects(out: str) -> Iterator[dict[str, Any]]:
    """The JSON objects of an output that has one a line, or is one."""
    for line in [*out.splitlines(), out]:
        if line.lstrip().startswith("{"):
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(found, dict):
                yield found


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def read_claude_code(out: str) -> Answer:
    """From ``--output-format json``: one object with ``result`` and ``usage``."""
    for found in _objects(out):
        if found.get("type") != "result" and "result" not in found:
            continue
        usage = _table(found.get("usage"))
        text = found.get("result")
        text = text if isinstance(text, str) else ""
        status = found.get("api_error_status")
        failed = bool(found.get("is_error"))
        return Answer(
            text="" if failed else text,
            tokens_in=_count(usage.get("input_tokens"))
            + _count(usage.get("cache_creation_input_tokens"))
            + _count(usage.get("cache_read_input_tokens")),
            tokens_out=_count(usage.get("output_tokens")),
            fault=(text or str(found.get("subtype") or "failed")) if failed else "",
            status=status if isinstance(status, int) else None,
            refused=found.get("stop_reason") == "refusal",
        )
    return Answer(fault=excerpt(out.strip(), 2_000))


def read_codex(out: str) -> Answer:
    """From ``codex exec --json``: events, the last agent message and the turn's usage."""
    text = fault = ""
    tokens_in = tokens_out = 0
    for event in _objects(out):
        kind = event.get("type")
        item = _table(event.get("item"))
        if kind == "item.completed" and item.get("type") == "agent_message":
            text = str(item.get("text") or "")
        elif kind == "turn.completed":
            usage = _table(event.get("usage"))
            tokens_in = _count(usage.get("input_tokens"))
            tokens_out = _count(usage.get("output_tokens"))
        elif kind in ("error", "turn.failed"):
            fault = str(event.get("message") or _table(event.get("error")).get("message") or kind)
    return Answer(text, tokens_in, tokens_out, fault="" if text else fault)


def read_opencode(out: str) -> Answer:
    """From ``opencode run --format json``: events with parts."""
    texts: list[str] = []
    fault = ""
    tokens_in = tokens_out = 0
    for event in _objects(out):
        part = _table(event.get("part"))
        if event.get("type") == "text" and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif event.get("type") == "step_finish":
            tokens = _table(part.get("tokens"))
            tokens_in += _count(tokens.get("input"))
            tokens_out += _count(tokens.get("output"))
        elif event.get("type") == "error":
            error = _table(event.get("error"))
            fault = str(_table(error.get("data")).get("message") or error.get("name") or "error")
    return Answer("\n".join(texts), tokens_in, tokens_out, fault="" if texts else fault)


def read_openclaw(out: str) -> Answer:
    """From ``openclaw infer model run --json``: one object with the text somewhere in it."""
    for found in _objects(out):
        outputs = found.get("outputs")
        first = outputs[0] if isinstance(outputs, list) and outputs else None
        for holder in (_table(first), found, _table(found.get("result"))):
            for key in ("text", "output", "content", "result"):
                text = answer.first_text(holder.get(key))
                if text.strip():
                    return Answer(text)
        if fault := found.get("error"):
            return Answer(fault=str(_table(fault).get("message") or fault))
    return Answer(fault=excerpt(out.strip(), 2_000))


def _claude_code_arguments(asked: prompt.Prompt, model: str) -> list[str]:
    return _claude_code_closed(("--safe-mode",), asked, model)


def _claude_code_older(asked: prompt.Prompt, model: str) -> list[str]:
    """For releases before ``--safe-mode`` (seen from 2.0.72 to 2.1.150): no settings are read,
    so there are no hooks, plugins, skills or rules of the user's. A login or an endpoint that
    stands in the settings is not read either; ``auto`` then passes the command line over."""
    no_settings = ("--setting-sources", "", "--settings", '{"disableAllHooks": true}')
    return _claude_code_closed(no_settings, asked, model)


def _claude_code_closed(closed: tuple[str, ...], asked: prompt.Prompt, model: str) -> list[str]:
    return [
        *("-p", *closed, "--no-session-persistence", "--strict-mcp-config"),
        *("--tools", ""),
        *("--output-format", "json"),
        *(("--model", model) if model else ()),
        *("--system-prompt", asked.system),
    ]


#: Codex's settings that close it and take its own tools away, of several releases: one that
#: does not know a key passes over it, while it refuses a ``--disable`` that it does not know
#: (``hooks`` was ``codex_hooks`` before 0.129). What is left is what the entry of a model in
#: Codex's catalog asks for itself (``apply_patch``, a cell of JavaScript without files or
#: network), and before 0.155 a plan and a look at an image, which no setting takes away; the
#: sandbox is read-only.
_CODEX_SHUT = (
    "features.hooks=false",
    "features.codex_hooks=false",
    "features.shell_tool=false",
    "features.plugins=false",
    "features.apps=false",
    "features.multi_agent=false",
    'web_search="disabled"',
    "features.view_image=false",
    "tools.view_image=false",
    "features.goals=false",
    "tools.experimental_request_user_input.enabled=false",
)


def _codex_arguments(asked: prompt.Prompt, model: str) -> list[str]:  # noqa: ARG001
    return [
        *("exec", "--ephemeral", "--skip-git-repo-check", "--json", "-s", "read-only"),
        *(word for setting in _CODEX_SHUT for word in ("-c", setting)),
        *(("-m", model) if model else ()),
        "-",
    ]


def _codex_closing(environ: Mapping[str, str]) -> list[str]:
    """Its user's MCP servers, ours among them, switched off by name: each would be started for
    each summary, and its tools shown to the model. No flag of Codex turns off all of them."""
    folder = environ.get("CODEX_HOME") or os.path.join(user_home(environ), ".codex")
    try:
        with open(os.path.join(folder, "config.toml"), "rb") as file:
            servers = tomllib.load(file).get("mcp_servers")
    except (OSError, ValueError):
        return []  # Codex itself says what is wrong with it
    names = servers if isinstance(servers, dict) else {}
    return [
        word
        for name in names
        if _SERVER_NAME.fullmatch(name)
        for word in ("-c", f"mcp_servers.{name}.enabled=false")
    ]


def _opencode_arguments(asked: prompt.Prompt, model: str) -> list[str]:  # noqa: ARG001
    return [
        *("run", "--pure", "--agent", "memsum", "--title", "memsearch", "--format", "json"),
        *(("-m", model) if model else ()),
    ]


def _opencode_environ(asked: prompt.Prompt) -> Mapping[str, str]:
    agent = {"mode": "primary", "prompt": asked.system, "tools": {"*": False}}
    config = json.dumps({"agent": {"memsum": agent}}, ensure_ascii=False)
    return {"OPENCODE_DB": ":memory:", "OPENCODE_CONFIG_CONTENT": config}


def _openclaw_arguments(asked: prompt.Prompt, model: str) -> list[str]:
    text = asked.whole.replace("\0", " ").encode("utf-8", "replace")[:MAX_ARGUMENT_BYTES]
    return [
        *("infer", "model", "run", "--local", "--json"),
        *(("--model", model) if model else ()),
        *("--prompt", text.decode("utf-8", "ignore")),
    ]


#: What closes Claude Code in all its releases that can be closed.
_CLAUDE_CODE_CLOSED = ("--no-session-persistence", "--strict-mcp-config", "--tools")

AGENTS: dict[str, Agent] = {
    "claude-code": Agent(
        program="claude",
        arguments=_claude_code_arguments,
        stdin=lambda asked: asked.user,
        read=read_claude_code,
        environ=lambda asked: {  # noqa: ARG005
            # The log decides when to try again.
            "CLAUDE_CODE_MAX_RETRIES": "0",
            # Notes need no thoughts, and an answer has no reason to be long.
            "CLAUDE_CODE_DISABLE_THINKING": "1",
            "CLAUDE_CODE_EFFORT_LEVEL": "low",
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "4000",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        },
        model="haiku",
        needs=("--safe-mode", *_CLAUDE_CODE_CLOSED),
        older=_claude_code_older,
        older_needs=("--setting-sources", "--settings", *_CLAUDE_CODE_CLOSED),
        login=("auth", "status"),
    ),
    "codex": Agent(
        program="codex",
        arguments=_codex_arguments,
        stdin=lambda asked: asked.whole,
        read=read_codex,
        closing=_codex_closing,
        needs=("--ephemeral",),
        help=("exec", "--help"),
        overhead=2_000,
    ),
    "opencode": Agent(
        program="opencode",
        arguments=_opencode_arguments,
        stdin=lambda asked: asked.user,
        read=read_opencode,
        environ=_opencode_environ,
        needs=("--pure", "--agent"),
        help=("run", "--help"),
    ),
    "openclaw": Agent(
        program="openclaw",
        arguments=_openclaw_arguments,
        stdin=lambda asked: "",  # noqa: ARG005
        read=read_openclaw,
        needs=("infer",),
        overhead=50,
    ),
}
