"""What a failed call to an OpenAI-compatible endpoint means for memsearch.

One place for embedders and summarisers, so that the same answer of a provider is retried,
given up or shown alike, whichever stage met it. Pure: nothing here sends or waits.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from memsearch.config.errors import ErrorClass, MemsearchError

#: Longest piece of a provider's own words that is kept in a message, in characters.
MAX_DETAIL_CHARS = 400

#: ``error.code`` or ``error.type`` of a 429 that says the account is spent. Waiting the
#: usual minutes cannot help, so these are told apart from a real rate limit.
SPENT_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})

#: ``error.code`` or ``error.type`` of an answer that refuses the content itself.
REFUSED_CODES = frozenset({"content_filter", "content_policy_violation", "responsible_ai_policy"})

# Google's compatible endpoint answers a wrong key with 400, not 401.
_BAD_KEY = re.compile(r"api[ _]key not valid|API_KEY_INVALID|invalid[ _]api[ _]key", re.IGNORECASE)
# Keys that a provider repeats in its error text ("Incorrect API key provided: sk-...").
_KEY_SHAPES = re.compile(r"\b(?:sk|pk|pa|jina|gsk|xai|AIza)[-_]?[A-Za-z0-9_\-*.]{8,}")
# Causes of a "connection error" that no second try can mend.
_NOT_CONNECTIVITY = frozenset({"UnsupportedProtocol", "InvalidURL", "LocalProtocolError"})


def retry_after_seconds(headers: Mapping[str, str], now: float) -> float | None:
    """How long the other side asks to be left alone.

    Args:
        headers: Response headers, names in any case.
        now: The present as seconds since the epoch, for the HTTP-date form.

    Returns:
        Seconds, never negative; None when nothing usable was said.

    The forms are those of RFC 9110, section 10.2.3 (delay-seconds or HTTP-date), and the
    ``retry-after-ms`` that OpenAI and Azure send, which is the finer of the two.
    """
    lower = {name.lower(): value.strip() for name, value in headers.items()}
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            delay = float(lower[name]) * unit
        except (KeyError, ValueError):
            continue
        if math.isfinite(delay):
            return max(0.0, delay)
    try:
        when = parsedate_to_datetime(lower["retry-after"])
        return max(0.0, when.timestamp() - now)
    except (KeyError, ValueError, TypeError, OverflowError):
        return None


def classify(
    exc: BaseException,
    *,
    what: str = "the endpoint",
    secret: str = "",
    now: float | None = None,
) -> MemsearchError:
    """Turn an exception of the openai client into ours.

    Args:
        exc: What the call raised; one of ours is handed back as it is.
        what: The subject of the message, for instance ``the embedding endpoint HOST``.
        secret: The key that was used; it is taken out of the message should the
            provider repeat it.
        now: Seconds since the epoch, for a ``Retry-After`` date; the clock when None.

    Returns:
        The error to raise (``raise classify(exc) from exc``).
    """
    if isinstance(exc, MemsearchError):
        return exc
    import openai

    if isinstance(exc, openai.APITimeoutError):
        return MemsearchError(f"{what} did not answer in time", kind=ErrorClass.TIMEOUT)
    if isinstance(exc, openai.APIConnectionError):
        return _connection(exc, what, secret)
    if isinstance(exc, openai.APIStatusError):
        return _status(exc, what, secret, time.time() if now is None else now)
    if isinstance(exc, openai.ContentFilterFinishReasonError):
        return MemsearchError(f"{what} refused the content", kind=ErrorClass.REFUSED)
    if isinstance(
        exc,
        openai.APIResponseValidationError
        | openai.LengthFinishReasonError
        | json.JSONDecodeError
        | UnicodeDecodeError,
    ):
        return MemsearchError(
            f"{what} sent an answer that cannot be read: {_clean(str(exc), secret)}",
            kind=ErrorClass.BAD_ANSWER,
        )
    if isinstance(exc, UnicodeEncodeError):
        return MemsearchError(
            f"the key for {what} holds characters that no HTTP header can carry",
            kind=ErrorClass.CREDENTIALS,
            hint="set the key again, without quotes or blanks around it",
        )
    if isinstance(exc, openai.OpenAIError) and "api_key" in str(exc):
        return MemsearchError(
            f"no key is set for {what}",
            kind=ErrorClass.CREDENTIALS,
            hint="set api_key in the configuration, for instance to env:OPENAI_API_KEY",
        )
    return MemsearchError(
        f"the call to {what} failed: {type(exc).__name__}: {_clean(str(exc), secret)}",
        kind=ErrorClass.BUG,
    )


def _connection(exc: BaseException, what: str, secret: str) -> MemsearchError:
    cause = exc.__cause__
    detail = _clean(str(cause) if cause is not None else str(exc), secret)
    if type(cause).__name__ in _NOT_CONNECTIVITY:
        return MemsearchError(
            f"{what} cannot be called: {detail}",
            kind=ErrorClass.CONFIG,
            hint="look at base_url (it starts with http:// or https://) and at the key",
        )
    return MemsearchError(f"no connection to {what}: {detail}", kind=ErrorClass.NETWORK)


def _status(exc: Any, what: str, secret: str, now: float) -> MemsearchError:
    status: int = exc.status_code
    text, codes = _body(exc.body)
    detail = _clean(text, secret)
    message = f"{what} answered {status}" + (f": {detail}" if detail else "")
    # A provider may ask for a pause with 503 and 529 as well as with 429.
    wait = retry_after_seconds(exc.response.headers, now)

    if codes & REFUSED_CODES:
        return MemsearchError(message, kind=ErrorClass.REFUSED)
    if status == 402 or (status == 429 and codes & SPENT_CODES):
        return MemsearchError(
            message, kind=ErrorClass.CREDENTIALS, hint="the account with the provider is spent"
        )
    if status in (401, 403) or (status == 400 and _BAD_KEY.search(text)):
        return MemsearchError(
            message, kind=ErrorClass.CREDENTIALS, hint="look at api_key and what it may do"
        )
    if status == 429:
        return MemsearchError(message, kind=ErrorClass.RATE_LIMIT, retry_after=wait)
    if status == 408:
        return MemsearchError(message, kind=ErrorClass.TIMEOUT, retry_after=wait)
    # 409 is a lock on the other side (the openai client itself repeats it).
    if status >= 500 or status == 409:
        return MemsearchError(message, kind=ErrorClass.SERVER, retry_after=wait)
    if status in (404, 405):
        return MemsearchError(
            message,
            kind=ErrorClass.CONFIG,
            hint="look at base_url and model: one of them is not there",
        )
    return MemsearchError(message, kind=ErrorClass.BAD_REQUEST)


def _body(body: object) -> tuple[str, set[str]]:
    """The provider's words and its codes, from the shapes that are in use.

    ``{"message", "code", "type"}`` (the client has unwrapped ``error``), Google's list of
    one ``{"error": {…}}``, ``{"detail": …}`` (Voyage, Jina), ``{"message": …}`` or text.
    """
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, Mapping) and isinstance(body.get("error"), Mapping):
        body = body["error"]
    if not isinstance(body, Mapping):
        return ("" if body is None else str(body)), set()
    codes = {str(body[key]) for key in ("code", "type", "status") if body.get(key) is not None}
    for key in ("message", "detail", "error"):
        value = body.get(key)
        if value:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            return text, codes
    return json.dumps(dict(body), ensure_ascii=False, default=str), codes


def _clean(text: str, secret: str) -> str:
    """One line of bounded length without the key."""
    if secret:
        text = text.replace(secret, "[key]")
    text = " ".join(_KEY_SHAPES.sub("[key]", text).split())
    return text if len(text) <= MAX_DETAIL_CHARS else text[: MAX_DETAIL_CHARS - 1] + "…"
