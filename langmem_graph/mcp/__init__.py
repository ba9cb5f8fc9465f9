"""The memory tools over the Model Context Protocol, for clients that are not LangGraph
apps.

Needs the extra `mcp`; importing this package without it raises `MissingExtraError`.
"""

from langmem_graph.errors import MissingExtraError

try:
    import mcp as _protocol  # noqa: F401  # asked for first, so that the error names the extra
except ImportError as error:
    raise MissingExtraError(
        f"The MCP server needs the mcp package ({error}): pip install "
        '"langmem-graph[mcp]"'
    ) from error

from langmem_graph.mcp.server import create_mcp_server
from langmem_graph.mcp.transports import (
    UserHeader,
    create_app,
    protocol_output,
    serve_http,
    serve_stdio,
)

__all__ = [
    "UserHeader",
    "create_app",
    "create_mcp_server",
    "protocol_output",
    "serve_http",
    "serve_stdio",
]
