"""The ``memsearch`` command: hooks first, so that what an agent waits for imports nothing else."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line; what hooks run leaves without the interpreter's own clean-up."""
    if sys.getfilesystemencoding() != "utf-8" and not sys.flags.utf8_mode:
        # LC_ALL=C with UTF-8 mode switched off: no path with Chinese could be opened.
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, "-P", "-m", "memsearch._entry", *sys.argv[1:]])
    arguments = sys.argv[1:]
    if arguments and arguments[0] == "enqueue":
        from memsearch.hooks.enqueue import main as enqueue

        leave(enqueue(arguments[1:]))
    if arguments and arguments[0] == "context":
        from memsearch.hooks.context import main as context

        leave(context(arguments[1:]))
    if arguments and arguments[0] == "hint":
        from memsearch.hooks.hint import main as hint

        leave(hint(arguments[1:]))
    if arguments and arguments[0] == "permit":
        from memsearch.hooks.permit import main as permit

        leave(permit(arguments[1:]))
    if arguments == ["mcp"]:
        from memsearch.mcp_front import main as mcp

        mcp()
        return
    from memsearch.cli.main import cli

    cli(prog_name="memsearch")


def leave(code: int) -> None:
    """End at once: what a hook opened is the operating system's to close."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
