"""`create_inspector`: the pages of a memory as an ASGI application.

`serve` serves it on this machine alone, behind a token that is new each time.
"""

import hmac
import secrets
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from langmem_graph.errors import (
    InvalidInputError,
    LangMemGraphError,
    NothingStoredError,
    ReadOnlyError,
)
from langmem_graph.inspector import pages
from langmem_graph.inspector.guard import LOOPBACK, Guard
from langmem_graph.inspector.rendering import link, render
from langmem_graph.inspector.visit import NotFoundError, Visit, carry_out
from langmem_graph.memory import Memory

if TYPE_CHECKING:
    import uvicorn

LONGEST_FORM = 200_000  # bytes
_STATIC = Path(__file__).parent / "static"
HOST = "127.0.0.1"


@dataclass(frozen=True)
class _Site:
    memory: Memory
    allow_changes: bool


def create_inspector(
    memory: Memory,
    *,
    allow_changes: bool = False,
    hosts: Sequence[str] = LOOPBACK,
    token: str | None = None,
) -> ASGIApp:
    """Pages on which a memory is looked at, as an ASGI application to mount in one's
    own.

    ```python
    app.mount("/memory", create_inspector(memory, hosts=["intranet.example"]))
    ```

    It shows every user's memory and every shared room, without asking `authorize`, to
    whoever reaches it: let your application's authentication guard the mount, or give a
    `token`.

    Args:
        memory: a memory, which may be read-only. It stays the caller's to close.
        allow_changes: offer to correct, undo and forget, but not in shared
            rooms.
        hosts: the names under which it is reached (no ports); by default those of this
            machine.
        token: visitors first open `/?token=…`, which is exchanged for a cookie.
    """
    site = _Site(memory, allow_changes)
    routes = [
        Route(
            f"/{name}",
            partial(_page, site, f"{name or 'people'}.html", page),
            methods=["GET"],
        )
        for name, page in pages.PAGES.items()
    ]
    routes += [
        Route("/text", partial(_text, site), methods=["GET"]),
        Route("/reason", partial(_reason, site), methods=["POST"]),
        Route("/change", partial(_change, site), methods=["POST"]),
    ]
    static = Mount("/static", StaticFiles(directory=_STATIC))
    handlers: Mapping[Any, Any] = {404: _unknown_page}
    pages_alone = Starlette(routes=[*routes, static], exception_handlers=handlers)
    return Guard(pages_alone, hosts, token)


async def _visit(site: _Site, request: Request) -> Visit:
    form = {}
    if request.method == "POST":
        form = dict(parse_qsl((await _body(request)).decode("utf-8", "replace"), True))
        if not hmac.compare_digest(
            form.get("csrf", "").encode(), request.scope["csrf"].encode()
        ):
            raise ReadOnlyError(
                "This form is not from a page of this inspector: reload the page."
            )
    fields = {**request.query_params, **form}
    may_change = site.allow_changes and not fields.get("room")
    return Visit(site.memory, fields, request.scope["csrf"], may_change)


async def _body(request: Request) -> bytes:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LONGEST_FORM:
            raise InvalidInputError(f"A form may hold {LONGEST_FORM:,} bytes.")
    return body


async def _answered(
    site: _Site, request: Request, work: Callable[[Visit], Response]
) -> Response:
    """The answer to a request; an error of the memory's is a page that says so."""
    visit = None
    try:
        visit = await _visit(site, request)
        return await run_in_threadpool(work, visit)
    # the latter: no calendar has that day
    except (LangMemGraphError, OverflowError) as error:
        statuses = (
            (NotFoundError, 404),
            (NothingStoredError, 404),
            (ReadOnlyError, 403),
        )
        otherwise = 400 if isinstance(error, InvalidInputError | OverflowError) else 500
        status = next(
            (code for kind, code in statuses if isinstance(error, kind)), otherwise
        )
        bare = Visit(site.memory, {}, "", False)
        html = "".join(render("error.html", visit or bare, {"error": str(error)}))
        return HTMLResponse(html, status)


async def _page(
    site: _Site,
    template: str,
    page: Callable[[Visit], dict[str, Any]],
    request: Request,
) -> Response:
    def show(visit: Visit) -> Response:
        return _streamed(render(template, visit, page(visit)))

    return await _answered(site, request, show)


def _streamed(parts: Iterator[str]) -> Response:
    """A page whose first part is made before anything is sent: what fails there has a
    status.
    """
    first = next(parts)
    return StreamingResponse(chain([first], parts), media_type="text/html")


async def _text(site: _Site, request: Request) -> Response:
    return await _answered(
        site, request, lambda v: PlainTextResponse(pages.message_text(v))
    )


async def _reason(site: _Site, request: Request) -> Response:
    def show(visit: Visit) -> Response:
        return _streamed(render("ask.html", visit, pages.ask(visit, reason=True)))

    return await _answered(site, request, show)


async def _change(site: _Site, request: Request) -> Response:
    def changed(visit: Visit) -> Response:
        page, query = carry_out(visit)
        return RedirectResponse(link(page, **query), 303)

    return await _answered(site, request, changed)


async def _unknown_page(request: Request, _: Exception) -> Response:
    return PlainTextResponse("The inspector has no such page.", 404)


def server(
    memory: Memory, token: str, *, allow_changes: bool = False
) -> "uvicorn.Server":
    """A server that writes no access log: the first address that is asked for holds the
    token.
    """
    import uvicorn

    app = create_inspector(memory, allow_changes=allow_changes, token=token)
    config = uvicorn.Config(
        app,
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=2,
    )
    return uvicorn.Server(config)


def serve(
    memory: Memory, *, port: int, allow_changes: bool, announce: Callable[[str], object]
) -> None:
    """Serve until interrupted.

    Args:
        memory: what is shown.
        port: 0 takes a free one.
        allow_changes: offer to correct, undo and forget.
        announce: called with the address to open, which holds the token, once it is
            served.
    """
    token = secrets.token_urlsafe(24)
    with closing(socket.create_server((HOST, port))) as listening:
        announce(f"http://{HOST}:{listening.getsockname()[1]}/?token={token}")
        server(memory, token, allow_changes=allow_changes).run(sockets=[listening])
