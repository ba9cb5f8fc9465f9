"""The commands of `langmem-graph` that serve a memory: to a browser, and to clients of
MCP.
"""

import logging
from typing import Annotated, Any

import typer

from langmem_graph.cli.import_and_read import load_reader
from langmem_graph.cli.options import (
    DEFAULT_MEMORY,
    AnyUserOption,
    BaseUrlOption,
    ChromaOption,
    EmbeddingsOption,
    HostOption,
    MemoryOption,
    ModelOption,
    SharedOption,
    WhereOption,
    known_rooms,
    opened,
    read_json,
)
from langmem_graph.errors import InvalidInputError, MissingUserError


def inspect(
    place: Annotated[str | None, typer.Argument(help="The same as --memory.")] = None,
    directory: MemoryOption = DEFAULT_MEMORY,
    allow_changes: Annotated[
        bool,
        typer.Option(
            "--allow-changes", help="Also correct, undo, forget; open for writing."
        ),
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Default: a free one.")
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--open", help="Open it in the browser.")
    ] = False,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    chroma: ChromaOption = None,
    embeddings: EmbeddingsOption = None,
) -> None:
    """Look into a memory in the browser, on this machine. Works beside a
    running app.
    """
    try:
        from langmem_graph.inspector.app import serve
    except ImportError as error:
        text = "The inspector needs an extra: pip install 'langmem-graph[inspect]'."
        raise InvalidInputError(text) from error
    from langmem_graph.llm import chat_models

    def announce(address: str) -> None:
        how = "changes are allowed" if allow_changes else "read-only"
        typer.echo(f"Open {address}\n({how}; Ctrl-C ends it)")
        if browser:
            typer.launch(address)

    chosen = chat_models.load_chat_model(model, base_url) if model or base_url else None
    where = place or directory
    looking = not allow_changes
    with opened(where, chroma, embeddings, model=chosen, read_only=looking) as memory:
        serve(memory, port=port, allow_changes=allow_changes, announce=announce)


def mcp(
    user: AnyUserOption = None,
    http: Annotated[
        bool, typer.Option("--http", help="Serve HTTP instead of stdio.")
    ] = False,
    host: HostOption = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="With --http: where to listen.")
    ] = 8765,
    user_header: Annotated[
        str | None,
        typer.Option(
            help="With --http, instead of --user: the header in which a proxy names it."
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            help="With --http: a name under which clients reach it; repeatable."
        ),
    ] = None,
    session_idle: Annotated[
        float,
        typer.Option(
            min=0.1, help="With --http: seconds until an unused session ends."
        ),
    ] = 1_800,
    allow_forget: Annotated[
        bool, typer.Option("--allow-forget", help="Also offer to delete records.")
    ] = False,
    trust_calls: Annotated[
        bool,
        typer.Option(
            "--trust-calls",
            help=(
                "What the client's model writes is the user's word: a person "
                "confirms each call."
            ),
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
            "--shared needs --user: which of several users may read a room is decided "
            "in code, by "
            "Memory(authorize=…) and create_mcp_server(memory, shared=…)."
        )
    reader = load_reader(model, base_url) if base_url else model
    opening = opened(directory, chroma, embeddings, model=reader)
    with protocol_output() as output, opening as memory:
        # to standard error
        logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
        logging.getLogger("langmem_graph").setLevel(logging.INFO)
        within = read_json(where, "--where")
        scope: dict[str, Any] = {"where": within, "shared": known_rooms(memory, shared)}
        scope |= {"trust": "user"} if trust_calls else {}
        server = create_mcp_server(
            memory, user_id=user, allow_forget=allow_forget, **scope
        )
        if not http:
            serve_stdio(server, output)
            return
        place: dict[str, Any] = {
            "host": host,
            "port": port,
            "allowed_hosts": allow_host or (),
        }
        serve_http(
            server, memory, user_header=user_header, session_idle=session_idle, **place
        )


def _check_whose(user: str | None, user_header: str | None, http: bool) -> None:
    """Check that the options name the user, or the header that does, before anything is
    opened.
    """
    if user_header is not None and not http:
        raise InvalidInputError(
            "--user-header needs --http: over stdio there are no headers."
        )
    if user_header is not None and user is not None:
        raise InvalidInputError(
            "Both --user (or LANGMEM_GRAPH_USER) and --user-header: name the user "
            "in "
            "one way."
        )
    if user_header is None and user is None:
        raise MissingUserError(
            "Whose memory? Give --user; with --http behind a proxy, --user-header NAME."
        )
