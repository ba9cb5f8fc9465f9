"""`langmem-graph mcp`: checks the options and serves the memory tools."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from langmem_graph.errors import InvalidInputError, MissingUserError
from langmem_graph.mcp.server import create_mcp_server
from langmem_graph.mcp.transports import serve_http, serve_stdio
from langmem_graph.memory import Memory


@dataclass(frozen=True)
class Place:
    """Where to serve; the other fields need `http`."""

    http: bool
    host: str
    port: int
    user_header: str | None
    allowed_hosts: Sequence[str]


def check(user: str | None, place: Place) -> None:
    """Check that the options name the user, or the header that does, before anything is opened.

    Raises:
        InvalidInputError: `user_header` without HTTP, or beside a user.
        MissingUserError: neither a user nor a header is named.
    """
    if place.user_header is not None and not place.http:
        raise InvalidInputError("--user-header needs --http: over stdio there are no headers.")
    if place.user_header is not None and user is not None:
        raise InvalidInputError(
            "Both --user (or LANGMEM_GRAPH_USER) and --user-header: name the user in one way."
        )
    if place.user_header is None and user is None:
        raise MissingUserError(
            "Whose memory? Give --user; with --http behind a proxy, --user-header NAME."
        )


def serve(
    memory: Memory, user: str | None, allow_forget: bool, place: Place, output: TextIO
) -> None:
    """Serve until the client leaves or the process is stopped."""
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")  # to standard error
    logging.getLogger("langmem_graph").setLevel(logging.INFO)
    server = create_mcp_server(memory, user_id=user, allow_forget=allow_forget)
    if not place.http:
        serve_stdio(server, output)
        return
    serve_http(
        server,
        memory,
        host=place.host,
        port=place.port,
        user_header=place.user_header,
        allowed_hosts=place.allowed_hosts,
    )
