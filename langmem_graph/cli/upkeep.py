"""The commands of `langmem-graph` for the memories of many users, and for where they
are kept.
"""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from langmem_graph.cli import printing
from langmem_graph.cli.options import (
    DEFAULT_MEMORY,
    ChromaOption,
    EmbeddingsOption,
    JsonOption,
    MemoryOption,
    OneUserOption,
    opened,
)
from langmem_graph.errors import InvalidInputError
from langmem_graph.memory import Memory
from langmem_graph.storage.location import is_database, read_location
from langmem_graph.storage.migrations import MIGRATIONS
from langmem_graph.storage.rehearsal import Rehearsal, rehearse_directory

UrlArgument = Annotated[
    str,
    typer.Argument(
        metavar="URL",
        help="postgresql://USER@HOST/NAME; for --dry-run a directory too.",
    ),
]


def users(
    directory: MemoryOption = DEFAULT_MEMORY, as_json: JsonOption = False
) -> None:
    """List users and shared rooms, what they hold and what is due. Works beside a
    running app.
    """
    with opened(directory, embeddings="hash", read_only=True) as memory:
        found = memory.users()
        is_read = memory.usage().calls > 0
    if as_json:
        printing.print_json(found)
        return
    table = Table(
        "user", "messages", "sessions", "records", "to read", "to embed", "oldest due"
    )
    for one in found:
        counts = (one.messages, one.sessions, one.records, one.to_read, one.to_embed)
        is_due = one.oldest_due and (is_read or one.to_embed)
        due = f"{one.oldest_due:%Y-%m-%d %H:%M}" if is_due else ""
        cells = [f"{n:,}" for n in counts]
        cells[3] = cells[3] if is_read or not one.to_read else "no model"
        name = f"{'shared room ' * one.is_shared}{printing.escaped(one.user_id)}"
        table.add_row(name, *cells, due)
    printing.console.print(table)
    if not is_read and any(one.to_read for one in found):
        printing.note(
            "No model so far, so nothing is read: with Memory(path, model=…) it is."
        )


def usage(
    user: OneUserOption = None,
    room: Annotated[str | None, typer.Option(help="Only this shared room.")] = None,
    since: Annotated[
        str | None, typer.Option(help="Only calls since this time.")
    ] = None,
    directory: MemoryOption = DEFAULT_MEMORY,
    as_json: JsonOption = False,
) -> None:
    """Show what model calls cost, by day and purpose. Works beside a running app."""
    if user is not None and room is not None:
        raise InvalidInputError("--user and --room: give one of them.")
    with opened(directory, embeddings="hash", read_only=True) as memory:
        of = memory if user is None else memory.user(user)
        found = (of if room is None else memory.shared(room, as_user="operator")).usage(
            since
        )
    if as_json:
        printing.print_json(found)
        return
    table = Table("day", "purpose", "calls", "tokens in", "tokens out", "seconds")
    for line in found.lines:
        counts = (line.calls, line.input_tokens, line.output_tokens)
        table.add_row(
            f"{line.day}",
            line.purpose,
            *(f"{n:,}" for n in counts),
            f"{line.seconds:.1f}",
        )
    printing.console.print(table)
    printing.note(
        f"{found.calls:,} calls, {found.tokens:,} tokens, {found.seconds:,.1f} seconds."
    )


def expire(
    user: OneUserOption = None,
    messages: Annotated[
        int | None, typer.Option(help="Days that messages are kept.")
    ] = None,
    records: Annotated[
        int | None, typer.Option(help="Days that records are kept.")
    ] = None,
    directory: MemoryOption = DEFAULT_MEMORY,
    chroma: ChromaOption = None,
    embeddings: EmbeddingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete what is older than it is to be kept: by users' own limits, or else the
    ones given.
    """
    with opened(directory, chroma, embeddings) as memory:
        memory.keep_days(messages=messages, records=records)
        reports = memory.expire() if user is None else [memory.user(user).expire()]
    if as_json:
        printing.print_json(reports)
        return
    for report in reports:
        counts = f"{report.messages:,} messages and {report.records:,} records expired"
        kept = f"{report.kept:,} records stay, said again since"
        kind = "shared room " if report.is_shared else ""
        whose = f"{kind}[bold]{printing.escaped(report.user_id)}[/]"
        printing.console.print(f"{whose}: {counts}; {kept}.")
    if not any(report.messages for report in reports):
        printing.note("No message is older than it is to be kept.")
    if any(report.traces_left for report in reports):
        printing.note(printing.TRACES_LEFT)


def migrate(
    url: UrlArgument,
    index: Annotated[
        list[str] | None,
        typer.Option(
            "--index", metavar="USER", help="Also make an index for this large memory."
        ),
    ] = None,
    rewrite: Annotated[
        bool,
        typer.Option(
            "--rewrite", help="Also take deleted words out of large tables; locks each."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what it would do, and do nothing.")
    ] = False,
) -> None:
    """Prepare a PostgreSQL database for memories, or bring its tables up to date."""
    location = read_location(url)
    if dry_run and not is_database(location):
        for tried in rehearse_directory(Path(location)):
            _print_rehearsal(tried, len(MIGRATIONS))
        return
    try:
        from langmem_graph.storage.postgres_schema import VERSION, prepare, rehearse
    except ImportError as error:
        text = "PostgreSQL needs an extra: pip install 'langmem-graph[postgres]'."
        raise InvalidInputError(text) from error
    if dry_run:
        _print_rehearsal(rehearse(url), VERSION)
        return
    version = prepare(url, index or [], rewrite=rewrite)
    printing.note(f"The database is prepared: version {version} of its tables.")


def _print_rehearsal(tried: Rehearsal, newest: int) -> None:
    if tried.problem is not None:
        printing.note(f"{tried.place}: it would fail. {tried.problem}")
    elif tried.version == newest:
        printing.note(f"{tried.place}: version {newest}, nothing to do.")
    else:
        history = f"{tried.effects:,} effects upon {tried.records:,} records"
        printing.note(
            f"{tried.place}: version {tried.version} would become {newest}, with "
            f"{history}. Nothing was changed."
        )


def move(
    source: Annotated[
        str, typer.Argument(help="A memory's directory, or a database's URL.")
    ],
    target: Annotated[
        str, typer.Argument(help="Another directory, or a database's URL.")
    ],
    user: Annotated[
        list[str] | None,
        typer.Option("--user", "-u", help="Only these users; default: all."),
    ] = None,
) -> None:
    """Copy memories from a directory to a database, or back; what is copied stays where
    it was.

    The same command goes on where a move was stopped.
    """
    with (
        opened(source, embeddings="hash") as old,
        opened(target, embeddings="hash") as new,
    ):
        _move(old, new, user)


def _move(old: Memory, new: Memory, users: list[str] | None) -> None:
    from langmem_graph.storage.upkeep import move_user

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
