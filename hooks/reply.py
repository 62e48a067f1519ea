"""What ``context`` and ``hint`` share: their command line, their input, their output.

Each agent takes what a hook says in its own way. Claude Code and Codex read JSON; the plugins
of OpenCode and OpenClaw, which are ours, read the text itself.
"""

from __future__ import annotations

import json
import os
import sys

from memsearch.config.paths import Home
from memsearch.hooks import enqueue
from memsearch.hooks.enqueue import MalformedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

FORMATS = ("json", "text")


class Options:
    """The command line.

    Args:
        platform: The agent; empty when a person asks.
        format: ``json`` or ``text``.
        enqueue: Also take note of the event, in the same process.
        event: The hook's event, where its JSON does not name it.
    """

    __slots__ = ("enqueue", "event", "format", "platform")

    def __init__(self, platform: str, format: str, enqueue: bool, event: str) -> None:  # noqa: A002
        self.platform = platform
        self.format = format
        self.enqueue = enqueue
        self.event = event


def parse_arguments(argv: list[str]) -> Options:
    """The options of a command line.

    Raises:
        MalformedError: It is not understood; the message says why.
    """
    names = ("--platform", "--format", "--event")
    values, also = enqueue.read_options(argv, names, "--enqueue")
    platform, format_ = values["--platform"], values["--format"]
    if platform and platform not in enqueue.PLATFORMS:
        raise MalformedError(
            f"--platform {platform!r} is not one of {', '.join(enqueue.PLATFORMS)}"
        )
    if also and not platform:
        raise MalformedError("--enqueue needs --platform")
    format_ = format_ or ("json" if platform in ("claude-code", "codex") else "text")
    if format_ not in FORMATS:
        raise MalformedError(f"--format {format_!r} is not one of {', '.join(FORMATS)}")
    return Options(platform, format_, also, values["--event"])


def payload(options: Options) -> dict[str, object]:
    """The hook's JSON object; empty when a person asks, who gives none.

    Raises:
        MalformedError: An agent gave none, or no object.
    """
    return enqueue.read_object(0) if options.platform else {}


def switched_off(environ: Mapping[str, str]) -> bool:
    """Whether memsearch has nothing to say here: its own summariser runs, or the user said no."""
    return bool(environ.get("MEMSEARCH_INTERNAL") or environ.get("MEMSEARCH_DISABLE"))


def text_of(raw: Mapping[str, object], *names: str) -> str:
    """The first text of a payload under one of these names; empty when there is none."""
    for name in names:
        value = raw.get(name)
        if isinstance(value, str) and value:
            return value
    return ""


def answer(options: Options, event: str, context: str, message: str) -> bytes:
    """What is printed.

    Args:
        options: The command line.
        event: The name of the hook's event, which the JSON has to repeat.
        context: What the model shall see; empty for nothing.
        message: What the user shall see; empty for nothing. In ``text`` it goes to stderr.
    """
    if options.format == "text":
        return (context + "\n").encode("utf-8", "replace") if context else b""
    body: dict[str, object] = {}
    if message:
        body["systemMessage"] = message
    if context:
        body["hookSpecificOutput"] = {"hookEventName": event, "additionalContext": context}
    return (json.dumps(body) + "\n").encode("ascii")


def write(data: bytes) -> None:
    """Print it; an agent that went away is no fault."""
    try:
        while data:
            data = data[os.write(1, data) :]
    except OSError:
        return


def take_note(options: Options, raw: dict[str, object], home: Home, now: float) -> None:
    """What ``enqueue`` does, after the answer is out. A fault is reported, never raised."""
    environ = dict(os.environ)
    try:
        data, last = enqueue.pointers(raw, options.platform, options.event, environ)
        enqueue.make_home(home)
        enqueue.store(home, data, last, now)
    except (MalformedError, OSError) as error:
        enqueue.report(home, "not stored", str(error), options.platform)
        return
    if enqueue.autostart(home, environ):
        from memsearch.hooks.spawn import start_worker

        try:
            start_worker(home, environ)
        except OSError as error:
            enqueue.report(home, "no worker could be started", str(error), options.platform)


def refuse(command: str, error: MalformedError, options: Options | None) -> int:
    """Say on stderr what was wrong with the call; an agent goes on all the same."""
    sys.stderr.write(f"memsearch {command}: {error}; see memsearch {command} --help\n")
    hook = options is not None or not sys.stdin.isatty()
    if hook and (options is None or options.format == "json"):
        write(b"{}\n")
    return 0 if hook else 2
