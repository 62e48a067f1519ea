"""The failures of memsearch, told apart by what can be done about them.

Every layer raises these, so that the retry decision (``pipeline.retry``) and the
words shown to a person come from one place. No layer raises a bare ``Exception``.
"""

from __future__ import annotations

import enum
import errno


class ErrorClass(enum.StrEnum):
    """What kind of failure it was: the only thing the retry decision looks at."""

    NOT_YET = "not_yet"  # the transcript does not hold the turn yet
    NETWORK = "network"  # no connection, reset, DNS
    TIMEOUT = "timeout"  # a deadline of ours passed
    RATE_LIMIT = "rate_limit"  # 429; ``retry_after`` may say when
    SERVER = "server"  # 5xx, overloaded
    BUSY = "busy"  # somebody else holds a lock
    BAD_ANSWER = "bad_answer"  # an answer that is empty or not what was asked for
    DISK_FULL = "disk_full"
    PERMISSION = "permission"
    INTERRUPTED = "interrupted"  # the worker was killed in the middle; taken up again
    BUDGET = "budget"  # the day's tokens are spent: waits, is no failure
    RULES = "rules"  # the user's rules cannot be read: waits until they can
    BAD_REQUEST = "bad_request"  # 400, too long
    CREDENTIALS = "credentials"  # 401, 403, logged out
    REFUSED = "refused"  # content refused
    BAD_FILE = "bad_file"  # unreadable, gone, unknown shape
    DAMAGED = "damaged"  # a store of ours is broken
    CONFIG = "config"  # a setting that cannot work
    BUG = "bug"  # anything unforeseen


class MemsearchError(Exception):
    """A failure with its kind, in words a user can act on.

    Args:
        message: What happened, to what. One sentence, no trailing period needed.
        kind: How the failure is classified.
        hint: What to do next; empty when there is nothing to do.
        retry_after: Seconds that the other side asked to wait, if it did.
        tokens: Tokens that were spent although it failed (counted by the budget).
    """

    def __init__(
        self,
        message: str,
        *,
        kind: ErrorClass,
        hint: str = "",
        retry_after: float | None = None,
        tokens: int = 0,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.hint = hint
        self.retry_after = retry_after
        self.tokens = tokens
        #: Who was asked, where somebody was; for the usage ledger.
        self.provider = ""
        #: Whether it counts among the tries of what failed; see ``pipeline.engine``.
        self.is_try = True

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


#: What says nothing about the file that was asked for: a disk or a network folder that is away,
#: a machine that is short of something. All of it may end without anybody touching the file.
_PASSING = frozenset(
    {
        *(errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.ETIMEDOUT, errno.EHOSTDOWN),
        *(errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH, errno.ENOLCK, errno.EBUSY),
        *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR, errno.ETXTBSY),
    }
)


def passes(error: OSError) -> bool:
    """Whether an error of the operating system says nothing about the file itself. Pure."""
    return error.errno in _PASSING
