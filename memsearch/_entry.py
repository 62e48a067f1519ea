"""The ``memsearch`` command: hooks first, so that what an agent waits for imports nothing else."""

from __future__ import annotations

import os
import sys

#: Exit code of a command that Ctrl-C ended: 128 and the number of SIGINT, as shells count.
INTERRUPTED = 130


def main() -> None:
    """Run the command line; what hooks run leaves without the interpreter's own clean-up."""
    open_missing()
    if sys.getfilesystemencoding() != "utf-8" and not sys.flags.utf8_mode:
        # LC_ALL=C with UTF-8 mode switched off: no path with Chinese could be opened.
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, "-P", "-m", "memsearch._entry", *sys.argv[1:]])
    try:
        run(sys.argv[1:])
    except KeyboardInterrupt:  # in mcp, or while a command is still being loaded
        leave(INTERRUPTED)
    except OSError as error:
        import errno

        if error.filename is not None:
            raise
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
            sys.stderr.write(f"error: the output cannot be written: {error.strerror}\n")
        elif error.errno != errno.EPIPE:  # whoever reads it has enough
            raise
        leave(1)


def run(arguments: list[str]) -> None:
    """Run one command; what hooks run does not come back."""
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


def open_missing() -> None:
    """Put ``/dev/null`` where a caller closed standard input, output or errors.

    Python has None for them then, and the next file that is opened gets their number: what is
    printed would go into it.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free: this one
            stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)


def leave(code: int) -> None:
    """End at once: what a hook opened is the operating system's to close."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            continue  # whoever reads it is gone, or its disk is full: an agent goes on
    os._exit(code)


if __name__ == "__main__":
    main()
