"""Notes by any endpoint that speaks OpenAI's Chat Completions.

The openai client does the talking; the deadline is ours, since its timeouts are for single
reads: an endpoint that sends one byte a second would never run into one.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.pipeline.summarizers import answer, prompt
from memsearch.pipeline.summarizers.calls import (
    POLL_SECONDS,
    StoppedError,
    estimated_cost,
    timed_out,
)
from memsearch.pipeline.summarizers.words import estimate_tokens
from memsearch.pipeline.types import Summary
from memsearch.sinks.openai_errors import classify
from memsearch.sources.base import Turn

if TYPE_CHECKING:
    from openai import OpenAI

#: The model that is asked when none is set.
DEFAULT_MODEL = "gpt-5-mini"
#: Tokens that an answer may take, thoughts included.
MAX_OUTPUT_TOKENS = 4_000
#: Seconds that an ended call has to come back; then it is left to its own timeout.
ABANDON_SECONDS = 1.0
#: Hosts that know ``max_completion_tokens`` and refuse the older ``max_tokens`` for some
#: models; every other endpoint knows the older one.
_NEW_LIMIT_HOSTS = ("openai.com", "openai.azure.com")


class OpenAISummarizer:
    """The summariser that asks an endpoint.

    Args:
        model: Its name there; empty: ``DEFAULT_MODEL``.
        base_url: The endpoint with its ``/v1``; empty: OpenAI's own.
        api_key: The key itself; empty for an endpoint that wants none.
        max_input_chars: Room for a rendered turn in the prompt, in characters.

    Raises:
        MemsearchError: ``CREDENTIALS`` when OpenAI's own endpoint is to be asked without a
            key.
    """

    provider = "openai"

    def __init__(
        self, *, model: str, base_url: str, api_key: str, max_input_chars: int = 24_000
    ) -> None:
        if not base_url and not api_key:
            raise MemsearchError(
                "no key is set for OpenAI's endpoint",
                kind=ErrorClass.CREDENTIALS,
                hint="memsearch config set summarize.api_key env:OPENAI_API_KEY",
            )
        self.model = model or DEFAULT_MODEL
        self.base_url = base_url
        self._api_key = api_key
        self._max_input_chars = max_input_chars
        host = urlsplit(base_url).hostname or "api.openai.com"
        self._what = f"the summarising endpoint {host}"
        self._limit = "max_completion_tokens" if host.endswith(_NEW_LIMIT_HOSTS) else "max_tokens"

    def __repr__(self) -> str:  # never the key
        return f"OpenAISummarizer({self.model!r}, {self._what!r})"

    def estimate(self, turn: Turn) -> int:
        """Tokens that a call is likely to cost."""
        return estimated_cost(prompt.build(turn, max_chars=self._max_input_chars))

    def summarize(self, turn: Turn, *, timeout: float, stop: threading.Event) -> Summary:
        """Notes of one turn; see ``Summarizer``."""
        asked = prompt.build(turn, max_chars=self._max_input_chars)
        return self.answer_to(asked, most=answer.MAX_BULLETS, timeout=timeout, stop=stop)

    def cost_of(self, asked: prompt.Prompt) -> int:
        """See ``Summarizer``."""
        return estimated_cost(asked)

    def answer_to(
        self, asked: prompt.Prompt, *, most: int, timeout: float, stop: threading.Event
    ) -> Summary:
        """See ``Summarizer``."""
        response = self._ask(asked, timeout, stop)
        tokens_in, tokens_out, estimated = _usage(response, asked)
        spent = tokens_in + tokens_out
        text = self._text(response, spent)
        return Summary(
            bullets=answer.clean(text, tokens=spent, most=most),
            provider=self.provider,
            model=self.model,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            estimated=estimated,
        )

    def _ask(self, asked: prompt.Prompt, timeout: float, stop: threading.Event) -> Any:
        """The endpoint's answer, within the deadline whatever it does."""
        call = _Call()

        def talk() -> None:
            try:
                with self._client(call, timeout) as client:
                    call.response = client.chat.completions.create(
                        model=self.model,
                        messages=[
                            {"role": "system", "content": asked.system},
                            {"role": "user", "content": asked.user},
                        ],
                        extra_body={self._limit: MAX_OUTPUT_TOKENS},
                    )
            except BaseException as error:  # handed to the caller's thread
                call.error = error
            finally:
                call.done.set()

        deadline = time.monotonic() + timeout
        threading.Thread(target=talk, name="summarize", daemon=True).start()
        while not call.done.wait(POLL_SECONDS):
            if stop.is_set() or time.monotonic() >= deadline:
                call.hang_up()
                call.done.wait(ABANDON_SECONDS)
                if stop.is_set():
                    raise StoppedError(f"the call to {self._what}")
                raise timed_out(self._what, timeout)
        if call.error is not None:
            raise classify(call.error, what=self._what, secret=self._api_key) from call.error
        return call.response

    def _client(self, call: _Call, timeout: float) -> OpenAI:
        import openai

        return openai.OpenAI(
            api_key=self._api_key or "none",  # the client insists on one
            base_url=self.base_url or None,
            max_retries=0,  # the log decides when to try again
            timeout=timeout,
            http_client=openai.DefaultHttpxClient(
                timeout=timeout, event_hooks={"request": [call.watch]}
            ),
        )

    def _text(self, response: Any, spent: int) -> str:
        """The text of an answer, or the reason why there is none."""
        choices = getattr(response, "choices", None)
        if not choices:
            raise MemsearchError(
                f"{self._what} sent an answer without any text",
                kind=ErrorClass.BAD_ANSWER,
                hint="look at summarize.base_url: it ends in /v1 for most endpoints",
                tokens=spent,
            )
        message, finish = choices[0].message, choices[0].finish_reason
        text = answer.first_text(getattr(message, "content", None))
        refusal = getattr(message, "refusal", None)
        if not text.strip() and (refusal or finish == "content_filter"):
            why = f": {answer.tidy(str(refusal))}" if refusal else ""
            raise MemsearchError(
                f"{self._what} refused the content{why}", kind=ErrorClass.REFUSED, tokens=spent
            )
        if finish == "length":
            # The last line was cut; it may be half a fact.
            text = text.rpartition("\n")[0] or text
        return text


class _Call:
    """One call in its own thread, and the connections it opened."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.response: Any = None
        self.error: BaseException | None = None
        self._sockets: list[socket.socket] = []
        self._ended = False
        self._lock = threading.Lock()

    def watch(self, request: Any) -> None:
        """A hook of the HTTP client: be told of each connection."""
        request.extensions["trace"] = self._trace

    def _trace(self, name: str, info: Mapping[str, Any]) -> None:
        if name not in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            return
        connection = info["return_value"].get_extra_info("socket")
        with self._lock:
            self._sockets.append(connection)
            ended = self._ended
        if ended:
            self.hang_up()

    def hang_up(self) -> None:
        """Shut the connections, which ends a read that waits on one."""
        with self._lock:
            self._ended = True
            for connection in self._sockets:
                # The plain shutdown, also under TLS: nobody reads on.
                with suppress(OSError):
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)


def _usage(response: Any, asked: prompt.Prompt) -> tuple[int, int, bool]:
    """Tokens in and out, and whether they are an estimate."""
    usage = getattr(response, "usage", None)
    tokens_in = getattr(usage, "prompt_tokens", None)
    tokens_out = getattr(usage, "completion_tokens", None)
    if isinstance(tokens_in, int) and isinstance(tokens_out, int) and tokens_in + tokens_out > 0:
        return tokens_in, tokens_out, False
    choices = getattr(response, "choices", None) or ()
    text = "".join(answer.first_text(choice.message.content) for choice in choices)
    return estimate_tokens(asked.whole), estimate_tokens(text), True
