"""An agent with memory: one middleware, and tools to look things up by itself.

python examples/agent_chatbot.py                        offline, a scripted model
answers python examples/agent_chatbot.py --base-url http://localhost:11434/v1 --model
llama3.2
"""

import argparse
import tempfile
from typing import Any

from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver

from langmem_graph import Memory, MemoryMiddleware
from langmem_graph.llm import load_chat_model
from langmem_graph.testing import ScriptedChatModel, recite
from langmem_graph.tools import create_memory_tools

CONVERSATIONS = {
    "march": ["Our puppy Miso is teething and chews everything, above all plants."],
    "june": ["Where can I buy a sago palm?"],
}


def build(memory: Memory, model: Any) -> Any:
    """The middleware recalls and writes; the tools are for questions of the agent's
    own.
    """
    can_call_tools = not isinstance(model, ScriptedChatModel)
    return create_agent(
        model,
        tools=create_memory_tools(memory) if can_call_tools else [],
        middleware=[MemoryMiddleware(memory)],
        checkpointer=InMemorySaver(),
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--base-url", help="any OpenAI-compatible server")
    options.add_argument("--model", help="its model")
    chosen = options.parse_args()
    configured = load_chat_model(chosen.model, chosen.base_url)
    model = configured or ScriptedChatModel(script=recite)
    with tempfile.TemporaryDirectory() as directory, Memory(directory) as memory:
        agent = build(memory, model)
        for thread, lines in CONVERSATIONS.items():
            print(f"--- {thread}: a thread of its own")
            for line in lines:
                config = {"configurable": {"thread_id": thread, "user_id": "ana"}}
                answer = agent.invoke({"messages": [("user", line)]}, config)
                print(f"you: {line}\nbot: {answer['messages'][-1].text}")


if __name__ == "__main__":
    main()
