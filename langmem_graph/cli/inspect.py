"""`langmem-graph inspect`: serves pages on which a memory is looked at."""

from typing import Annotated

import typer

from langmem_graph.cli.options import (
    DEFAULT_MEMORY,
    BaseUrlOption,
    ChromaOption,
    EmbeddingsOption,
    MemoryOption,
    ModelOption,
    opened,
)
from langmem_graph.errors import InvalidInputError


def inspect(
    place: Annotated[str | None, typer.Argument(help="The same as --memory.")] = None,
    directory: MemoryOption = DEFAULT_MEMORY,
    allow_changes: Annotated[
        bool, typer.Option("--allow-changes", help="Also correct, undo, forget; open for writing.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Default: a free one.")] = 0,
    browser: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    chroma: ChromaOption = None,
    embeddings: EmbeddingsOption = None,
) -> None:
    """Look into a memory in the browser, on this machine. Works beside a running app."""
    try:
        from langmem_graph.inspector.serve import serve
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
    where, looking = place or directory, not allow_changes
    with opened(where, chroma, embeddings, model=chosen, read_only=looking) as memory:
        serve(memory, port=port, allow_changes=allow_changes, announce=announce)
