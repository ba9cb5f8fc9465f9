"""The commands of `langmem-graph`: each opens a memory, calls one method and prints its
result.

Those for many users are in `upkeep`, and those that serve in `serving`.
"""

import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from langmem_graph import __version__
from langmem_graph.cli import printing
from langmem_graph.cli import show as show_command
from langmem_graph.cli.import_and_read import (
    NO_MODEL,
    embedding_bar,
    import_file,
    load_reader,
    read_backlog,
    run_demo,
)
from langmem_graph.cli.options import (
    DEFAULT_MEMORY,
    BaseUrlOption,
    ChromaOption,
    Commands,
    EmbeddingsOption,
    JsonOption,
    MemoryOption,
    ModelOption,
    SharedOption,
    UserOption,
    WhereOption,
    YesOption,
    check_file,
    known_rooms,
    opened,
    read_json,
    shown,
)
from langmem_graph.cli.printing import print_json
from langmem_graph.cli.serving import inspect, mcp
from langmem_graph.cli.upkeep import expire, migrate, move, usage, users
from langmem_graph.errors import InvalidInputError, LangMemGraphError, TokenCountWarning
from langmem_graph.reports import FlushReport
from langmem_graph.results import SearchBy
from langmem_graph.retrieval.quoted_context import plain_json

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"langmem-graph {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version.",
            callback=_show_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Long-term memory for LangGraph agents: import, search and look after it."""


@app.command()
def demo(
    directory: Annotated[
        str | None,
        typer.Option("--memory", "--dir", "-m", help="Keep the demo's memory here."),
    ] = None,
    embeddings: EmbeddingsOption = None,
) -> None:
    """Replay a conversation of several sessions, then look things up in it."""
    run_demo(directory, embeddings)


@app.command()
def chat(
    user: UserOption = "me",
    model: Annotated[
        str | None,
        typer.Option("--model", help="Default: openai:gpt-4o-mini, or the server's."),
    ] = None,
    base_url: BaseUrlOption = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", min=1, help="Longest answer.")
    ] = None,
    reason: Annotated[
        bool,
        typer.Option("--reason", help="Let the model also read and reason for memory."),
    ] = False,
    directory: MemoryOption = DEFAULT_MEMORY,
    chroma: ChromaOption = None,
    embeddings: EmbeddingsOption = None,
) -> None:
    """Talk to a chatbot that remembers. Without a model it shows what it would
    recall.
    """
    from langmem_graph.cli import chat as talk  # agents are slow to import
    from langmem_graph.llm import chat_models

    limits = {"max_tokens": max_tokens} if max_tokens else {}
    chosen = chat_models.load_chat_model(model, base_url, **limits)
    reasoner = chosen if reason else None
    with opened(directory, chroma, embeddings, model=reasoner) as memory:
        talk.run(memory, user, chosen)


@app.command("import")
def import_(
    file: Annotated[
        Path,
        typer.Argument(help="Chat JSONL or a ChatGPT export.", callback=check_file),
    ],
    user: UserOption,
    read: Annotated[
        bool, typer.Option("--read", help="Then let a model read, as flush.")
    ] = False,
    yes: YesOption = False,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    directory: MemoryOption = DEFAULT_MEMORY,
    chroma: ChromaOption = None,
    embeddings: EmbeddingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add the conversations of a file, each message at its own time."""
    reader = load_reader(model, base_url) if read else None
    if read and reader is None:
        raise InvalidInputError(NO_MODEL)
    with opened(directory, chroma, embeddings) as memory:
        totals = import_file(memory.user(user), file, quiet=as_json)
    if not as_json:
        printing.show_import(totals, file, user)
    elif not read:
        print_json(totals)

    def show_both(report: FlushReport) -> None:
        if as_json:
            print_json({**totals, "read": printing.plain(report)})
        else:
            printing.show_flush(user, report)

    if read:
        with opened(directory, chroma, embeddings, model=reader) as memory:
            read_backlog(memory, user, show_both, yes=yes, quiet=as_json)


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="What to look for, in plain words.")],
    user: UserOption,
    k: Annotated[int, typer.Option("-k", min=1, help="How many hits at most.")] = 5,
    by: Annotated[str, typer.Option(help="message or session.")] = "message",
    explain: Annotated[
        bool, typer.Option("--explain", help="Show signals, near misses.")
    ] = False,
    where: WhereOption = None,
    shared: SharedOption = None,
    directory: MemoryOption = DEFAULT_MEMORY,
    embeddings: EmbeddingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find messages. Works beside a running app."""
    within = read_json(where, "--where")
    with opened(directory, embeddings=embeddings, read_only=True) as memory:
        hits = memory.user(
            user, shared=known_rooms(memory, shared)
        ).search_conversation(
            query, k, by=cast(SearchBy, by), explain=explain, where=within
        )  # checked there
    print_json(hits) if as_json else printing.show_hits(query, hits)


@app.command()
def explain(
    question: Annotated[
        str, typer.Argument(help="A question, or something to be done.")
    ],
    user: UserOption,
    shared: SharedOption = None,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    directory: MemoryOption = DEFAULT_MEMORY,
    embeddings: EmbeddingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Reason about a question over memory and draw the proof. Works beside a running
    app.
    """
    from langmem_graph.llm import chat_models

    chosen = chat_models.load_chat_model(model, base_url)
    with opened(
        directory, embeddings=embeddings, model=chosen, read_only=True
    ) as memory:
        rooms = known_rooms(memory, shared)
        if chosen is None:
            printing.note(
                "No language model: set OPENAI_API_KEY, or name one with --model or "
                "--base-url. "
                "Until then this is what a plain look-up finds."
            )
            typer.echo(
                memory.user(user, shared=rooms).recall(question).context or "Nothing."
            )
            return
        on_event = None if as_json else show_command.watch_reasoning
        own = memory.user(user, shared=rooms)
        recalled = own.recall(question, mode="reason", on_event=on_event)
    print_json(recalled) if as_json else show_command.show_proof(question, recalled)


@app.command()
def show(
    user: UserOption,
    session: Annotated[
        str | None, typer.Option(help="Print this session's messages.")
    ] = None,
    record: Annotated[
        str | None, typer.Option(help="Print this record and its history.")
    ] = None,
    file: Annotated[
        str | None, typer.Option(help="Print a topic track or the profile.")
    ] = None,
    as_of: Annotated[
        str | None, typer.Option("--as-of", help="What held on this date.")
    ] = None,
    directory: MemoryOption = DEFAULT_MEMORY,
    as_json: JsonOption = False,
) -> None:
    """Show the layers of a user's memory, down to the messages. Works beside a running
    app.
    """
    with opened(directory, read_only=True) as memory:
        room = memory.user(user)
        if session is not None:
            show_command.show_session(room, session, as_json)
        elif record is not None:
            show_command.show_record(room, record, as_json)
        elif file is not None:
            show_command.show_file(room, file, as_json)
        else:
            show_command.show_layers(user, room, as_of, as_json)


@app.command()
def doctor(
    user: UserOption,
    every: Annotated[
        bool, typer.Option("--all", help="Look up every vector, not 200.")
    ] = False,
    directory: MemoryOption = DEFAULT_MEMORY,
    chroma: ChromaOption = None,
    embeddings: EmbeddingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare the ledger with the index. Exit code 1 when something needs doing."""
    with opened(directory, chroma, embeddings) as memory:
        health = memory.user(user).doctor(sample=0 if every else 200)
    print_json(health) if as_json else printing.show_health(user, health)
    raise typer.Exit(0 if health.ok else 1)


@app.command()
def rebuild(
    user: UserOption,
    reembed: Annotated[
        bool,
        typer.Option(
            "--reembed", help="Embed everything anew, for a change of embedder."
        ),
    ] = False,
    directory: MemoryOption = DEFAULT_MEMORY,
    chroma: ChromaOption = None,
    embeddings: EmbeddingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make the index anew from the ledger."""
    with opened(directory, chroma, embeddings) as memory:
        known = memory.user(user)
        # without --reembed nothing is embedded, and the bar only lives
        held = known.overview()
        total = held.messages + held.records if reembed else None
        with embedding_bar(known, "rebuilding", total, as_json):
            health = known.rebuild(reembed=reembed)
    print_json(health) if as_json else printing.show_health(user, health)


@app.command()
def flush(
    user: UserOption,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    yes: YesOption = False,
    directory: MemoryOption = DEFAULT_MEMORY,
    chroma: ChromaOption = None,
    embeddings: EmbeddingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a model read what it has not read yet: records, topics, profile. Ctrl-C stops
    it.
    """
    reader = load_reader(model, base_url)
    show_report = print_json if as_json else partial(printing.show_flush, user)
    with opened(directory, chroma, embeddings, model=reader) as memory:
        read_backlog(memory, user, show_report, yes=yes, quiet=as_json)


@app.command()
def forget(
    user: UserOption,
    record: Annotated[str | None, typer.Option(help="A record's id.")] = None,
    message: Annotated[str | None, typer.Option(help="A message's id.")] = None,
    session: Annotated[str | None, typer.Option(help="A session's id.")] = None,
    room: Annotated[str | None, typer.Option(help="In this shared room.")] = None,
    author: Annotated[
        str | None, typer.Option(help="With --room: all of this user.")
    ] = None,
    directory: MemoryOption = DEFAULT_MEMORY,
    chroma: ChromaOption = None,
    embeddings: EmbeddingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete one record, message or session for good, with everything made of it."""
    if author is not None and room is None:
        raise InvalidInputError(
            "--author needs --room: authors are known in shared rooms alone."
        )
    named: dict[str, Any] = {"record": record, "message": message, "session": session}
    with opened(directory, chroma, embeddings) as memory:
        if room is None:
            report = memory.user(user).forget(**named)
        else:
            report = memory.shared(room, as_user=user).forget(**named, author=author)
    if not report.messages and not report.records:
        raise InvalidInputError(
            "Nothing was deleted: there is no such message, record or session."
        )
    print_json(report) if as_json else printing.show_forgotten(user, report)


@app.command()
def correct(
    record: Annotated[str, typer.Argument(help="The id of the record that is wrong.")],
    text: Annotated[str, typer.Argument(help="The sentence that is right.")],
    user: UserOption,
    directory: MemoryOption = DEFAULT_MEMORY,
    chroma: ChromaOption = None,
    embeddings: EmbeddingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Replace a record that was never right; `undo` takes it back."""
    with opened(directory, chroma, embeddings) as memory:
        right = memory.user(user).correct(record, text)
    print_json(right) if as_json else printing.show_records([right])


@app.command()
def undo(
    user: UserOption,
    record: Annotated[
        str | None, typer.Option(help="A record: its latest change.")
    ] = None,
    message: Annotated[
        str | None, typer.Option(help="A message: all that it caused.")
    ] = None,
    directory: MemoryOption = DEFAULT_MEMORY,
    chroma: ChromaOption = None,
    embeddings: EmbeddingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take back the latest change of a record, or all that one message caused."""
    with opened(directory, chroma, embeddings) as memory:
        touched = memory.user(user).undo(record, message=message)
    print_json(touched) if as_json else printing.show_records(touched)


for _command in (expire, inspect, mcp, migrate, move, users, usage):
    app.command()(_command)


@app.command()
def export(
    user: UserOption,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Default: print.", callback=check_file),
    ] = None,
    where: WhereOption = None,
    directory: MemoryOption = DEFAULT_MEMORY,
) -> None:
    """Write every message and record as chat JSONL. Works beside a running app."""
    within = read_json(where, "--where")
    with opened(directory, read_only=True) as memory:
        own = memory.user(user)
        rows = own.export(where=within) + own.export_records(history=True, where=within)
    lines = "".join(f"{plain_json(row)}\n" for row in rows)
    if output is None:
        typer.echo(lines, nl=False)
    else:
        output.write_text(lines, encoding="utf-8")
        printing.note(f"Wrote {len(rows):,} messages and records to {output}.")


@app.command()
def erase(
    user: UserOption,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    directory: MemoryOption = DEFAULT_MEMORY,
    chroma: ChromaOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete everything of a user, for good."""
    if not yes:
        typer.confirm(
            f"Erase everything of {user!r} in {shown(directory)}?", abort=True
        )
    with opened(directory, chroma, "hash") as memory:  # erasing embeds nothing
        is_known = memory._services.directory.has(user)  # same package
        report = memory.user(user).erase()
    if not (is_known or report.files or report.shared_rooms):
        raise InvalidInputError(
            f"Nothing is stored of user {user!r} in {shown(directory)}: no data erased."
        )
    print_json(report) if as_json else printing.show_erased(user, report)


def main() -> None:
    """Run the command line; our own errors are one line, without a traceback."""
    # the views say that a count is estimated
    warnings.simplefilter("ignore", TokenCountWarning)
    try:
        app()
    except (LangMemGraphError, OSError) as error:
        printing.fail(" ".join(str(error).split()))
        sys.exit(2)
