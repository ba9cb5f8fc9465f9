"""A travel assistant whose tool calls memory completes and checks before they run.

python examples/travel_assistant.py                        offline, with scripted
answers python examples/travel_assistant.py --base-url http://localhost:11434/v1 --model
llama3.2
"""

import argparse
import tempfile
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool

from langmem_graph import Memory, MemoryMiddleware
from langmem_graph.llm import load_chat_model
from langmem_graph.testing import ScriptedChatModel, each_turn

SAID = [
    ("2026-03-04T18:20", "On flights I always want seat 12A, by the window."),
    (
        "2026-04-11T08:05",
        "My Nordwind card number is NW-4471-0093, keep it for bookings.",
    ),
    ("2026-05-02T20:40", "My sister Eva flies with seat 30C, she likes the aisle."),
    ("2026-06-19T12:15", "I repainted the hall today, it took nine hours."),
]
REQUEST = "Book me the flight to Łódź on 2026-12-04 with my usual seat."
KNOWN = {
    "destination": "Łódź",
    "date": "2026-12-04",
    "seat": "12A",
    "card_number": "NW-4471-0093",
}


@tool
def book_flight(
    destination: str, date: str, seat: str | None = None, card_number: str | None = None
) -> str:
    """Book a flight.

    Args:
        destination: city of arrival.
        date: day of departure, YYYY-MM-DD.
        seat: the passenger's seat.
        card_number: the passenger's frequent flyer card.
    """
    return f"booked: {destination}, {date}, seat {seat}, card {card_number}"


def scripted_fill(asked: str) -> dict[str, Any]:
    """What a model might choose: words of the sources it is shown, each with its
    source.
    """
    arguments, sources = {}, []
    for slot, words in KNOWN.items():
        line = next((line for line in asked.splitlines() if words in line), "")
        if line:
            arguments[slot] = words
            sources.append({"path": slot, "fact": line.split(":")[0], "quote": words})
    return {"arguments": arguments, "sources": sources}


SCRIPTED = {"ToolFill": scripted_fill, "Extraction": {"memories": []}}


def scripted_agent(seat: str | None) -> ScriptedChatModel:
    """An agent that knows what the request says, and perhaps guesses the seat."""
    given = {"destination": "Łódź", "date": "2026-12-04"} | (
        {"seat": seat} if seat else {}
    )
    call = {"name": "book_flight", "args": given, "id": "call-1"}
    script = each_turn(AIMessage("", tool_calls=[call]), "It is done.")
    return ScriptedChatModel(script=script)


def ground(memory: Memory) -> None:
    """The call as memory fills it, each value with the message that says it."""
    known = memory.user("ana").ground(book_flight, REQUEST)
    for slot, where in known.grounding.items():
        source = where.message_ids or "the request"
        print(f"{slot} = {known.arguments[slot]!r}: {where.type}, {source}")
    for one in known.missing:
        print(f"{one.name} is missing: {one.reason}")


def ask(memory: Memory, model: Any) -> None:
    """One turn; the tool's results show what it was called with and what memory objects
    to.
    """
    grounded = MemoryMiddleware(memory, user_id="ana", ground_tools=[book_flight])
    agent = create_agent(model, [book_flight], middleware=[grounded])
    done = agent.invoke({"messages": [("user", REQUEST)]})
    for message in done["messages"]:
        for call in getattr(message, "tool_calls", []):
            print(f"agent calls: {call['args']}")
        if isinstance(message, ToolMessage):
            print(f"the tool:    {message.text}\n")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--base-url", help="any OpenAI-compatible server")
    options.add_argument("--model", help="its model")
    chosen = options.parse_args()
    model = load_chat_model(chosen.model, chosen.base_url)
    fills = model or ScriptedChatModel(answers=SCRIPTED)
    print(f"you: {REQUEST}\n")
    with (
        tempfile.TemporaryDirectory() as directory,
        Memory(directory, model=fills) as memory,
    ):
        for number, (at, text) in enumerate(SAID):
            said = {"role": "user", "content": text, "at": at, "id": f"m{number}"}
            memory.user("ana").add([said], session_id=at[:10])
        print("--- without an agent: user.ground(book_flight, request)")
        ground(memory)
        if model:
            print("\n--- an agent")
            ask(memory, model)
            return
        print("\n--- the agent leaves out what only memory knows")
        ask(memory, scripted_agent(seat=None))
        print("--- the agent guesses")
        ask(memory, scripted_agent(seat="30C"))


if __name__ == "__main__":
    main()
