"""Memory in two minutes: a correction, a filled tool call, a warning, and what is
remembered.

python examples/demo.py                              recorded answers stand in for a
model python examples/demo.py --model openai:gpt-4o-mini   a model answers python
examples/demo.py --base-url http://localhost:11434/v1 --model llama3.2

With --record the answers are kept for later runs, in demo_answers.json:

python examples/demo.py --record --model openai:gpt-4o-mini
python examples/demo.py --record --queue DIR --by NAME   NAME answers with
benchmarks.queue_model
"""

import argparse
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from textwrap import fill
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_function
from recorded_model import RecordedChatModel, UnknownPromptError

from langmem_graph import Memory, MemoryMiddleware
from langmem_graph.errors import TokenCountWarning
from langmem_graph.graphs import create_grounding_graph, create_write_graph
from langmem_graph.llm import load_chat_model
from langmem_graph.settings import ExtractionSettings, ReasoningSettings, Settings

RECORDING = Path(__file__).with_name("demo_answers.json")
MARCH = [
    (
        "2026-03-04T18:20",
        "I live in Porto with my puppy Miso. He is teething and chews plants.",
    ),
    (
        "2026-03-04T18:24",
        "On flights I always take seat 12A. My Nordwind card is NW-4471-0093.",
    ),
]
JUNE = [
    ("2026-06-19T09:05", "I've moved: since the first of June I live in Berlin."),
    (
        "2026-06-19T09:07",
        "My sister Eva flies often. She always takes seat 30C, on the aisle.",
    ),
]
WHERE = "Which city do I live in, and which one was it before?"
FLIGHT = "Book me a flight to Łódź, with my usual seat."
PALM = "Where can I buy a sago palm?"
RULES = "You are a helpful assistant. Answer in one or two plain sentences."
DAY = 86_400.0
SETTINGS = Settings(
    extraction=ExtractionSettings(call_seconds=DAY),
    reasoning=ReasoningSettings(call_seconds=DAY, seconds=DAY),
)
"""Whoever answers may take their time."""


@tool
def book_flight(
    destination: str, seat: str, card_number: str, passport_number: str
) -> str:
    """Book a flight.

    Args:
        destination: city of arrival.
        seat: the passenger's seat.
        card_number: the passenger's frequent flyer card.
        passport_number: the passenger's passport.
    """
    return f"booked: {destination}, {seat}, {card_number}, {passport_number}"


class Demo:
    """The parts of the demo, on one memory: each is a run of a graph."""

    def __init__(self, memory: Memory, model: Any) -> None:
        self.user = memory.user("ana")
        self.write = create_write_graph(memory)
        self.fill = create_grounding_graph(memory)
        remembering = MemoryMiddleware(
            memory, mode="auto", extraction="manual", show_context=True
        )
        self.agent = create_agent(model, middleware=[remembering], system_prompt=RULES)

    def tell(self, thread: str, said: list[tuple[str, str]]) -> None:
        """A run of the write graph: messages are stored, and the model reads them."""
        messages = [
            HumanMessage(text, id=f"{thread}-{n}", additional_kwargs={"at": at})
            for n, (at, text) in enumerate(said, 1)
        ]
        for message in messages:
            show(
                f"{message.id}, {message.additional_kwargs['at'][:10]}, you",
                message.text,
            )
        done = self.write.invoke({"messages": messages}, config(thread))
        read = done["memory_report"]["read"]
        print(f"  → {read['stored']} records made, {read['updated']} changed")

    def ask(self, thread: str, request: str) -> None:
        """A run of an agent with memory: what memory shows the model, and its
        answer.
        """
        show("you", request)
        given = {"messages": [HumanMessage(request)]}
        for kind, part in self.agent.stream(
            given, config(thread), stream_mode=["custom", "values"]
        ):
            if kind == "custom" and part["event"] == "memory_recall":
                for line in part["context"].split("\nProfile:")[0].splitlines()[1:]:
                    show("│", line)
        show("→ model", part["messages"][-1].text)

    def correction(self) -> None:
        """A fact, and months later another one in its place; then a question about
        both.
        """
        self.tell("march", MARCH)
        self.tell("june", JUNE)
        for record in self.user.records():
            for change in self.user.changes(record.record_id):
                until = f'"{record.text}" held until {record.valid_to:%Y-%m-%d}'
                show(
                    "changed",
                    f'{until}: you said "{change.quote}" ({change.message_id})',
                )
        self.ask("today", WHERE)

    def filled_call(self) -> None:
        """A run of the grounding graph: the arguments of a call, each with its
        source.
        """
        show("you", FLIGHT)
        tools = [convert_to_openai_function(book_flight)]
        call = self.fill.invoke({"request": FLIGHT, "tools": tools}, config("today"))[
            "call"
        ]
        for slot, source in call["grounding"].items():
            where = ", ".join(source["message_ids"]) or "this request"
            show(slot, f'{call["arguments"][slot]}, from "{source["text"]}" ({where})')
        for slot in call["missing"]:
            show(slot["name"], f"missing, to be asked for: {slot['reason']}")

    def warning(self) -> None:
        """A request that something said months ago speaks against."""
        self.ask("later", PALM)

    def kept(self) -> None:
        """All records with the messages that they were made of, and the names of the
        files.
        """
        for record in self.user.records():
            until = f", until {record.valid_to:%Y-%m-%d}" if record.valid_to else ""
            show("-", f"{record.text} ({', '.join(record.message_ids)}{until})")
        show(
            "and",
            (
                "every message word for word, and the files "
                f"{', '.join(self.user.files())}"
            ),
        )


def config(thread: str) -> Any:
    return {"configurable": {"user_id": "ana", "thread_id": thread}}


def show(who: str, text: str) -> None:
    between = ": " if who[-1].isalpha() else " "
    print(
        fill(f"{who}{between}{text}", 98, initial_indent="  ", subsequent_indent="    ")
    )


def run(model: Any, check: Callable[[], None]) -> None:
    """All parts, in a memory that is deleted afterwards."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Memory(folder, model=model, settings=SETTINGS) as memory,
    ):
        demo = Demo(memory, model)
        parts = {
            "1. A correction is understood": demo.correction,
            "2. A tool call is filled, each value from its source": demo.filled_call,
            "3. An act is warned of": demo.warning,
            "4. What memory holds, each with its source": demo.kept,
        }
        for title, part in parts.items():
            print(f"\n{title}\n")
            part()
            check()


def replay(model: RecordedChatModel) -> None:
    """The demo with recorded answers, or while they are recorded."""
    if model.asks is None:
        on = model.recording["recorded_on"]
        print(
            f"The model's answers are recorded: {model.model_name} gave them on "
            f"{on}, "
            "from the"
        )
        print(
            "prompts that memory makes here. No key, no network; all else happens now."
        )
    try:
        run(model, model.check)
    except UnknownPromptError as error:
        raise SystemExit(f"\n{error}") from None
    if model.changed:
        kinds = ", ".join(sorted(model.changed))
        print(
            "\nThe rules of these prompts have changed since they were answered: "
            f"{kinds}."
        )


def model_of(chosen: Any) -> Any:
    """The model that the options name; None where they name none."""
    if chosen.queue:
        from benchmarks.queue_model import Queue, QueueModel  # in a checkout alone

        return QueueModel(queue=Queue(chosen.queue), tag="demo")
    named = chosen.model or chosen.base_url
    return load_chat_model(chosen.model, chosen.base_url) if named else None


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    options = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    options.add_argument("--model", help="a model to ask, such as openai:gpt-4o-mini")
    options.add_argument("--base-url", help="any OpenAI-compatible server")
    options.add_argument(
        "--queue", type=Path, help="a folder in which somebody answers"
    )
    options.add_argument("--record", action="store_true", help="keep the answers")
    options.add_argument("--by", help="with --queue: the name of who answers")
    chosen = options.parse_args()
    # without network tokens are estimated
    warnings.simplefilter("ignore", TokenCountWarning)
    name, asked = chosen.by or chosen.model or chosen.base_url, model_of(chosen)
    if chosen.record and not (asked and name):
        options.error("--record needs --model, or --queue and --by")
    if asked is None or chosen.record:
        model = RecordedChatModel(file=RECORDING, asks=asked)
        replay(model)
        if chosen.record:
            model.save(name)
    else:
        print(f"The model's answers are given now, by {name or 'whoever answers'}.")
        run(asked, lambda: None)


if __name__ == "__main__":
    main()
