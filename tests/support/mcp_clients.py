"""Clients of `langmem-graph mcp`, which runs as a process."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "mcp", reason='the extra is not installed: pip install "langmem-graph[mcp]"'
)

from mcp import ClientSession, types

REPOSITORY = Path(__file__).parents[2]
COMMAND = ["-m", "langmem_graph", "mcp"]


def environment(home: Path) -> dict[str, str]:
    left_out = {"LANGMEM_GRAPH_USER", "LANGMEM_GRAPH_MODEL", "LANGMEM_GRAPH_CHROMA"}
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    own = {
        "LANGMEM_GRAPH_DIR": str(home / "memory"),
        "LANGMEM_GRAPH_EMBEDDINGS": "hash",
    }
    path = os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
    return {**kept, **own, "PYTHONPATH": path, "COLUMNS": "300"}


async def ask(session: ClientSession, tool: str, **arguments: Any) -> str:
    """A tool's answer, which must not be an error."""
    result = await session.call_tool(tool, arguments)
    assert not result.isError, result.content
    return text_of(result)


def text_of(result: types.CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    return content.text


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": types.LATEST_PROTOCOL_VERSION,
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def fails(home: Path, *options: str) -> str:
    """What the command says on standard error when it cannot serve; standard output is empty."""
    done = subprocess.run(
        [sys.executable, *COMMAND, *options],
        env=environment(home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr
