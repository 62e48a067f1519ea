"""memsearch before it is installed: hooks from a checkout, and the set-up in the background.

A plugin comes as a checkout of the whole repository. What hooks run needs only Python's own
library, so it runs from here at once: the turns go into the event log and wait there. The
first session starts the set-up (a virtual environment under MEMSEARCH_HOME, filled by pip
from this checkout); when it is done, its worker captures what waited. After an update of the
plugin the next session makes another one beside it, which then takes its place.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 (an agent's PATH may hold any Python)
    sys.exit(75)

import fcntl
import json
import os
import shutil
import subprocess
import time
import types

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
#: The script beside this one that finds memsearch.
LAUNCHER = "memsearch.sh"
#: What runs without the set-up.
LIGHT = ("enqueue", "context", "hint", "permit")
#: Seconds after a failed set-up before another session tries again.
AGAIN_SECONDS = 600.0
#: Characters of an error that are shown.
MAX_SHOWN = 300
#: Beside each other in MEMSEARCH_HOME: the link to the environment in use, and all of them.
VENV, VENVS = "venv", "venvs"
#: In an environment: the version that it holds. The script beside this one reads it too.
STAMP = "version"


def lay_out() -> None:
    """Make the packages of the checkout importable under the name that they install as."""
    package = types.ModuleType("memsearch")
    package.__path__ = [os.path.join(ROOT, "memsearch"), ROOT]
    package.__version__ = "0"  # type: ignore[attr-defined]
    sys.modules["memsearch"] = package


def main(argv: list[str]) -> int:
    """Run a light command, or the set-up itself."""
    lay_out()
    from memsearch.config.paths import Home

    home = Home.from_env(os.environ)
    if argv[:1] == ["--set-up"]:
        return set_up(home.root)
    if argv[:1] == ["--renew"]:
        if not (os.environ.get("MEMSEARCH_INTERNAL") or os.environ.get("MEMSEARCH_DISABLE")):
            renew(home.root, home.logs)
        return 0
    if not argv or argv[0] not in LIGHT:
        sys.stderr.write(
            f"memsearch is not set up yet; {log_path(home.logs)} tells how far it is\n"
        )
        return 1
    # A worker needs the dependencies that are not there yet.
    os.environ["MEMSEARCH_WORKERS__AUTOSTART"] = "false"
    if argv[0] == "context" and not (
        os.environ.get("MEMSEARCH_INTERNAL") or os.environ.get("MEMSEARCH_DISABLE")
    ):
        return session_start(argv[1:], home.root, home.logs)
    from importlib import import_module

    return int(import_module(f"memsearch.hooks.{argv[0]}").main(argv[1:]))


def session_start(argv: list[str], root: str, logs: str) -> int:
    """The context of a session, with a word to the user about the set-up."""
    from memsearch.hooks import reply

    said = begin(root, logs)
    plain = reply.answer

    def answer(options: reply.Options, event: str, context: str, message: str) -> bytes:
        return plain(options, event, context, f"{said} {message}".strip())

    reply.answer = answer
    from memsearch.hooks.context import main as run

    return run(argv)


def renew(root: str, logs: str) -> None:
    """Start the set-up anew if this checkout is newer than what it made the last time."""
    try:
        with open(os.path.join(root, VENV, STAMP), encoding="utf-8") as file:
            there = file.read().strip()
    except OSError:
        there = ""
    if is_newer(own_version(), there):
        begin(root, logs)


def is_newer(version: str, there: str) -> bool:
    """Whether one version comes after another; two agents' plugins may be of two versions.

    Args:
        version: Numbers with dots.
        there: The same; anything else is older than all.
    """
    try:
        return numbers(version) > numbers(there)
    except ValueError:
        return version != there


def numbers(version: str) -> list[int]:
    """A version as numbers that can be compared."""
    return [int(part) for part in version.split(".")]


def own_version() -> str:
    """The version of this checkout, without importing it."""
    with open(os.path.join(ROOT, "memsearch", "__init__.py"), encoding="utf-8") as file:
        for line in file:
            name, _, value = line.partition(" = ")
            if name == "__version__":
                return value.strip().strip('"')
    return ""


def begin(root: str, logs: str) -> str:
    """Start the set-up unless it runs or has just failed; what the user is told."""
    log = log_path(logs)
    state = read_state(root)
    failed_at = state.get("failed_at")
    failed_at = failed_at if isinstance(failed_at, float) else 0.0
    if time.time() - failed_at < AGAIN_SECONDS:
        return f"memsearch could not be set up: {state.get('error', '')} (see {log})."
    for folder in (root, os.path.join(root, "run"), logs):
        os.makedirs(folder, mode=0o700, exist_ok=True)
    with open(os.path.join(root, "run", "setup.lock"), "a", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return f"memsearch is still being set up in the background (see {log})."
    with open(log, "ab") as out:
        subprocess.Popen(
            [sys.executable, "-I", os.path.abspath(__file__), "--set-up"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            close_fds=True,
            cwd="/",
        )
    return (
        "memsearch is being set up in the background, which takes some minutes the first"
        f" time (see {log}). What happens meanwhile is kept and remembered afterwards."
    )


def set_up(root: str) -> int:
    """Make the virtual environment, install this checkout into it, write the command down."""
    lock = open(os.path.join(root, "run", "setup.lock"), "a", encoding="utf-8")  # noqa: SIM115
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return 0  # another session was faster
    from memsearch.config.paths import write_atomic

    # Beside the one in use, if there is one: sessions and a worker run from it.
    venvs = os.path.join(root, VENVS)
    venv = os.path.join(venvs, f"{own_version()}-{int(time.time())}")
    python = os.path.join(venv, "bin", "python")
    os.makedirs(venvs, mode=0o700, exist_ok=True)
    # A build leaves files behind, and the agent's copy of the plugin may be read-only.
    source = os.path.join(root, "run", "source")
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".git", "tests", "__pycache__"))
    steps = (
        [sys.executable, "-I", "-m", "venv", "--clear", venv],
        [python, "-I", "-m", "pip", "install", "--disable-pip-version-check", "--quiet", source],
        [os.path.join(venv, "bin", "memsearch"), "--version"],
    )
    for step in steps:
        tell(time.strftime("%Y-%m-%d %H:%M:%S"), *step)
        done = subprocess.run(step, capture_output=True, text=True, errors="replace", check=False)
        tell(done.stdout, done.stderr)
        if done.returncode != 0:
            lines = (done.stderr or done.stdout).strip().splitlines() or ["no reason was given"]
            state = {"failed_at": time.time(), "error": lines[-1][:MAX_SHOWN]}
            write_atomic(state_path(root), json.dumps(state).encode())
            shutil.rmtree(venv, ignore_errors=True)
            return 1
    shutil.rmtree(source, ignore_errors=True)
    write_atomic(os.path.join(venv, STAMP), f"{own_version()}\n".encode())
    before = put_in_place(root, venv)
    command = os.path.join(root, VENV, "bin", "memsearch")
    if os.path.exists(state_path(root)):
        os.unlink(state_path(root))
    agents = os.path.join(root, "agents")
    os.makedirs(agents, mode=0o700, exist_ok=True)
    # What an agent starts without knowing where its plugin lies (Codex its MCP servers).
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), LAUNCHER), "rb") as file:
        write_atomic(os.path.join(agents, LAUNCHER), file.read(), 0o755)
    write_atomic(os.path.join(agents, "command"), f"{command}\n".encode())
    tell("ready; the worker captures what waited")
    # Without the agent's own variables: a worker outlives the session.
    subprocess.run([command, "workers", "restart" if before else "start"], check=False)
    # The one before stays for the sessions that still run from it.
    for name in os.listdir(venvs):
        if os.path.join(venvs, name) not in (venv, before):
            shutil.rmtree(os.path.join(venvs, name), ignore_errors=True)
    return 0


def put_in_place(root: str, venv: str) -> str:
    """Let the link point to an environment; the one that it pointed to before, else ""."""
    link = os.path.join(root, VENV)
    before = os.path.realpath(link) if os.path.lexists(link) else ""
    if before and not os.path.islink(link):
        before = os.path.join(root, VENVS, "first")
        os.rename(link, before)
    aside = f"{link}.{os.getpid()}"
    os.symlink(os.path.join(VENVS, os.path.basename(venv)), aside)
    os.replace(aside, link)
    return before


def tell(*words: str) -> None:
    """A line in the log, which is this process's standard output."""
    sys.stdout.write(" ".join(words).strip() + "\n")
    sys.stdout.flush()


def state_path(root: str) -> str:
    """Where a failed set-up is written down."""
    return os.path.join(root, "run", "setup.json")


def log_path(logs: str) -> str:
    """The set-up's log."""
    return os.path.join(logs, "setup.log")


def read_state(root: str) -> dict[str, object]:
    """What the last set-up left; empty when it left nothing."""
    try:
        with open(state_path(root), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
