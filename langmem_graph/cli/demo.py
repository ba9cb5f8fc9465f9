"""`langmem-graph demo`: imports conversations of half a year and searches them."""

import tempfile
from pathlib import Path

from rich.markup import escape

from langmem_graph.cli.import_and_read import import_file
from langmem_graph.cli.printing import console, note, show_hits
from langmem_graph.memory import Memory, UserMemory

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


def conversation_file() -> Path:
    """The file with the conversations of the demo."""
    return next(place for place in _PLACES if place.exists())


def run(directory: Path | None, embeddings: str | None) -> None:
    """Import, search, and print the context that a model would be given."""
    with (
        tempfile.TemporaryDirectory(prefix="langmem-graph-demo-") as scratch,
        Memory(directory or scratch, embeddings=embeddings) as memory,
    ):
        mira = memory.user(USER)
        totals = import_file(mira, conversation_file())
        console.rule("[bold]1. a conversation goes in")
        console.print(
            f"{totals['stored']} messages of {totals['sessions']} sessions, February to August, "
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
        f"{'' if report.tokens_exact else ' (estimated)'}, {report.llm_calls} model calls, "
        f"{report.milliseconds['total']:.0f} ms"
    )
