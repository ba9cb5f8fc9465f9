"""What `langmem-graph import` and `flush` do: add a file's sessions, and let a model
read them.

Both show how far they are. Reading begins with a forecast and a question, and can be
stopped. `demo` imports conversations of half a year and searches them.
"""

import signal
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.markup import escape

from langmem_graph.cli import printing
from langmem_graph.cli.printing import console, note, progress_bar, show_hits
from langmem_graph.errors import InvalidInputError
from langmem_graph.importers import read_conversations, read_records
from langmem_graph.memory import Memory, UserMemory
from langmem_graph.reports import AddReport, FlushForecast, FlushProgress, FlushReport

MAX_REASONS = 20
COUNTED = ("stored", "already_known", "renamed", "rejected", "not_yet_embedded")
"""What is counted of the reports of an import."""
ASK_ABOVE = 20
"""More model calls than this are not made without a yes."""
ANSWER_TOKENS = 4_096
"""Longest answer of a model behind `--base-url`; the memories of a full batch need
about 2,500.
"""
INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""
NO_MODEL = (
    "No language model to read with: set LANGMEM_GRAPH_MODEL or OPENAI_API_KEY, or "
    "name a model "
    "with --model or a server with --base-url."
)
USER = "mira"
QUESTIONS = (
    "What seat should I book?",
    "Which nuts am I allergic to?",
    "What did the vet say in February?",
    "When does the Nordlys pilot go live?",
    "E-7719",
    "日本酒が好きな友達",
)
SHOPPING = "I want to buy a sago palm. Does the puppy chew plants?"
_HERE = Path(__file__).parent
_PLACES = (
    _HERE / "demo_conversation.jsonl",  # in the wheel
    _HERE.parents[1] / "examples" / "demo_conversation.jsonl",  # in a checkout
)


def import_file(user: UserMemory, file: Path, *, quiet: bool = False) -> dict[str, Any]:
    """Add all conversations of a file; what cannot be stored is counted with its
    reason.
    """
    if not file.is_file():
        raise InvalidInputError(f"There is no file {file}.")
    conversations = [talk for talk in read_conversations(file) if talk.messages]
    totals = Counter({**dict.fromkeys(COUNTED, 0), "sessions": len(conversations)})
    reasons: list[str] = []
    total = sum(len(talk.messages) for talk in conversations)
    with embedding_bar(user, "importing", total, quiet) as advance_to:
        done = 0
        for talk in conversations:
            try:
                report = user.add(talk.messages, session_id=talk.session_id)
            # this session cannot be stored; the others can
            except InvalidInputError as error:
                totals["rejected"] += len(talk.messages)
                reasons.append(f"{talk.session_id!r}: {error}")
                continue
            _count(totals, report)
            reasons += [f"{talk.session_id}: {r.reason}" for r in report.rejected]
            done += len(talk.messages)
            advance_to(done)
    reasons += _import_records(user, file, totals)
    return {**totals, "reasons": reasons[:MAX_REASONS]}


def _import_records(user: UserMemory, file: Path, totals: Counter[str]) -> list[str]:
    """Add the file's records, after the messages that they cite."""
    rows = read_records(file)
    if not rows:
        return []
    report = user.add_records(rows)
    totals["records"] += len(report.stored)
    totals["rejected"] += len(report.rejected)
    return [f"record {r.record_id or r.position}: {r.reason}" for r in report.rejected]


def _count(totals: Counter[str], report: AddReport) -> None:
    for name in COUNTED:
        totals[name] += len(getattr(report, name))


@contextmanager
def embedding_bar(
    user: UserMemory, label: str, total: int | None, quiet: bool
) -> Iterator[Callable[[int], None]]:
    """A progress bar that moves with each batch that is embedded; with None its end is
    unknown.
    """
    services = user._services  # same package
    with progress_bar(quiet) as bar:
        task = bar.add_task(label, total=total)
        services.on_embedded = lambda count: bar.advance(task, count)
        try:
            yield lambda done: bar.update(task, completed=done)
        finally:
            services.on_embedded = None


def load_reader(model: str | None, base_url: str | None) -> Any:
    """The chat model that reads; None where none is named or configured."""
    from langmem_graph.llm import chat_models  # LangChain is slow to import

    limits = {"max_tokens": ANSWER_TOKENS} if base_url else {}
    return chat_models.load_chat_model(model, base_url, **limits)


def read_backlog(
    memory: Memory,
    user_id: str,
    show: Callable[[FlushReport], None],
    *,
    yes: bool,
    quiet: bool,
) -> None:
    """Read what is pending, after a forecast and, where it takes many calls, a yes.

    Raises:
        InvalidInputError: there is no model, or a yes is needed and nobody can be
            asked.
        typer.Exit: Ctrl-C ended the flush after a batch, or a second one in the middle
            of it; or not every answer of the model could be used.
    """
    user = memory.user(user_id)
    forecast = user.flush_forecast()
    if not quiet:
        printing.show_forecast(user_id, forecast)
    if not memory.has_model:
        raise InvalidInputError(NO_MODEL)
    _ask(forecast, yes)
    with _until_interrupted() as stopped, _shown(forecast, quiet) as show_progress:

        def on_progress(progress: FlushProgress) -> bool:
            show_progress(progress)
            return not stopped.is_set()

        try:
            report = user.flush(on_progress)
        except KeyboardInterrupt:
            raise _stopped(user_id, "the last batch is not read.") from None
    show(report)
    if stopped.is_set() and report.status == "partial":
        raise _stopped(user_id, f"{report.pending:,} messages wait.")
    if report.status == "partial":
        raise typer.Exit(1)


def _stopped(user_id: str, what: str) -> typer.Exit:
    go_on = f"Go on with: langmem-graph flush --user {user_id} (and the same options)."
    printing.note(f"Stopped; {what} {go_on}", printing.errors)
    return typer.Exit(INTERRUPTED)


def _ask(forecast: FlushForecast, yes: bool) -> None:
    if yes or forecast.calls_high <= ASK_ABOVE:
        return
    if not _can_be_asked():
        raise InvalidInputError(
            f"To read {forecast.messages:,} messages takes {forecast.calls_low:,} to "
            f"{forecast.calls_high:,} model calls, and nobody can be asked here. To "
            "read them, add "
            "--yes."
        )
    typer.confirm("Read them now?", abort=True, err=True)


def _can_be_asked() -> bool:
    return sys.stdin.isatty()


@contextmanager
def _until_interrupted() -> Iterator[threading.Event]:
    """The first Ctrl-C inside the block sets the event; the second one is an
    interrupt.
    """
    stopped = threading.Event()

    def on_interrupt(*_: object) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()
        printing.note(
            "Stopping after this batch; Ctrl-C again stops at once.", printing.errors
        )

    # only there signals arrive
    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return
    earlier = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGINT, earlier)


@contextmanager
def _shown(
    forecast: FlushForecast, quiet: bool
) -> Iterator[Callable[[FlushProgress], None]]:
    """Shows progress: as a bar on a terminal, else as a line for each batch."""
    if quiet or not printing.errors.is_terminal:
        yield (
            lambda progress: (
                None if quiet else printing.note(_line(progress), printing.errors)
            )
        )
        return
    with progress_bar() as bar:
        task = bar.add_task("reading", total=forecast.messages)
        yield lambda progress: bar.update(
            task,
            completed=progress.read,
            total=progress.read + progress.pending,
            description=(
                f"reading: {progress.calls:,} calls, {progress.stored:,} records"
            ),
        )


def _line(progress: FlushProgress) -> str:
    return (
        f"{progress.read:,} read, {progress.pending:,} wait: {progress.calls:,} calls, "
        f"{progress.input_tokens:,} + {progress.output_tokens:,} tokens, "
        f"{progress.stored:,} "
        f"records new, {progress.updated:,} updated, {progress.seconds:,.0f} s"
    )


def conversation_file() -> Path:
    """The file with the conversations of the demo."""
    return next(place for place in _PLACES if place.exists())


def run_demo(directory: str | None, embeddings: str | None) -> None:
    """Import, search, and print the context that a model would be given."""
    with (
        tempfile.TemporaryDirectory(prefix="langmem-graph-demo-") as scratch,
        Memory(directory or scratch, embeddings=embeddings) as memory,
    ):
        mira = memory.user(USER)
        totals = import_file(mira, conversation_file())
        console.rule("[bold]1. a conversation goes in")
        console.print(
            f"{totals['stored']} messages of {totals['sessions']} sessions, February "
            "to August, "
            "kept word for word. No model was called, nothing left this machine."
        )
        console.rule("[bold]2. look-ups come back with date, score and source")
        for question in QUESTIONS:
            show_hits(question, mira.search_conversation(question, k=3))
        _show_context(mira)
    console.rule("[bold]next: your own history")
    commands = (
        "langmem-graph import conversations.json --user me\n"
        'langmem-graph search "that restaurant in Lisbon" --user me'
    )
    console.print(commands, markup=False, highlight=False)


def _show_context(mira: UserMemory) -> None:
    console.rule("[bold]3. what a model is shown before it answers")
    answer = mira.recall(SHOPPING, k=8, max_tokens=500)
    console.print(f"[cyan]{escape(SHOPPING)}[/]")
    console.print(answer.context, markup=False, highlight=False)
    report = answer.report
    note(
        f"{report.quoted} quotes, {report.context_tokens} tokens"
        f"{'' if report.tokens_exact else ' (estimated)'}, {report.llm_calls} model "
        "calls, "
        f"{report.milliseconds['total']:.0f} ms"
    )
