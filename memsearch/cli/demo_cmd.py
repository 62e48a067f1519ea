"""``demo``: a recorded session through the real thing, in a world of its own."""

from __future__ import annotations

import glob
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
import unicodedata
from types import FrameType

import click

from memsearch.cli import demo_session, demo_watch, output
from memsearch.cli.demo_place import Place, command
from memsearch.config.errors import ErrorClass, MemsearchError

#: Columns that the demo's own text is wrapped to.
WIDTH = 88
#: Seconds that a hook or a search may take; both take less than one.
COMMAND_SECONDS = 60.0

#: A question, in which language it is put, and a word that its answer must hold.
QUESTIONS = (
    ("why did the mail client give up", "English", "Retry-After"),
    ("备份失败的原因", "Chinese", "磁盘"),
)
#: What each stage does, said once.
MEANING = {
    "capture": "read the transcript, redacted",
    "summarize": "wrote the notes",
    "append": "wrote the journal",
    "chunk": "cut the journal",
    "embed": "turned text into vectors",
    "upsert": "wrote the index",
}


@click.command()
@click.option("--keep", is_flag=True, help="Keep the files, and say where they are.")
def demo(keep: bool) -> None:
    """Drive a recorded session the whole way, in a temporary home.

    Two turns of Claude Code, one in English and one in Chinese, go through the real thing:
    the hook, the worker, the journal, the index, the search. It runs offline, takes some
    seconds and leaves nothing behind; your own memory, workers and agents are not touched.

    \b
    Examples:
      memsearch demo
      memsearch demo --keep     look around afterwards
    """
    screen = Screen()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    place = Place.make(os.environ)
    code, message = 0, ""
    try:
        _tell(screen, place, keep)
    except MemsearchError as error:
        code, message = output.DEGRADED, f"The demo failed: {error}"
    except KeyboardInterrupt:
        code, message = 130, "Stopped."
    except OSError as error:
        code, message = output.DEGRADED, f"The demo failed: {error}"
    finally:
        # A second Ctrl-C must not leave a worker behind.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        failures = place.clean_up(keep=keep)
    screen.end_line()
    for text in filter(None, (message, *failures)):
        for line in text.split("\n"):
            output.note(line)
    if keep:
        screen.say(f"Everything is kept in {place.folder}; look around with")
        screen.say(f"  export MEMSEARCH_HOME='{place.home.root}'; cd '{place.project}'")
    elif not failures:
        screen.say(screen.dim("The temporary home is gone; nothing is left behind."))
    raise SystemExit(code or (output.DEGRADED if failures else output.OK))


def _end(number: int, frame: FrameType | None) -> None:
    """What ends the process ends the demo in order."""
    del number, frame
    raise KeyboardInterrupt


def _tell(screen: Screen, place: Place, keep: bool) -> None:
    """The demo from its first line to its last."""
    fate = "is kept afterwards" if keep else "vanishes afterwards"
    screen.title("memsearch: a recorded session, the whole way")
    screen.text(
        f"Two turns of Claude Code go through the real hook, worker, journal, index and search."
        f" All of it lies in {place.folder} and {fate}. It runs offline; no model writes the"
        f" notes (summarize.provider = extractive), so they are plain: what was asked, what was"
        f" run and edited, how it ended."
    )
    transcript = place.transcript(demo_session.session_id())
    turns = demo_session.load(place.project, transcript)
    chapter = 0
    for turn in turns:
        chapter += 1
        what = "A turn ends, and the agent's Stop hook runs" if chapter == 1 else "The next turn"
        screen.title(f"{chapter}. {what}")
        _quote(screen, "you", turn.asked)
        _quote(screen, "agent", turn.answered)
        with open(transcript, "a", encoding="utf-8") as file:
            file.write(turn.records)
        _hook(screen, place, turn, first=chapter == 1)
    chapter += 1
    screen.title(f"{chapter}. The journal, Markdown in the project")
    _journal(screen, place)
    for question, language, word in QUESTIONS:
        chapter += 1
        screen.title(f"{chapter}. A question in {language}")
        _ask(screen, place, question, word)
    screen.title("Yours, for good")
    screen.text(
        "This was a recording. To have it for your own sessions, in a checkout of memsearch:"
    )
    screen.say("  pipx install .")
    screen.say("  memsearch install claude-code")
    screen.say()


def _quote(screen: Screen, who: str, text: str) -> None:
    first, *more = wrapped(text, WIDTH - 10)
    screen.say(f"  {screen.dim(f'{who:<6}')} {first}")
    for line in more:
        screen.say(f"  {'':<6} {line}")


def _hook(screen: Screen, place: Place, turn: demo_session.RecordedTurn, *, first: bool) -> None:
    """Send a turn's hook, and show what follows from it until the turn can be searched."""
    after = demo_watch.last_event(place.home)
    screen.command("memsearch enqueue --platform claude-code < the hook's JSON")
    answer, seconds = _run(place, ["enqueue", "--platform", "claude-code"], turn.hook)
    screen.say(f"  {answer.strip()}  {screen.dim(f'the agent goes on after {_time(seconds)}')}")
    if first:
        screen.text(
            "The hook has stored where the turn lies and has started the background worker,"
            " which does the rest. A new home begins with some seconds for the embedding model:"
            " it is converted once, and kept.",
        )

    def show(step: demo_watch.Step) -> None:
        notes = [_fact(step)]
        if first and step.stage == "capture":
            notes.append("with the worker's start")
        if first and step.stage in ("chunk", "embed"):
            notes.append("with the model, only this first time" if step.seconds > 1 else "")
        facts = ", ".join(filter(None, notes))
        screen.say(
            f"  {screen.good('✓')} {step.stage:<10}{_time(step.seconds):>8}"
            f"  {MEANING[step.stage]}{screen.dim(f'  ({facts})' if facts else '')}"
        )

    def wait(stage: str) -> None:
        screen.waiting(f"  … {stage}")

    total = demo_watch.follow(place.home, turn.id, after, show, wait)
    screen.say(f"  {screen.bold(f'searchable {_time(total)} after the hook')}")


def _fact(step: demo_watch.Step) -> str:
    """What is worth a word of a stage's event."""
    data = step.data
    if step.stage == "capture":
        return f"{data['items']} steps"
    if step.stage == "summarize":
        return f"{data['bullets']} notes, {data['provider']}"
    if step.stage == "append":
        return os.path.join(".memsearch", "memory", os.path.basename(str(data["path"])))
    if step.stage == "upsert":
        return f"{data.get('new', 0)} new of {data['chunks']} chunks"
    return ""


def _journal(screen: Screen, place: Place) -> None:
    for path in sorted(glob.glob(os.path.join(place.project, ".memsearch", "memory", "*.md"))):
        screen.command(f"cat {os.path.relpath(path, place.project)}")
        with open(path, encoding="utf-8") as file:
            screen.block(file.read())


def _ask(screen: Screen, place: Place, question: str, word: str) -> None:
    screen.command(f'memsearch search "{question}" --top-k 1')
    answer, seconds = _run(place, ["search", question, "--top-k", "1"])
    screen.block(answer)
    screen.say(screen.dim(f"  answered in {_time(seconds)}"))
    if word not in answer:
        raise MemsearchError(
            f"the answer to {question!r} is not the turn that it is about", kind=ErrorClass.BUG
        )


def _run(place: Place, words: list[str], given: str = "") -> tuple[str, float]:
    """Run a command of memsearch as a user or a hook would: its output and its seconds."""
    started = time.monotonic()
    try:
        done = subprocess.run(
            command(*words),
            input=given,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            cwd=place.project,
            env=place.environ,
            timeout=COMMAND_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise MemsearchError(
            f"memsearch {words[0]} does not end", kind=ErrorClass.TIMEOUT
        ) from error
    seconds = time.monotonic() - started
    if done.returncode != 0 or (words[0] == "enqueue" and done.stderr):
        raise MemsearchError(
            f"memsearch {words[0]} ended with code {done.returncode}: {done.stderr.strip()}",
            kind=ErrorClass.BUG,
        )
    return done.stdout, seconds


def wrapped(text: str, columns: int) -> list[str]:
    """A text in lines of at most so many columns: cut at spaces, and between Chinese characters.

    Args:
        text: The text; its own line breaks count as spaces.
        columns: A Chinese character takes two.
    """
    lines = [""]
    room = columns
    for piece in re.findall(r"[\u2e80-\uffef]|[^\s\u2e80-\uffef]+\s*|\s+", text):
        piece = piece.replace("\n", " ")
        width = sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in piece)
        # A full stop at the beginning of a line is what nobody expects.
        closing = unicodedata.category(piece[0]) in ("Po", "Pe", "Pf")
        if len(piece.rstrip()) + (width - len(piece)) > room and lines[-1] and not closing:
            lines[-1] = lines[-1].rstrip()
            lines.append("")
            room = columns
        lines[-1] += piece
        room -= width
    return lines


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


class Screen:
    """Text for a person: in colour on a terminal, plain elsewhere and with ``NO_COLOR``."""

    def __init__(self) -> None:
        self._terminal = sys.stdout.isatty()
        self._colour = self._terminal and not os.environ.get("NO_COLOR")
        self._open = False

    def _style(self, text: str, **style: bool | str) -> str:
        return click.style(text, **style) if self._colour and text else text  # type: ignore[arg-type]

    def bold(self, text: str) -> str:
        return self._style(text, bold=True)

    def dim(self, text: str) -> str:
        return self._style(text, dim=True)

    def good(self, text: str) -> str:
        return self._style(text, fg="green")

    def _write(self, text: str) -> None:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()

    def say(self, text: str = "") -> None:
        self.end_line()
        self._write(text + "\n")

    def title(self, text: str) -> None:
        self.say()
        self.say(self._style(text, bold=True, fg="cyan"))

    def text(self, text: str) -> None:
        for line in textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False):
            self.say(line)

    def command(self, text: str) -> None:
        self.say(f"  {self.dim('$')} {self.bold(text)}")

    def block(self, text: str) -> None:
        """Text that came from elsewhere, set apart, without what would steer a terminal."""
        for line in output.clean(text).strip("\n").split("\n"):
            self.say(f"  {self.dim('│')} {line}".rstrip())

    def waiting(self, text: str) -> None:
        """What is waited for, until the next line takes its place; on a terminal only."""
        if self._terminal:
            self._write(f"\r\x1b[K{self.dim(text)}")
            self._open = True

    def end_line(self) -> None:
        if self._open:
            self._write("\r\x1b[K")
            self._open = False
