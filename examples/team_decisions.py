"""A team's decisions are a shared room; what a member told the assistant stays the
member's own.

python examples/team_decisions.py                        offline: what a model would be
shown
"""

import asyncio
import tempfile
from typing import Any

from langgraph.graph import START, StateGraph

from langmem_graph import Memory
from langmem_graph.graphs import MemoryState, create_recall_node

MEMBERS = {"team-42": {"ana", "bob"}}
DECIDED = [
    ("ana", "2040-03-01", "We decided to release every second Thursday."),
    ("bob", "2040-03-08", "We decided that nobody releases without a second reviewer."),
]
OWN = "I am on holiday on the Thursday of the next release."
ASKED = "What do I have to know about the next release?"


async def authorize(user: str, room: str, action: str) -> bool:
    """Who is a member may read and write. An application asks its database here."""
    return user in MEMBERS.get(room, set())


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        async with Memory(directory, authorize=authorize) as memory:
            for author, day, text in DECIDED:
                team = memory.shared("team-42", as_user=author)
                await team.aadd([("user", text)], session_id="decisions", at=day)
            await memory.user("ana").aadd(
                [("user", OWN)], session_id="mine", at="2040-03-09"
            )
            builder = StateGraph(MemoryState)
            recall = create_recall_node(memory, shared=["team-42"], report=True)
            builder.add_node("recall", recall)
            builder.add_edge(START, "recall")
            graph: Any = builder.compile()
            for user in ("ana", "eve"):  # eve is no member
                config = {"configurable": {"user_id": user, "thread_id": user}}
                state = await graph.ainvoke({"messages": [("user", ASKED)]}, config)
                report = state["memory_report"]["recall"]
                shown = state["memory_context"] or "nothing"
                print(
                    f"--- {user}: {ASKED}\n{shown}\n{report['status']} "
                    f"{report['warnings']}"
                )


if __name__ == "__main__":
    asyncio.run(main())
