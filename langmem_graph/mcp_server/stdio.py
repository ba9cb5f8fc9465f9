"""MCP over standard input and output, for a client that starts the server itself."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import anyio
from mcp.server.stdio import stdio_server

from langmem_graph.mcp_server.server import McpServer


@contextmanager
def protocol_output() -> Iterator[TextIO]:
    """Standard output for the protocol alone; what anything else prints goes to standard error."""
    kept = os.dup(1)
    with os.fdopen(kept, "w", encoding="utf-8", newline="\n") as output:
        os.dup2(2, 1)  # of the whole process: libraries in C print as well
        try:
            yield output
        finally:
            os.dup2(kept, 1)


def serve_stdio(server: McpServer, output: TextIO) -> None:
    """Serve until the client closes standard input; for the main thread of a process of its own."""

    async def serve() -> None:
        async with stdio_server(stdout=anyio.wrap_file(output)) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    # The thread that waits for input cannot be interrupted; the ledger stands an end at any time.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    anyio.run(serve)
