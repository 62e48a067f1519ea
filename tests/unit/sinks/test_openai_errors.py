"""What each failure of an OpenAI-compatible endpoint is taken for."""

from __future__ import annotations

import json
import sys
from typing import Any

import openai
import pytest

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sinks import openai_errors as oe

# The HTTP library of the installed client: httpx, or its successor in later versions.
http: Any = sys.modules.get("httpx2") or sys.modules["httpx"]

REQUEST = http.Request("POST", "http://endpoint.example/v1/embeddings")
NOW = 1_767_225_600.0  # 2026-01-01 00:00:00 UTC


def failure(status: int, body: Any = None, headers: dict[str, str] | None = None) -> Exception:
    """The exception that the real client makes of an answer."""
    content = body if isinstance(body, str) else json.dumps(body if body is not None else {})
    response = http.Response(status, headers=headers or {}, text=content, request=REQUEST)
    client = openai.OpenAI(api_key="x", base_url="http://endpoint.example/v1")
    try:
        return client._make_status_error_from_response(response)
    finally:
        client.close()


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"RETRY-AFTER": "Thu, 01 Jan 2026 00:01:30 GMT"}, 90.0),
        ({"retry-after": "Wed, 31 Dec 2025 23:59:00 GMT"}, 0.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e999"}, None),
        ({"retry-after": "9", "retry-after-ms": "250"}, 0.25),
        ({"retry-after": "9", "retry-after-ms": "x"}, 9.0),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert oe.retry_after_seconds(headers, NOW) == seconds


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, {"error": {"message": "too long"}}, ErrorClass.BAD_REQUEST),
        (413, "too large", ErrorClass.BAD_REQUEST),
        (422, {"detail": [{"msg": "input"}]}, ErrorClass.BAD_REQUEST),
        (400, [{"error": {"code": 400, "message": "API key not valid."}}], ErrorClass.CREDENTIALS),
        (400, {"error": {"code": "content_filter", "message": "no"}}, ErrorClass.REFUSED),
        (401, {"error": {"message": "who?"}}, ErrorClass.CREDENTIALS),
        (403, "", ErrorClass.CREDENTIALS),
        (402, {"error": {"message": "Insufficient Balance"}}, ErrorClass.CREDENTIALS),
        (404, {"error": {"message": "no such model"}}, ErrorClass.CONFIG),
        (408, "", ErrorClass.TIMEOUT),
        (409, "", ErrorClass.SERVER),
        (429, {"error": {"message": "slow down"}}, ErrorClass.RATE_LIMIT),
        (429, {"error": {"code": "insufficient_quota"}}, ErrorClass.CREDENTIALS),
        (500, "<html>oops</html>", ErrorClass.SERVER),
        (503, "", ErrorClass.SERVER),
        (529, {"error": {"type": "overloaded_error"}}, ErrorClass.SERVER),
    ],
)
def test_status(status: int, body: Any, kind: ErrorClass) -> None:
    error = oe.classify(failure(status, body), what="the endpoint")
    assert error.kind is kind
    assert str(status) in error.message


def test_the_wait_that_was_asked_for_is_kept() -> None:
    limited = oe.classify(
        failure(429, {}, {"Retry-After": "Thu, 01 Jan 2026 00:00:20 GMT"}), now=NOW
    )
    assert limited.retry_after == 20.0
    assert oe.classify(failure(503, {}, {"Retry-After": "4"})).retry_after == 4.0
    assert oe.classify(failure(429)).retry_after is None


def test_other_failures() -> None:
    timeout = openai.APITimeoutError(request=REQUEST)
    assert oe.classify(timeout).kind is ErrorClass.TIMEOUT
    refused = openai.APIConnectionError(request=REQUEST)
    refused.__cause__ = http.ConnectError("[Errno 111] Connection refused")
    error = oe.classify(refused)
    assert error.kind is ErrorClass.NETWORK
    assert "refused" in error.message
    scheme = openai.APIConnectionError(request=REQUEST)
    scheme.__cause__ = http.UnsupportedProtocol("Request URL is missing a protocol")
    assert oe.classify(scheme).kind is ErrorClass.CONFIG
    assert oe.classify(json.JSONDecodeError("no", "x", 0)).kind is ErrorClass.BAD_ANSWER
    assert oe.classify(UnicodeEncodeError("ascii", "é", 0, 1, "x")).kind is ErrorClass.CREDENTIALS
    assert oe.classify(ValueError("x")).kind is ErrorClass.BUG
    ours = MemsearchError("x", kind=ErrorClass.BUSY)
    assert oe.classify(ours) is ours


def test_a_missing_key_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(openai.OpenAIError) as caught:
        openai.OpenAI()
    assert oe.classify(caught.value).kind is ErrorClass.CREDENTIALS


def test_keys_and_length_are_kept_out_of_the_message() -> None:
    body = {"error": {"message": "Incorrect key: own-secret-1 / sk-abcdefgh12345678 " + "y" * 2000}}
    error = oe.classify(failure(401, body), secret="own-secret-1")
    assert "own-secret-1" not in str(error)
    assert "sk-abc" not in str(error)
    assert len(error.message) < 600
