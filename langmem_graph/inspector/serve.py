"""Serves the inspector on this machine alone, behind a token that is new each time."""

import secrets
import socket
from collections.abc import Callable
from contextlib import closing

import uvicorn

from langmem_graph.inspector.app import create_inspector
from langmem_graph.memory import Memory

HOST = "127.0.0.1"


def server(memory: Memory, token: str, *, allow_changes: bool = False) -> uvicorn.Server:
    """A server that writes no access log: the first address that is asked for holds the token."""
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
        allow_changes: offer to correct, undo, forget and confirm.
        announce: called with the address to open, which holds the token, once it is served.
    """
    token = secrets.token_urlsafe(24)
    with closing(socket.create_server((HOST, port))) as listening:
        announce(f"http://{HOST}:{listening.getsockname()[1]}/?token={token}")
        server(memory, token, allow_changes=allow_changes).run(sockets=[listening])
