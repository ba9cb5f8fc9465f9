"""`langmem-graph chat`: a chatbot with memory; without a model it prints what it would
recall.
"""

import re
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from rich.text import Text

from langmem_graph.cli.printing import console, fail, note, note_messages, printable
from langmem_graph.memory import Memory
from langmem_graph.middleware import MemoryMiddleware
from langmem_graph.server_urls import shown_text

PROMPT = (
    "You are a helpful assistant with a long-term memory. What stands between "
    "<memory> tags are "
    "quotes from earlier conversations with this user; use them where they help, and "
    "say so when "
    "you do not know."
)
_HELP = "/why: what was recalled for the last answer · /new: a new conversation · /quit"
_COMMAND = re.compile(r"/[a-z]+")
Turn = Callable[[str, str], list[str]]
"""Takes a line and its session, prints the answer, and returns the ids of what was
recalled.
"""


def run(memory: Memory, user: str, model: BaseChatModel | None) -> None:
    """Chat until the input ends; a memory with a model of its own also reasons."""
    turn = _talking(memory, user, model) if model else _showing(memory, user)
    if model is None:
        note(
            "No language model: set OPENAI_API_KEY, or name one with --model or "
            "--base-url. "
            "Until then every line is kept, and what would have been recalled is shown."
        )
    note(_HELP)
    session = _new_session()
    recalled = list[str]()
    while (line := _next_line()) is not None:
        if line == "/new":
            session = _new_session()
            note("A new conversation; memory stays.")
        elif line == "/why":
            messages = memory.user(user).get_conversation(recalled)
            note_messages(messages)
            if not messages:
                note("Nothing was recalled.")
        elif _COMMAND.fullmatch(line):
            note(_HELP)
        elif line:
            recalled = turn(line, session)


def _new_session() -> str:
    return f"chat-{uuid4().hex[:12]}"


def _next_line() -> str | None:
    try:
        line = console.input("[bold cyan]you[/] ").strip()
        line = line.encode("utf-8", "replace").decode("utf-8")  # bytes that are no text
    except (EOFError, KeyboardInterrupt):
        console.print()
        return None
    return None if line in ("/quit", "/exit") else line


def _talking(memory: Memory, user: str, model: BaseChatModel) -> Turn:
    recalling = MemoryMiddleware(
        memory, user_id=user, mode="auto" if memory.has_model else "fast"
    )
    agent = create_agent(
        model,
        system_prompt=PROMPT,
        middleware=[recalling],
        checkpointer=InMemorySaver(),
    )

    def turn(line: str, session: str) -> list[str]:
        recalled: list[str] = []
        try:
            for mode, part in agent.stream(
                {"messages": [HumanMessage(line)]},
                {"configurable": {"thread_id": session}},
                stream_mode=["messages", "custom"],
            ):
                if mode == "custom":
                    recalled += _recalled_ids(part)
                if mode == "messages" and isinstance(part[0], AIMessage):
                    console.print(
                        Text(printable(str(part[0].text)), style="green"), end=""
                    )
            console.print()
        except Exception as error:  # noqa: BLE001  # a failing model ends its turn, not the chat
            console.print()
            fail(f"the model did not answer: {shown_text(error)}")
        return recalled

    return turn


def _recalled_ids(event: Any) -> list[str]:
    """The ids of a recall event; prints the error of a failed event."""
    if event.get("status") == "failed":
        fail(f"{event['event']}: {event['error']}")
    return event.get("message_ids", []) if event.get("event") == "memory_recall" else []


def _showing(memory: Memory, user: str) -> Turn:
    user_memory = memory.user(user)

    def turn(line: str, session: str) -> list[str]:
        answer = user_memory.recall(line)
        console.print(Text(printable(answer.context or "Nothing to recall.")))
        message = {"role": "user", "content": line, "id": uuid4().hex}
        user_memory.add([message], session_id=session)
        return [hit.message_id for hit in answer.evidence]

    return turn
