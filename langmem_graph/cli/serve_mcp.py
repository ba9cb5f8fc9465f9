"""The command `langmem-graph mcp`: whose memory is served, and over what."""

import logging
from typing import Annotated, Any

import typer

from langmem_graph.cli.options import (
    DEFAULT_MEMORY,
    BaseUrlOption,
    ChromaOption,
    EmbeddingsOption,
    MemoryOption,
    ModelOption,
    SharedOption,
    WhereOption,
    opened,
    read_json,
)
from langmem_graph.cli.read_backlog import load_reader
from langmem_graph.errors import InvalidInputError, MissingUserError


def mcp(
    user: Annotated[
        str | None, typer.Option("--user", "-u", envvar="LANGMEM_GRAPH_USER", help="Whose memory.")
    ] = None,
    http: Annotated[bool, typer.Option("--http", help="Serve HTTP instead of stdio.")] = False,
    host: Annotated[str, typer.Option(help="With --http: where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="With --http: where to listen.")] = 8765,
    user_header: Annotated[
        str | None,
        typer.Option(help="With --http, instead of --user: the header in which a proxy names it."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="With --http: a name under which clients reach it; repeatable."),
    ] = None,
    session_idle: Annotated[
        float, typer.Option(min=0.1, help="With --http: seconds until an unused session ends.")
    ] = 1_800,
    allow_forget: Annotated[
        bool, typer.Option("--allow-forget", help="Also offer to delete records.")
    ] = False,
    trust_calls: Annotated[
        bool,
        typer.Option(
            "--trust-calls",
            help="What the client's model writes is the user's word: a person confirms each call.",
        ),
    ] = False,
    where: WhereOption = None,
    shared: SharedOption = None,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    directory: MemoryOption = DEFAULT_MEMORY,
    chroma: ChromaOption = None,
    embeddings: EmbeddingsOption = None,
) -> None:
    """Serve the memory tools to MCP clients, over stdio or HTTP."""
    from langmem_graph.mcp import (  # its packages come with an extra
        create_mcp_server,
        protocol_output,
        serve_http,
        serve_stdio,
    )

    _check_whose(user, user_header, http)
    if shared and user is None:
        raise InvalidInputError(
            "--shared needs --user: which of several users may read a room is decided in code, by "
            "Memory(authorize=…) and create_mcp_server(memory, shared=…)."
        )
    reader = load_reader(model, base_url) if base_url else model
    opening = opened(directory, chroma, embeddings, model=reader)
    with protocol_output() as output, opening as memory:
        logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")  # to standard error
        logging.getLogger("langmem_graph").setLevel(logging.INFO)
        within = read_json(where, "--where")
        scope: dict[str, Any] = {"where": within, "shared": shared or ()}
        scope |= {"trust": "user"} if trust_calls else {}
        server = create_mcp_server(memory, user_id=user, allow_forget=allow_forget, **scope)
        if not http:
            serve_stdio(server, output)
            return
        place: dict[str, Any] = {"host": host, "port": port, "allowed_hosts": allow_host or ()}
        serve_http(server, memory, user_header=user_header, session_idle=session_idle, **place)


def _check_whose(user: str | None, user_header: str | None, http: bool) -> None:
    """Check that the options name the user, or the header that does, before anything is opened."""
    if user_header is not None and not http:
        raise InvalidInputError("--user-header needs --http: over stdio there are no headers.")
    if user_header is not None and user is not None:
        raise InvalidInputError(
            "Both --user (or LANGMEM_GRAPH_USER) and --user-header: name the user in one way."
        )
    if user_header is None and user is None:
        raise MissingUserError(
            "Whose memory? Give --user; with --http behind a proxy, --user-header NAME."
        )
