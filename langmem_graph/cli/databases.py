"""`langmem-graph migrate` and `move`: prepares a PostgreSQL database, and moves memories."""

from typing import Annotated

import typer

from langmem_graph.cli import printing
from langmem_graph.cli.options import opened
from langmem_graph.errors import InvalidInputError
from langmem_graph.memory import Memory

UrlArgument = Annotated[str, typer.Argument(metavar="URL", help="postgresql://USER@HOST/NAME")]


def migrate(
    url: UrlArgument,
    index: Annotated[
        list[str] | None,
        typer.Option("--index", metavar="USER", help="Also make an index for this large memory."),
    ] = None,
    rewrite: Annotated[
        bool,
        typer.Option("--rewrite", help="Also take deleted words out of large tables; locks each."),
    ] = False,
) -> None:
    """Prepare a PostgreSQL database for memories, or bring its tables up to date."""
    try:
        from langmem_graph.storage.postgres_schema import prepare
    except ImportError as error:
        text = "PostgreSQL needs an extra: pip install 'langmem-graph[postgres]'."
        raise InvalidInputError(text) from error
    version = prepare(url, index or [], rewrite=rewrite)
    printing.note(f"The database is prepared: version {version} of its tables.")


def move(
    source: Annotated[str, typer.Argument(help="A memory's directory, or a database's URL.")],
    target: Annotated[str, typer.Argument(help="Another directory, or a database's URL.")],
    user: Annotated[
        list[str] | None, typer.Option("--user", "-u", help="Only these users; default: all.")
    ] = None,
) -> None:
    """Copy memories from a directory to a database, or back; what is copied stays where it was.

    The same command goes on where a move was stopped.
    """
    with opened(source, embeddings="hash") as old, opened(target, embeddings="hash") as new:
        _move(old, new, user)


def _move(old: Memory, new: Memory, users: list[str] | None) -> None:
    from langmem_graph.storage.move_rooms import move_user

    services = old._services, new._services
    rooms = services[0].directory
    chosen = users or [*rooms.users(), *rooms.users(shared=True)]
    rows = 0
    with printing.progress_bar() as bar:
        task = bar.add_task("moving", total=len(chosen))
        for name in chosen:
            rows += move_user(*services, name) or 0
            bar.advance(task)
    what = "users" if users else "users and shared rooms"
    printing.note(f"{len(chosen):,} {what}, {rows:,} rows copied and compared.")
