"""What every request to the inspector has to pass: its host, its origin, its token, its
form.
"""

import hashlib
import hmac
import logging
import secrets
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "::1")
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; "
    "base-uri 'none'; "
    ""
    ""
    "form-action 'self'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_log = logging.getLogger(__name__)


class Guard:
    """Lets requests through to the pages that come from the inspector's own pages and
    visitors.

    Args:
        app: the pages.
        hosts: names under which the inspector is reached; any other Host header is
            refused, so that no foreign name can be made to point here.
        token: visitors need the cookie that this token is exchanged for. None leaves it
            to the application that mounts the inspector who may see it.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str], token: str | None) -> None:
        self._app = app
        self._hosts = {host.casefold() for host in hosts}
        self._token = token
        self._key = secrets.token_bytes(32)
        self._cookie = f"inspector-{secrets.token_hex(8)}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        visitor = request.cookies.get(self._cookie, "")
        name, _, given = visitor.partition(".")
        known = hmac.compare_digest(given.encode(), self._sign(name).encode())
        answer = (
            self._refused(request) or self._exchanged(request) or self._stopped(known)
        )
        if not known:
            name = secrets.token_urlsafe(16)
            visitor = f"{name}.{self._sign(name)}"
        welcome = not known and answer is not None and answer.status_code == 303
        new = visitor if welcome or not (known or self._token) else None
        scope["csrf"] = self._sign(f"form {visitor}")
        await (answer or self._app)(
            scope, receive, self._with_headers(request, new, send)
        )

    def _sign(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()

    def _refused(self, request: Request) -> Response | None:
        """The refusal of a foreign host or origin."""
        host = request.headers.get("host", "")
        site = request.headers.get("sec-fetch-site")
        if _split(f"//{host}")[1] not in self._hosts:
            return _refusal(
                f"The host {host[:100]!r} is not one of the inspector's. An "
                "application that "
                "mounts it under another name says so: create_inspector(memory, "
                "hosts=[…]).",
                400,
            )
        origin = request.headers.get("origin")
        # Without a referrer, browsers send "null" as the origin of a form, and its site
        # beside it.
        own = {
            None: site in {None, "same-origin", "none"},
            "null": site == "same-origin",
        }
        same = own.get(origin, _split(origin or "")[0] == host)
        if not same and (origin is not None or request.method not in {"GET", "HEAD"}):
            return _refusal(
                "Another site's page made this request; it was refused.", 403
            )
        return None

    def _exchanged(self, request: Request) -> Response | None:
        """The redirection that takes the token out of the address."""
        given = request.query_params.get("token")
        if self._token is None or given is None or request.method != "GET":
            return None
        if hmac.compare_digest(given.encode(), self._token.encode()):
            return RedirectResponse(f"{request.scope.get('root_path', '')}/", 303)
        return _refusal(
            "This token is wrong. Each start of the inspector has a new one.", 403
        )

    def _stopped(self, known: bool) -> Response | None:
        if self._token is None or known:
            return None
        return _refusal(
            "Open the address with the token that `langmem-graph inspect` printed.", 403
        )

    def _with_headers(
        self, request: Request, new_cookie: str | None, send: Send
    ) -> Send:
        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
                if new_cookie:
                    secure = "; Secure" if request.url.scheme == "https" else ""
                    path = request.scope.get("root_path") or "/"
                    headers.append(
                        "Set-Cookie",
                        f"{self._cookie}={new_cookie}; Path={path}; HttpOnly; "
                        f"SameSite=Strict{secure}",
                    )
            await send(message)

        return send_guarded


def _split(address: str) -> tuple[str, str]:
    """Host with port, and host alone; empty where it is no address."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "", ""
    return parts.netloc, parts.hostname or ""


def _refusal(reason: str, status: int) -> Response:
    _log.info("a request to the inspector was refused: %s", reason)
    return PlainTextResponse(reason, status)
