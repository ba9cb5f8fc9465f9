"""A shop's agent: the catalogue is a shared room, what a customer said is their own
memory.

python examples/shop_catalogue.py                        offline, a scripted model
answers python examples/shop_catalogue.py --base-url http://localhost:11434/v1 --model
llama3.2
"""

import argparse
import tempfile
from typing import Any

from langchain.agents import create_agent

from langmem_graph import Memory, MemoryMiddleware
from langmem_graph.llm import load_chat_model
from langmem_graph.testing import ScriptedChatModel, recite

CATALOGUE = [
    "The Trail shoe: sizes 38 to 46, vegan, 120 euros.",
    "The Alpine boot: sizes 40 to 47, leather, 210 euros.",
    "The Trail shoe runs small: order one size up.",
]
STAFF = {"lea"}


def authorize(user: str, room: str, action: str) -> bool:
    """Everybody reads the catalogue, the staff also writes it; there is no
    other room.
    """
    return room == "catalogue" and (action == "read" or user in STAFF)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--base-url", help="any OpenAI-compatible server")
    options.add_argument("--model", help="its model")
    chosen = options.parse_args()
    model = load_chat_model(chosen.model, chosen.base_url) or ScriptedChatModel(
        script=recite
    )
    with (
        tempfile.TemporaryDirectory() as directory,
        Memory(directory, authorize=authorize) as memory,
    ):
        catalogue = memory.shared("catalogue", as_user="lea")
        catalogue.add([("user", text) for text in CATALOGUE], session_id="spring")
        agent: Any = create_agent(
            model, middleware=[MemoryMiddleware(memory, shared=["catalogue"])]
        )
        for user, thread, line in (
            ("ana", "march", "My size is 42, and I wear vegan shoes."),
            ("ana", "may", "Which size of the Trail shoe do I order?"),
            ("bob", "may", "Which size of the Trail shoe do I order?"),
        ):
            config = {
                "configurable": {"user_id": user, "thread_id": f"{user}-{thread}"}
            }
            answer = agent.invoke({"messages": [("user", line)]}, config)
            print(
                f"--- {user}, {thread}\nyou: {line}\nbot: {answer['messages'][-1].text}"
            )


if __name__ == "__main__":
    main()
