"""Serves MCP over standard input and output, or over HTTP to one fixed user or many."""

import json
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TextIO

import anyio
import uvicorn
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import (
    DEFAULT_SESSION_IDLE_TIMEOUT,
    RequestBodyLimitMiddleware,
    StreamableHTTPSessionManager,
)
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from langmem_graph.errors import InvalidInputError
from langmem_graph.ids_and_times import user_key
from langmem_graph.mcp.server import McpServer
from langmem_graph.memory import Memory

_log = logging.getLogger(__name__)
_LOCAL = ("127.0.0.1", "localhost", "[::1]")
_SECONDS_TO_END = 3  # for requests in flight; streams that only wait are cut


@contextmanager
def protocol_output() -> Iterator[TextIO]:
    """Standard output for the protocol alone; what anything else prints goes to
    standard error.
    """
    kept = os.dup(1)
    with os.fdopen(kept, "w", encoding="utf-8", newline="\n") as output:
        os.dup2(2, 1)  # of the whole process: libraries in C print as well
        try:
            yield output
        finally:
            os.dup2(kept, 1)


def serve_stdio(server: McpServer, output: TextIO) -> None:
    """Serve until the client closes standard input; for the main thread of a process of
    its own.
    """

    async def serve() -> None:
        async with stdio_server(stdout=anyio.wrap_file(output)) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    # The thread that waits for input cannot be interrupted; the ledger survives any
    # exit.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    anyio.run(serve)


class UserHeader:
    """Admits requests that name their user in one header, and passes the user on.

    The session manager then answers a session only to the user who opened it.

    Args:
        app: the application behind it.
        name: the header's name. A client can set any header: a proxy in front must set
            this one.
    """

    def __init__(self, app: ASGIApp, name: str) -> None:
        self._app = app
        self._name = name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        try:
            user = self._user(Headers(scope=scope))
        except (InvalidInputError, UnicodeDecodeError) as error:
            _log.warning("a request was refused: %s", error)
            text = (
                f"This memory needs exactly one header {self._name} with the user's id."
            )
            wrong = {"code": -32600, "message": text}  # "Invalid Request" of JSON-RPC
            refusal = JSONResponse({"jsonrpc": "2.0", "id": None, "error": wrong}, 403)
            await refusal(scope, receive, send)
            return
        scope["user"] = AuthenticatedUser(
            AccessToken(token="", client_id=user, scopes=[])
        )
        await self._app(scope, receive, send)

    def _user(self, headers: Headers) -> str:
        named = headers.getlist(self._name)
        if len(named) != 1:  # a second one may be the client's own, beside the proxy's
            raise InvalidInputError(f"{len(named)} headers {self._name}")
        return user_key(named[0].encode("latin-1").decode())  # headers arrive as bytes


class _Endpoint:
    """The session manager as an application; a class, so that Starlette does not wrap
    it.
    """

    def __init__(self, manager: StreamableHTTPSessionManager) -> None:
        self._manager = manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def readable() -> Message:
            # the whole body, which RequestBodyLimitMiddleware collects
            message = await receive()
            try:
                json.loads(message.get("body") or b"null")
            except (RecursionError, ValueError):  # nested too deep, no UTF-8 or no JSON
                # is refused as no JSON; the rest would be an error of ours
                message["body"] = b""
            return message

        await self._manager.handle_request(scope, readable, send)


def create_app(
    server: McpServer,
    memory: Memory,
    *,
    user_header: str | None = None,
    allowed_hosts: Sequence[str] | None = _LOCAL,
    session_idle: float = DEFAULT_SESSION_IDLE_TIMEOUT,
) -> Starlette:
    """The server as an ASGI application; it closes the memory when it ends.

    Args:
        server: made for a fixed user; without one, `user_header` is needed.
        memory: the memory that the server serves.
        user_header: the header in which a proxy names the user of each request.
        allowed_hosts: values of the `Host` header, without port, that are answered: a
            web page elsewhere could otherwise send requests by its visitor's browser.
            None answers all.
        session_idle: seconds after which a session without requests ends.
    """
    manager = StreamableHTTPSessionManager(
        server,
        security_settings=_security(allowed_hosts),
        session_idle_timeout=session_idle,
    )
    limit = manager.max_request_body_size
    endpoint: ASGIApp = RequestBodyLimitMiddleware(_Endpoint(manager), limit)
    if user_header is not None:
        endpoint = UserHeader(endpoint, user_header)

    @asynccontextmanager
    async def running(_: Starlette) -> AsyncIterator[None]:
        async with memory, manager.run():
            yield

    return Starlette(routes=[Route("/mcp", endpoint=endpoint)], lifespan=running)


def _security(hosts: Sequence[str] | None) -> TransportSecuritySettings:
    if hosts is None:
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    names = [name for host in hosts for name in (host, f"{host}:*")]
    origins = [f"{scheme}://{name}" for scheme in ("http", "https") for name in names]
    return TransportSecuritySettings(allowed_hosts=names, allowed_origins=origins)


def serve_http(
    server: McpServer,
    memory: Memory,
    *,
    host: str = "127.0.0.1",
    port: int = 8765,
    user_header: str | None = None,
    allowed_hosts: Sequence[str] = (),
    session_idle: float = DEFAULT_SESSION_IDLE_TIMEOUT,
) -> None:
    """Serve at `http://host:port/mcp` until interrupted.

    Args:
        server: as for `create_app`, like `memory`, `user_header` and `session_idle`.
        host: where to listen.
        port: where to listen; 0 takes a free one, which the log names.
        allowed_hosts: names under which clients reach it, beside those of this machine.
            Without names, a `host` that other machines reach answers to every name.
    """
    hosts = (
        (*_LOCAL, *allowed_hosts) if allowed_hosts or host in (*_LOCAL, "::1") else None
    )
    options: dict[str, Any] = {"user_header": user_header, "session_idle": session_idle}
    app = create_app(server, memory, allowed_hosts=hosts, **options)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    config = uvicorn.Config(
        app, log_level="warning", timeout_graceful_shutdown=_SECONDS_TO_END
    )
    # the end of a session is an error to it
    log = logging.getLogger("mcp.server.streamable_http")
    log.addFilter(
        lambda one: not one.exc_info or one.exc_info[0] is not anyio.ClosedResourceError
    )
    with socket.create_server((host, port), family=family) as listening:
        _log.info("serving http://%s:%s/mcp", *listening.getsockname()[:2])
        uvicorn.Server(config).run(sockets=[listening])
