"""Calls of a model that reasons over a memory."""

from typing import Any

from langchain_core.messages import AIMessage

from langmem_graph.graphs.nodes import MemoryState, with_memory
from langmem_graph.memory import Memory
from tests.support.models import AnswersBySchema
from tests.support.recalled import SAID

ANA = {"configurable": {"user_id": "ana"}}


def tell(memory: Memory, user: str) -> None:
    for number, (own, text) in enumerate(SAID.items(), 1):
        said = {
            "role": "user",
            "content": text,
            "id": own,
            "at": f"2025-03-0{number}T10:00",
        }
        memory.user(user).add([said], session_id="s")


def calls(model: AnswersBySchema) -> list[str]:
    return [name for name, _ in model.asked]


def with_records(memory: Memory, *texts: str) -> list[int]:
    ana = memory.user("ana")
    ids = []
    for number, text in enumerate(texts):
        said = {"role": "user", "content": f"words {number}", "id": f"w{number}"}
        ana.add([said], session_id="r")
        row = {
            "text": text,
            "source_message_ids": [f"w{number}"],
            "record_id": f"r{number}",
        }
        ana.add_records([row])
        ids.append(number + 1)
    return ids


def chat(seen: list[str]) -> Any:
    def chat(state: MemoryState) -> dict[str, Any]:
        messages = with_memory(state)
        seen.append(str(messages[-2].content) if len(messages) > 1 else "")
        return {"messages": [AIMessage("ok")]}

    return chat
