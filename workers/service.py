"""The service of a worker: recall, index and reset over a Unix socket that only its owner opens.

Workers own Milvus Lite and the model, so every other process asks here instead of opening
them itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.pipeline.summarizers.choose import probes_of
from memsearch.recall import requests as recall
from memsearch.sinks import embedders
from memsearch.workers import admin
from memsearch.workers.following import notices_of

if TYPE_CHECKING:
    from memsearch.config.paths import Home
    from memsearch.config.settings import Settings
    from memsearch.pipeline.engine import Engine
    from memsearch.sinks.types import Embedder, Store

#: Seconds that running requests have to end at a shutdown.
SHUTDOWN_SECONDS = 3
#: Bytes of a request's body that are read at the most.
MAX_BODY_BYTES = 4 * 1024 * 1024


class WorkerAccess:
    """What recall runs on inside a worker: the engine's own store and model, kept open."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def home(self) -> Home:
        return self._engine.home

    @property
    def environ(self) -> Mapping[str, str]:
        return self._engine.environ

    def settings(self, project_root: str | None) -> Settings:
        return self._engine.settings(project_root)

    def has_index(self) -> bool:
        return self._engine.has_index()

    @contextmanager
    def store(self) -> Iterator[Store | None]:
        yield self._engine.store() if self.has_index() else None

    def model(self) -> str:
        return embedders.identity(self.settings(None).embedding)

    def embedder(self) -> Embedder:
        return self._engine.embedder()


class Service:
    """Answers on ``home.socket`` from a thread of its own, until it is stopped."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._access = WorkerAccess(engine)
        self._path = engine.home.socket
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def is_alive(self) -> bool:
        """Whether the service runs, or could not be started at all.

        One that could not be (a file system without sockets) is not tried again and again.
        """
        return self._thread is None or self._thread.is_alive()

    def start(self) -> None:
        """Listen. The caller holds the worker's lock, so a socket that is there is stale.

        Raises:
            OSError: The socket cannot be made.
        """
        with suppress(FileNotFoundError):
            os.unlink(self._path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Made private before anybody can connect; its folder is private too.
            listener.bind(self._path)
            os.chmod(self._path, 0o600)
            listener.listen(256)
        except OSError:
            listener.close()
            raise
        config = uvicorn.Config(
            self._app(),
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            server_header=False,
        )
        self._server = server = uvicorn.Server(config)

        def serve() -> None:
            try:
                asyncio.run(server.serve(sockets=[listener]))
            finally:
                listener.close()

        self._thread = threading.Thread(target=serve, name="service", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop listening, let running requests end, take the socket away."""
        with suppress(OSError):
            os.unlink(self._path)
        if self._server is not None:
            self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(SHUTDOWN_SECONDS + 1)

    def _app(self) -> Starlette:
        return Starlette(routes=[Route("/v1/{operation}", self._post, methods=["POST"])])

    async def _post(self, request: Request) -> JSONResponse:
        operation = str(request.path_params["operation"])
        body = bytearray()
        async for block in request.stream():
            body += block
            if len(body) > MAX_BODY_BYTES:
                error = MemsearchError("the request is too large", kind=ErrorClass.BAD_REQUEST)
                return _refusal(error)
        return await run_in_threadpool(self._answer, operation, bytes(body))

    def _answer(self, operation: str, body: bytes) -> JSONResponse:
        engine = self._engine
        if operation == "ping":
            # Whoever looks whether a worker lives must not keep it alive.
            return JSONResponse(self._alive())
        engine.asked = started = time.monotonic()
        try:
            request = json.loads(body or b"{}")
            if not isinstance(request, dict):
                raise ValueError("not an object")
        except ValueError:
            return _refusal(
                MemsearchError("the request is not a JSON object", kind=ErrorClass.BAD_REQUEST)
            )
        if engine.stop.is_set():
            return JSONResponse({"error": "the worker ends"}, status_code=503)
        try:
            with engine.in_use():
                answer = self._dispatch(operation, request)
        except MemsearchError as error:
            engine.note("request_failed", level="warning", operation=operation, kind=error.kind)
            return _refusal(error)
        except Exception as error:
            engine.note(
                "request_bug",
                level="error",
                operation=operation,
                error=type(error).__name__,
                traceback=engine.where(error),
            )
            return _refusal(
                MemsearchError(
                    f"{operation} failed in the worker: {type(error).__name__}: {error}",
                    kind=ErrorClass.BUG,
                    hint="logs/worker.log in MEMSEARCH_HOME says where",
                )
            )
        engine.note(
            "request_answered",
            level="debug",
            operation=operation,
            seconds=round(time.monotonic() - started, 4),
        )
        return JSONResponse(answer)

    def _alive(self) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "running": self._engine.running(),
            "passed_over": probes_of(self._engine.part).faults(),
            "watch": list(notices_of(self._engine)),
        }

    def _dispatch(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        if operation in admin.OPERATIONS:
            return admin.handle(operation, request, self._engine)
        answer = recall.handle(operation, request, self._access)
        if answer.get("degraded"):
            self._engine.index_doubted.set()
        if operation == "search":
            self._know(request)
        return answer

    def _know(self, request: Mapping[str, Any]) -> None:
        """The next search of this project finds it indexed; no fault of this one if not."""
        try:
            admin.know(request, self._engine)
        except MemsearchError as error:
            self._engine.note("project_unknown", level="warning", kind=error.kind)


def _refusal(error: MemsearchError) -> JSONResponse:
    return JSONResponse(recall.error_body(error), status_code=recall.status_of(error))
