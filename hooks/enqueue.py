"""``memsearch enqueue``: what the agents' hooks run. It stores a pointer and returns.

An agent waits for this process at every turn, so it reads standard input, commits one
transaction with ``sqlite3``, prints ``{}`` and leaves. No model, no network, no import that
costs: not even ``argparse``, ``pathlib``, ``tempfile`` or ``uuid`` (a test counts them).
What it stores are pointers to the conversation, never the conversation, except the agent's
last message, which a transcript may not hold yet.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import sqlite3
import sys
import time

from memsearch.config import statedb
from memsearch.config.paths import AGENT_VARIABLES, Home

TYPE_CHECKING = False  # typing costs an import; type checkers know this name
if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds that a busy database is tried before the payload goes to the spool. Two agents
#: kill a SessionEnd hook after 1 to 1.5 s.
BUSY_BOUND_SECONDS = 0.6
#: Seconds that the hooks before it are waited for. Where a hundred come at once, to spool takes
#: less than to wait, and a living worker sweeps the spool several times a second.
LINE_BOUND_SECONDS = 0.1
#: Seconds between two tries, growing from the first to the second. SQLite's own handler
#: sleeps up to 0.1 s, which is what makes a hundred hooks at once slow.
RETRY_SECONDS = (0.0005, 0.003)
#: Seconds that a caller has to complete the JSON object on standard input.
STDIN_BOUND_SECONDS = 30.0
#: Bytes of input that are read at the most.
MAX_INPUT_BYTES = 64 * 1024 * 1024
#: Characters of a pointer (an id, a path) that are believed at the most.
MAX_POINTER_CHARS = 4096
#: Characters of the agent's last message that are kept: a turn keeps 40,000 of one text, and the
#: rest shows the capture stage whether a secret lies across that cut.
MAX_MESSAGE_CHARS = 42_000

PLATFORMS = ("claude-code", "codex", "openclaw", "opencode")

#: Keys of the pointers in a hook's payload, by what they mean, first found wins.
_KEYS = {
    "session": ("session_id", "sessionId", "sessionID"),
    "turn": ("prompt_id", "turn_id", "turnId", "message_id"),
    "path": ("transcript_path", "rollout_path", "db_path"),
    "cwd": ("cwd", "directory", "workspace_dir"),
    "event": ("hook_event_name", "event"),
    "reason": ("reason", "source"),
    "agent": ("agent_id", "agentId"),
}

HELP = """Usage: memsearch enqueue --platform PLATFORM [--event NAME] [--strict]

Take note of a finished turn. For hooks: reads the hook's JSON object from standard
input, stores where the turn lies, prints {} and returns. A worker does the rest.

  --platform PLATFORM  claude-code, codex, openclaw or opencode
  --event NAME         the hook's event, where its JSON does not name it
  --strict             exit 2 on malformed input (a hook always exits 0)

Example:
  echo '{"session_id": "…", "transcript_path": "…", "cwd": "…"}' \\
    | memsearch enqueue --platform claude-code

With MEMSEARCH_DISABLE or MEMSEARCH_INTERNAL set it does nothing.
"""


class MalformedError(Exception):
    """The input is not a hook's payload; the message says why."""


def main(argv: list[str]) -> int:
    """Run the command.

    Args:
        argv: The arguments after ``enqueue``.

    Returns:
        The exit code: 0, or 2 for wrong usage and, with ``--strict``, malformed input.
    """
    if "--help" in argv or "-h" in argv:
        sys.stdout.write(HELP)
        return 0
    try:
        platform, event, strict = parse_arguments(argv)
    except MalformedError as error:
        sys.stderr.write(f"memsearch enqueue: {error}\n")
        # A hook that is wired wrongly must not stop an agent; a person sees the reason.
        print_done()
        return 2 if "--strict" in argv or sys.stdin.isatty() else 0
    environ = dict(os.environ)
    if environ.get("MEMSEARCH_INTERNAL") or environ.get("MEMSEARCH_DISABLE"):
        print_done()
        return 0
    started = time.time()
    home = Home.from_env(environ)
    try:
        raw = read_object(0)
        data, message = pointers(raw, platform, event, environ)
    except MalformedError as error:
        report(home, "malformed input", str(error), platform)
        print_done()
        return 2 if strict else 0
    try:
        make_home(home)
        store(home, data, message, started)
    except OSError as error:
        report(home, "not stored", str(error), platform)
        print_done()
        return 2 if strict else 0
    print_done()
    if autostart(home, environ):
        try:
            from memsearch.hooks.spawn import start_worker

            start_worker(home, environ)
        except OSError as error:
            report(home, "no worker could be started", str(error), platform)
    return 0


def print_done() -> None:
    """Tell the agent that there is nothing to do: an empty JSON object."""
    try:
        os.write(1, b"{}\n")
    except OSError:
        return  # the agent went away; the turn is stored all the same


def parse_arguments(argv: list[str]) -> tuple[str, str, bool]:
    """``(platform, event, strict)`` of the command line."""
    values, strict = read_options(argv, ("--platform", "--event"), "--strict")
    if values["--platform"] not in PLATFORMS:
        raise MalformedError(
            "--platform {!r} is not one of {}".format(values["--platform"], ", ".join(PLATFORMS))
        )
    return values["--platform"], values["--event"], strict


def read_options(argv: list[str], names: tuple[str, ...], flag: str) -> tuple[dict[str, str], bool]:
    """A hook's command line, without ``argparse``, which costs an import.

    Args:
        argv: The arguments after the command.
        names: Options that take a value, as ``--name value`` or ``--name=value``.
        flag: The one option that takes none.

    Returns:
        The values by option, empty where not given, and whether the flag was given.

    Raises:
        MalformedError: It is not understood; the message says why.
    """
    values = dict.fromkeys(names, "")
    given = False
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word == flag:
            given = True
        elif name in values:
            if not equals:
                if not rest:
                    raise MalformedError(f"{name} needs a value; --help says more")
                value = rest.pop(0)
            values[name] = value
        else:
            raise MalformedError(f"unknown argument {word!r}; --help says more")
    return values, given


def read_object(fd: int) -> dict[str, object]:
    """The JSON object on a descriptor, read until it is complete or the input ends.

    Some agents keep the pipe open after the object, so the end of the input is not waited for.
    """
    if os.isatty(fd):
        raise MalformedError("no input: it reads a hook's JSON object from standard input")
    deadline = time.monotonic() + STDIN_BOUND_SECONDS
    parts: list[bytes] = []
    size = 0
    ended = False
    while not ended:
        try:
            ready = select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0]
            if not ready:
                break
            block = os.read(fd, 1 << 20)
        except OSError as error:
            raise MalformedError(f"standard input cannot be read: {error}") from error
        ended = not block
        parts.append(block)
        size += len(block)
        if size > MAX_INPUT_BYTES:
            raise MalformedError(f"the input is larger than {MAX_INPUT_BYTES} bytes")
        if not ended and not block.rstrip().endswith(b"}"):
            continue
        text = b"".join(parts).decode("utf-8-sig", "replace").strip()
        if not text:
            continue
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            if ended:
                raise MalformedError(f"the input is not JSON: {error}") from error
            continue
        if not isinstance(value, dict):
            raise MalformedError("the input is JSON, but not an object")
        return value
    if size:
        raise MalformedError("the JSON object on standard input is not complete")
    raise MalformedError("standard input is empty")


def pointers(
    raw: dict[str, object], platform: str, event: str, environ: dict[str, str]
) -> tuple[dict[str, object], str | None]:
    """What is stored of a hook's payload: pointers, and the agent's last message.

    Args:
        raw: The hook's JSON object.
        platform: The agent.
        event: The event's name from the command line; the payload's own wins.
        environ: The hook's environment.

    Returns:
        The data of the ``HookReceived`` event, and the last message or None.

    Raises:
        MalformedError: Nothing in it says where the turn lies.
    """
    data: dict[str, object] = {"platform": platform}
    for meaning, keys in _KEYS.items():
        for key in keys:
            value = raw.get(key)
            if isinstance(value, str) and value and len(value) <= MAX_POINTER_CHARS:
                data[meaning] = value.replace("\0", "")
                break
    if event and "event" not in data:
        data["event"] = event
    if "session" not in data and "path" not in data:
        raise MalformedError("neither a session_id nor a transcript_path is in the input")
    if raw.get("stop_hook_active") is True:
        data["stop_hook_active"] = True
    data["env"] = {name: environ[name] for name in AGENT_VARIABLES if environ.get(name)}
    message = raw.get("last_assistant_message")
    if isinstance(message, str) and message:
        # A lone surrogate (half of an emoji, cut by the agent) is no text to SQLite.
        kept = message[:MAX_MESSAGE_CHARS].encode("utf-8", "replace").decode("utf-8")
        return data, kept.replace("\0", "")
    return data, None


def make_home(home: Home) -> None:
    """Make the folders that a hook needs, private to the user whatever the umask."""
    for folder in (home.root, home.run):
        if not os.path.isdir(folder):
            os.makedirs(folder, mode=0o700, exist_ok=True)
            os.chmod(folder, 0o700)


def store(home: Home, data: dict[str, object], message: str | None, now: float) -> str:
    """Commit the hook to the log, or put it into the spool and say why.

    Returns:
        ``log`` or ``spool``.

    Raises:
        OSError: Neither took it.
    """
    hook = statedb.new_id()
    record: dict[str, object] = {"id": hook, "at": statedb.utc_now(now)}
    record |= {"data": data, "message": message}
    try:
        commit(home, record)
    except (sqlite3.Error, OSError) as error:
        record["why"] = str(error)
        spool(home, record)
        report(home, "the turn waits in the spool", str(error), str(data["platform"]))
        return "spool"
    return "log"


def commit(home: Home, record: dict[str, object]) -> None:
    """Write one hook's event, its last message, its projection row and its task.

    Args:
        home: Whose log.
        record: ``id`` (32 hex digits), ``at`` (UTC), ``data`` and ``message``, as in the spool.

    Raises:
        sqlite3.Error: The database stayed busy, or cannot be written.
    """
    deadline = time.monotonic() + BUSY_BOUND_SECONDS
    path = home.state_db
    place = stand_in_line(home, time.monotonic() + LINE_BOUND_SECONDS)
    try:
        before = _inode(path)
        db = sqlite3.connect(path, timeout=0, isolation_level=None)
        _patiently(deadline, lambda: prepare(db, path))
        _patiently(deadline, lambda: db.execute("BEGIN IMMEDIATE"))
        if statedb.user_version(db) == 0:
            statedb.create_schema(db)
        statedb.insert_hook(db, record)
        _patiently(deadline, lambda: db.execute("COMMIT"))
        if before and _inode(path) != before:
            # The caller spools it; taken in twice, by the same id, it is one.
            raise sqlite3.OperationalError(f"{path} was put aside while it was written")
        # Not closed: the last close of a database checkpoints it, and the process ends anyway.
    finally:
        if place is not None:
            os.close(place)


def _inode(path: str) -> int:
    """The file behind a path, 0 where there is none."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


class _TimeIsUpError(Exception):
    """Raised by the alarm, out of a system call that waits."""


def stand_in_line(home: Home, deadline: float) -> int | None:
    """Wait asleep for the hooks that came before, instead of trying the database over and over.

    SQLite's lock has no queue. A hundred hooks that all try it every few milliseconds take the
    processors from the one that holds it; in line, the kernel wakes the next. Whoever is not
    in this line, such as workers, is met at the database.

    Args:
        home: Whose log.
        deadline: How long to wait for a place, in seconds of ``time.monotonic``.

    Returns:
        A descriptor to close when the database was written, or None where there is no line.

    Raises:
        sqlite3.OperationalError: It took too long.
    """
    try:
        place = os.open(home.hooks_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None  # the database may be writable all the same, and it has its own lock
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return place
    except OSError:
        pass  # somebody is before us, or the file system knows no such lock
    import signal

    def ring(_signal: int, _frame: object) -> None:
        raise _TimeIsUpError

    before = signal.signal(signal.SIGALRM, ring)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, max(0.001, deadline - time.monotonic()))
            fcntl.flock(place, fcntl.LOCK_EX)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except _TimeIsUpError:
        os.close(place)
        raise sqlite3.OperationalError("other hooks are at the database") from None
    except OSError:
        os.close(place)
        return None
    finally:
        signal.signal(signal.SIGALRM, before)
    return place


def prepare(db: sqlite3.Connection, path: str) -> None:
    """Set what a writing connection needs; a new file becomes a WAL database, mode 0600."""
    version = statedb.user_version(db)
    if version > statedb.SCHEMA_VERSION:
        raise sqlite3.DatabaseError(f"{path} was written by a newer memsearch (layout {version})")
    if version == 0:
        os.chmod(path, 0o600)
        db.execute("PRAGMA journal_mode = WAL").fetchone()
    db.execute("PRAGMA synchronous = FULL")
    # A page that this write gives up may hold a message.
    db.execute("PRAGMA secure_delete = ON").fetchone()


def _patiently(deadline: float, step: Callable[[], object]) -> None:
    """Run a step again while the database is busy, until the deadline."""
    wait, most = RETRY_SECONDS
    while True:
        try:
            step()
            return
        except sqlite3.OperationalError as error:
            text = str(error)
            if "locked" not in text and "busy" not in text:
                raise
            if time.monotonic() >= deadline:
                raise
        time.sleep(wait)
        wait = min(wait * 1.5, most)


def spool(home: Home, record: dict[str, object]) -> None:
    """Put a hook into ``spool/``, whole or not at all; workers sweep it into the log."""
    os.makedirs(home.spool, mode=0o700, exist_ok=True)
    name = "{}-{}.json".format(str(record["at"]).replace(":", ""), record["id"])
    temporary = os.path.join(home.spool, "." + name)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        # ASCII: a path that is not UTF-8 comes as surrogates, which no encoding takes.
        body = json.dumps(record).encode("ascii")
        while body:
            body = body[os.write(fd, body) :]
        os.fsync(fd)
    except OSError:
        os.unlink(temporary)
        raise
    finally:
        os.close(fd)
    os.rename(temporary, os.path.join(home.spool, name))


def report(home: Home, what: str, why: str, platform: str) -> None:
    """Say a fault on stderr and in ``logs/hooks.log``; a log that cannot be written is no fault."""
    sys.stderr.write("memsearch enqueue: {}{}\n".format(what, ": " + why if why else ""))
    line = json.dumps(
        {
            "timestamp": statedb.utc_now(),
            "level": "warning",
            "event": "enqueue: " + what,
            "platform": platform,
            "reason": why[:500],
        }
    )
    try:
        os.makedirs(home.logs, mode=0o700, exist_ok=True)
        path = os.path.join(home.logs, "hooks.log")
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(fd, line.encode() + b"\n")
        finally:
            os.close(fd)
    except OSError as error:
        sys.stderr.write(f"memsearch enqueue: the log cannot be written: {error}\n")


def autostart(home: Home, environ: dict[str, str]) -> bool:
    """Whether a worker may be started: ``workers.autostart``, read without cost where it is unset.

    A broken configuration never stops a capture: the default stands, the worker shows the fault.
    """
    value = environ.get("MEMSEARCH_WORKERS__AUTOSTART")
    if value is not None:
        return value.strip().lower() not in ("false", "0", "no", "off")
    try:
        with open(home.config_toml, "rb") as file:
            body = file.read()
    except OSError:
        return True
    if b"autostart" not in body:
        return True
    import tomllib

    try:
        workers = tomllib.loads(body.decode("utf-8")).get("workers", {})
    except ValueError:
        return True
    return not (isinstance(workers, dict) and workers.get("autostart") is False)
