"""The ``memsearch`` command: hooks first, so that what an agent waits for imports nothing else."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line; ``enqueue`` leaves without the interpreter's own clean-up."""
    if sys.getfilesystemencoding() != "utf-8" and not sys.flags.utf8_mode:
        # LC_ALL=C with UTF-8 mode switched off: no path with Chinese could be opened.
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, "-P", "-m", "memsearch._entry", *sys.argv[1:]])
    arguments = sys.argv[1:]
    if arguments and arguments[0] == "enqueue":
        from memsearch.hooks.enqueue import main as enqueue

        code = enqueue(arguments[1:])
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    from memsearch.cli.main import cli

    cli(prog_name="memsearch")


if __name__ == "__main__":
    main()
