"""A user's files (profile, index, topic tracks) as MCP resources `memory:///NAME`."""

from urllib.parse import quote, unquote

from mcp import types
from mcp.shared.exceptions import McpError
from pydantic import AnyUrl

from langmem_graph.errors import InvalidInputError
from langmem_graph.user import UserMemory

_PREFIX = "memory:///"
_MARKDOWN = "text/markdown"
_NOT_FOUND = -32002  # the protocol's code for a resource that does not exist


def list_files(user: UserMemory) -> types.ListResourcesResult:
    """Every file of the user."""
    files = [
        types.Resource(name=name, uri=AnyUrl(_PREFIX + quote(name)), mimeType=_MARKDOWN)
        for name in user.files()
    ]
    return types.ListResourcesResult(resources=files)


def read_file(user: UserMemory, uri: AnyUrl) -> types.ReadResourceResult:
    """One file, as it is."""
    try:
        text = user.read_file(unquote(str(uri).removeprefix(_PREFIX)))
    except InvalidInputError as error:
        raise McpError(types.ErrorData(code=_NOT_FOUND, message=str(error))) from error
    content = types.TextResourceContents(uri=uri, mimeType=_MARKDOWN, text=text)
    return types.ReadResourceResult(contents=[content])
