"""`langmem-graph expire`: deletes what is older than it is to be kept."""

from typing import Annotated

import typer

from langmem_graph.cli import printing
from langmem_graph.cli.options import (
    DEFAULT_MEMORY,
    ChromaOption,
    EmbeddingsOption,
    JsonOption,
    MemoryOption,
    opened,
)


def expire(
    user: Annotated[
        str | None, typer.Option("--user", "-u", help="Only this user; default: all.")
    ] = None,
    messages: Annotated[int | None, typer.Option(help="Days that messages are kept.")] = None,
    records: Annotated[int | None, typer.Option(help="Days that records are kept.")] = None,
    directory: MemoryOption = DEFAULT_MEMORY,
    chroma: ChromaOption = None,
    embeddings: EmbeddingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete what is older than it is to be kept: by users' own limits, or else the ones given."""
    with opened(directory, chroma, embeddings) as memory:
        memory.keep_days(messages=messages, records=records)
        reports = memory.expire() if user is None else [memory.user(user).expire()]
    if as_json:
        printing.print_json(reports)
        return
    for report in reports:
        counts = f"{report.messages:,} messages and {report.records:,} records expired"
        kept = f"{report.kept:,} records stay, said again since"
        whose = f"{'shared room ' * report.is_shared}[bold]{printing.escaped(report.user_id)}[/]"
        printing.console.print(f"{whose}: {counts}; {kept}.")
    if not any(report.messages for report in reports):
        printing.note("No message is older than it is to be kept.")
    if any(report.traces_left for report in reports):
        printing.note(printing.TRACES_LEFT)
