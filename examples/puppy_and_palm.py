"""An agent that warns: a months-old remark speaks against what is asked today.

python examples/puppy_and_palm.py                        offline, with scripted answers
python examples/puppy_and_palm.py --base-url http://localhost:11434/v1 --model llama3.2
"""

import argparse
import tempfile
from typing import Any

from langchain_core.messages import HumanMessage

from langmem_graph import Memory
from langmem_graph.graphs import create_recall_graph
from langmem_graph.llm import load_chat_model
from langmem_graph.testing import ScriptedChatModel

SAID = [
    (
        "2025-03-04T18:20",
        "Our puppy Miso is teething and chews everything, above all plants.",
    ),
    (
        "2025-04-11T08:05",
        "I finally repainted the living room, it gets so much light now.",
    ),
    ("2025-05-02T20:40", "My sister Eva gave me a fern for the balcony."),
    ("2025-06-19T12:15", "I prefer to pay by bank transfer."),
]
REQUEST = "Where can I buy a sago palm?"
SCRIPTED = {
    "GoalPlan": {
        "intent": "act",
        "sure": True,
        "against": [
            {"fact": "f1", "why": "Sago palms are poisonous to dogs that chew on them."}
        ],
    }
}
"""What a model might say to the facts that it is shown; the offline run uses it."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--base-url", help="any OpenAI-compatible server")
    options.add_argument("--model", help="its model")
    chosen = options.parse_args()
    model: Any = load_chat_model(chosen.model, chosen.base_url)
    reasoning = model or ScriptedChatModel(answers=SCRIPTED)
    with (
        tempfile.TemporaryDirectory() as directory,
        Memory(directory, model=reasoning) as memory,
    ):
        for number, (at, text) in enumerate(SAID):
            said = {"role": "user", "content": text, "at": at, "id": f"m{number}"}
            memory.user("ana").add([said], session_id=at[:10])
        graph = create_recall_graph(memory, answer=bool(model))
        config = {"configurable": {"user_id": "ana"}}
        done = graph.invoke({"messages": [HumanMessage(REQUEST)]}, config)
    print(f"you: {REQUEST}\n\nwhat a model is shown:\n{done['memory_context']}")
    if model:
        print(f"\nanswer: {done['messages'][-1].text}")


if __name__ == "__main__":
    main()
