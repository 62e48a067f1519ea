"""The worker's log file: JSON, one line an event, rotated, without text of any conversation."""

from __future__ import annotations

import logging
import logging.handlers
import os
import sys
from collections.abc import Callable

import structlog

from memsearch.config.paths import Home
from memsearch.pipeline.redact import excerpt

#: Bytes after which the log file is rotated.
MAX_BYTES = 5_000_000
#: Rotated files that are kept.
KEEP_FILES = 3
#: Characters of one fact of an event.
MAX_FACT_CHARS = 4_000


class _PrivateRotatingHandler(logging.handlers.RotatingFileHandler):
    """Rotated files are private to the user whatever the umask.

    What the disk does not take is said on stderr, once until it does again.
    """

    _full = _failed = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        self._failed = False
        super().emit(record)
        self._full = self._failed

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Tell of a line that could not be written; logging itself prints a stack for each."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        self._failed = True
        if not self._full and sys.stderr is not None:
            sys.stderr.write(f"{self.baseFilename} cannot be written: {error.strerror}\n")

    def _open(self):  # type: ignore[no-untyped-def]
        stream = super()._open()
        os.chmod(self.baseFilename, 0o600)
        return stream


def open_log(home: Home, *, echo: bool, debug: bool = False) -> Callable[..., None]:
    """Set logging up for a worker.

    Args:
        home: The log lies in ``logs/worker.log``.
        echo: Also print each event to stderr, for ``--foreground`` on a terminal.
        debug: Also write what ran, not only what happened.

    Returns:
        ``note(event, level="info", **facts)``.
    """
    os.makedirs(home.logs, mode=0o700, exist_ok=True)
    handlers: list[logging.Handler] = [
        _PrivateRotatingHandler(
            os.path.join(home.logs, "worker.log"),
            maxBytes=MAX_BYTES,
            backupCount=KEEP_FILES,
            encoding="utf-8",
        )
    ]
    if echo:
        handlers.append(logging.StreamHandler(sys.stderr))
    chain: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderers: list[structlog.typing.Processor] = [
        structlog.processors.JSONRenderer(ensure_ascii=False),
        _Plain(),
    ]
    for handler, renderer in zip(handlers, renderers, strict=False):
        handler.setFormatter(
            structlog.stdlib.ProcessorFormatter(
                foreign_pre_chain=chain,
                processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
            )
        )
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(logging.WARNING)
    ours = logging.getLogger("memsearch")
    ours.setLevel(logging.DEBUG if debug else logging.INFO)
    # Huey writes a line for each task and quotes its arguments; ours say it better.
    logging.getLogger("huey").setLevel(logging.ERROR)
    structlog.configure(
        processors=[*chain, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    logger = structlog.stdlib.get_logger("memsearch.worker")

    def note(event: str, level: str = "info", **facts: object) -> None:
        said = {name: _shown(value) for name, value in facts.items() if value is not None}
        getattr(logger, level)(event, **said)

    return note


def _shown(value: object) -> object:
    """A fact as it may be written down: what failed may quote what it failed on."""
    return excerpt(value, MAX_FACT_CHARS) if isinstance(value, str) else value


class _Plain:
    """An event as a line for a terminal."""

    def __call__(self, logger: object, method: str, event: structlog.typing.EventDict) -> str:
        del logger, method
        facts = " ".join(
            f"{key}={value}"
            for key, value in event.items()
            if key not in ("event", "timestamp", "level")
        )
        time = str(event.get("timestamp", ""))[11:19]
        return f"{time} {event.get('level', ''):<7} {event.get('event', '')} {facts}".rstrip()
