"""Which summariser a turn gets.

The decision is pure (``decide``); what it needs to know of an agent's command line is found
out apart from it (``Probes``), once in a while, since it starts programs.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from memsearch.config.credentials import resolve_secret
from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.pipeline.summarizers import processes
from memsearch.pipeline.summarizers.extractive import ExtractiveSummarizer
from memsearch.pipeline.summarizers.native import (
    AGENTS,
    CWD_NAME,
    NativeSummarizer,
    child_environ,
    find_program,
)
from memsearch.pipeline.summarizers.openai_api import OpenAISummarizer
from memsearch.pipeline.summarizers.prompt import Prompt, agent_name
from memsearch.pipeline.types import Summarizer, Summary
from memsearch.sources.base import Turn

if TYPE_CHECKING:
    from memsearch.config.paths import Home
    from memsearch.config.schema import Summarize
    from memsearch.config.settings import Settings

#: Seconds for which it is believed that an agent's command line works.
FRESH_SECONDS = 1_800.0
#: Seconds after which one that did not work is looked at again.
RETRY_SECONDS = 120.0
#: Seconds that an agent has to print its help or its login.
PROBE_SECONDS = 20.0

#: The key of OpenAI's own endpoint where none is set.
DEFAULT_KEY = "env:OPENAI_API_KEY"

ProviderName = Literal["native", "openai", "extractive"]


@dataclass(frozen=True, slots=True)
class Probe:
    """What is known of an agent's command line.

    ``program`` is its path, "" when there is none; ``fault`` says why it cannot be used, ""
    when it can; ``too_old`` that it does not know what closes it: then it is not even to be
    tried; ``older`` that it is to be closed in its older way (``Agent.older``).
    """

    program: str = ""
    fault: str = ""
    too_old: bool = False
    older: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """The summarisers to ask, best first, and what was passed over for which reason."""

    order: tuple[ProviderName, ...]
    passed_over: tuple[str, ...] = ()


def decide(wanted: Summarize, probe: Probe | None) -> Choice:
    """The summarisers that the settings come to. Pure.

    Args:
        wanted: The settings for the turn's agent.
        probe: What is known of its command line; None when it was not looked at.

    A setting that names one means that one alone. ``auto`` is the agent's own command line
    where it is installed and answers, else an endpoint where one is configured, else
    ``extractive``. Without ``summarize.enabled`` no model is asked.
    """
    if not wanted.enabled:
        return Choice(("extractive",))
    if wanted.provider in ("native", "openai", "extractive"):
        return Choice((wanted.provider,))
    order: list[ProviderName] = []
    passed_over: list[str] = []
    if probe is not None and not probe.fault:
        order.append("native")
    elif probe is not None:
        passed_over.append(probe.fault)
    if wanted.base_url or wanted.api_key:
        order.append("openai")
    order.append("extractive")
    return Choice(tuple(order), tuple(passed_over))


def summarizer_for(
    part: Callable[[object, Callable[[], Probes]], Probes],
    settings: Settings,
    platform: str,
    home: Home,
    environ: Mapping[str, str],
) -> Summarizer:
    """The summariser of a turn of one agent.

    Args:
        part: Gives something that is made once for a key and kept (the engine's).
        settings: The settings in force for the turn's project.
        platform: The turn's agent.
        home: The home.
        environ: The worker's environment.

    Raises:
        MemsearchError: ``CONFIG`` or ``CREDENTIALS`` when the one that the settings name
            cannot be used.
    """
    return choose(
        settings.summarize.for_platform(platform),
        platform,
        home,
        environ,
        probes_of(part),
    )


def who(summarizer: Summarizer, platform: str, own: Summarize) -> tuple[str, str, str]:
    """Who is asked in the end, by which a provider that asked to wait is known. Pure.

    Args:
        summarizer: The one that was chosen.
        platform: The turn's agent, whose own command line it may be.
        own: The settings for that agent, which name the endpoint else.
    """
    where = platform if summarizer.provider == "native" else own.base_url
    return (summarizer.provider, where, summarizer.model)


def probes_of(part: Callable[[object, Callable[[], Probes]], Probes]) -> Probes:
    """What a worker knows of the agents' command lines."""
    return part("summarizer probes", Probes)


def choose(
    wanted: Summarize,
    platform: str,
    home: Home,
    environ: Mapping[str, str],
    probes: Probes,
) -> Summarizer:
    """As ``summarizer_for``, from the settings of one agent."""
    probe = None
    if wanted.enabled and wanted.provider in ("auto", "native"):
        probe = probes.get(platform, home, environ)
    choice = decide(wanted, probe)
    if choice.order == ("native",):
        if probe is None or not probe.program or probe.too_old:
            raise MemsearchError(
                probe.fault if probe is not None else f"{agent_name(platform)} is not known",
                kind=ErrorClass.CONFIG,
                hint="install a new one, or set summarize.provider",
            )
        return _native(wanted, platform, probe, home, environ, probes)
    made: list[Summarizer] = []
    passed_over = list(choice.passed_over)
    for name in choice.order:
        if name == "native":
            assert probe is not None
            made.append(_native(wanted, platform, probe, home, environ, probes))
        elif name == "openai":
            try:
                made.append(_openai(wanted, home, environ))
            except MemsearchError as error:
                if choice.order == ("openai",):
                    raise
                passed_over.append(str(error))
        else:
            made.append(ExtractiveSummarizer())
    if len(made) == 1 and not passed_over:
        return made[0]
    return FirstOf(made, tuple(passed_over), lambda fault: probes.failed(platform, fault))


def _native(
    wanted: Summarize,
    platform: str,
    probe: Probe,
    home: Home,
    environ: Mapping[str, str],
    probes: Probes,
) -> NativeSummarizer:
    # A model that was set beside an endpoint is that endpoint's, not the agent's.
    model = "" if wanted.provider == "auto" and wanted.base_url else wanted.model

    def make() -> NativeSummarizer:
        return NativeSummarizer(
            platform,
            probe.program,
            home=home,
            environ=environ,
            model=model,
            max_input_chars=wanted.max_input_chars,
            older=probe.older,
        )

    key = (platform, probe.program, probe.older, model, wanted.max_input_chars)
    return probes.kept(key, make)


def _openai(wanted: Summarize, home: Home, environ: Mapping[str, str]) -> OpenAISummarizer:
    key = wanted.api_key
    if not key and not wanted.base_url:
        key = DEFAULT_KEY  # OpenAI's own endpoint was asked for by name
    return OpenAISummarizer(
        model=wanted.model,
        base_url=wanted.base_url,
        api_key=resolve_secret(key, home, environ),
        max_input_chars=wanted.max_input_chars,
    )


class FirstOf:
    """What ``auto`` came to: the first that can be used, the others behind it.

    A command line that turns out to be logged out or gone is passed over for this turn and
    the next ones; every other failure is the turn's own and is tried again by the log.

    Args:
        choices: Best first; the last one needs nothing.
        passed_over: What was passed over before, in words for ``status``.
        failed: Told when the first is passed over.
    """

    def __init__(
        self,
        choices: list[Summarizer],
        passed_over: tuple[str, ...],
        failed: Callable[[str], None],
    ) -> None:
        self._choices = choices
        self._failed = failed
        self.provider = choices[0].provider
        self.model = choices[0].model
        #: What was passed over, in words for ``status``.
        self.passed_over = passed_over

    def estimate(self, turn: Turn) -> int:
        """What the one that is asked first is likely to cost."""
        return self._choices[0].estimate(turn)

    def summarize(self, turn: Turn, *, timeout: float, stop: threading.Event) -> Summary:
        """Notes of one turn; see ``Summarizer``."""
        try:
            return self._choices[0].summarize(turn, timeout=timeout, stop=stop)
        except MemsearchError as error:
            return self._next(error).summarize(turn, timeout=timeout, stop=stop)

    def cost_of(self, asked: Prompt) -> int:
        """See ``Summarizer``."""
        return self._choices[0].cost_of(asked)

    def answer_to(
        self, asked: Prompt, *, most: int, timeout: float, stop: threading.Event
    ) -> Summary | None:
        """See ``Summarizer``."""
        try:
            return self._choices[0].answer_to(asked, most=most, timeout=timeout, stop=stop)
        except MemsearchError as error:
            other = self._next(error)
            return other.answer_to(asked, most=most, timeout=timeout, stop=stop)

    def _next(self, error: MemsearchError) -> Summarizer:
        """The one behind the first, which turned out to be unusable; else the error again."""
        first, others = self._choices[0], self._choices[1:]
        gone = error.kind in (ErrorClass.CREDENTIALS, ErrorClass.CONFIG)
        if first.provider != "native" or not gone or not others:
            raise error
        self._failed(error.message)
        self.passed_over = (*self.passed_over, error.message)
        self._choices = others
        self.provider, self.model = others[0].provider, others[0].model
        return others[0]


class Probes:
    """What is known of the agents' command lines; kept by a worker, safe between threads.

    Args:
        clock: Seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str, tuple[float, Probe]] = {}
        self._kept: dict[object, NativeSummarizer] = {}
        self._lock = threading.Lock()

    def get(self, platform: str, home: Home, environ: Mapping[str, str]) -> Probe:
        """What is known of an agent's command line, looked at anew when that is old."""
        with self._lock:
            known = self._known.get(platform)
            if known is None or self._clock() - known[0] >= _lifetime(known[1]):
                known = (self._clock(), probe(platform, home, environ))
                self._known[platform] = known
            return known[1]

    def kept(self, key: object, make: Callable[[], NativeSummarizer]) -> NativeSummarizer:
        """The summariser of a key, made once: it remembers which model the agent knows."""
        with self._lock:
            if key not in self._kept:
                self._kept[key] = make()
            return self._kept[key]

    def failed(self, platform: str, fault: str) -> None:
        """Take a command line for unusable, since a call has shown it."""
        with self._lock:
            _, known = self._known.get(platform, (0.0, Probe()))
            self._known[platform] = (self._clock(), Probe(known.program, fault))

    def faults(self) -> dict[str, str]:
        """Platform → why its command line is passed over."""
        with self._lock:
            return {name: found.fault for name, (_, found) in self._known.items() if found.fault}


def _lifetime(found: Probe) -> float:
    return RETRY_SECONDS if found.fault else FRESH_SECONDS


def probe(platform: str, home: Home, environ: Mapping[str, str]) -> Probe:
    """Look whether an agent's command line is there, answers, can be closed, is logged in.

    Args:
        platform: The agent.
        home: The home, whose ``run/`` holds the working directory.
        environ: The worker's environment.
    """
    name = f"{agent_name(platform)}'s command line"
    agent = AGENTS.get(platform)
    if agent is None:
        return Probe(fault=f"{name} is not known")
    program = find_program(agent.program, environ)
    if program is None:
        return Probe(fault=f"{name} ({agent.program}) is not installed")
    cwd = os.path.join(home.run, CWD_NAME)
    os.makedirs(cwd, mode=0o700, exist_ok=True)
    env = child_environ(environ, agent.environ(Prompt(system="", user="")))

    def ask(arguments: tuple[str, ...]) -> processes.Ended | None:
        try:
            return processes.run(
                [program, *arguments],
                env=env,
                cwd=cwd,
                timeout=PROBE_SECONDS,
                stop=threading.Event(),
            )
        except OSError:
            return None

    helped = ask(agent.help)
    if helped is None or helped.status != 0 or helped.why != "exit":
        return Probe(program, f"{name} ({program}) does not answer")
    # Releases of OpenCode print their help there.
    printed = helped.out + helped.err
    missing = [text for text in agent.needs if text not in printed]
    older = bool(missing) and agent.older is not None
    older = older and all(text in printed for text in agent.older_needs)
    if missing and not older:
        fault = f"{name} ({program}) is too old: it lacks {', '.join(missing)}"
        return Probe(program, fault, too_old=True)
    # Only where the command exists: an older one would take it for a prompt.
    if agent.login and re.search(rf"^ +{re.escape(agent.login[0])}\b", helped.out, re.M):
        login = ask(agent.login)
        if login is None or login.status != 0:
            return Probe(program, f"{name} is not logged in", older=older)
    return Probe(program, older=older)
