"""The memory tools as LangChain tools: an agent navigates its memory (NapMem 5.3, Table 7).

A tool never takes the user's id from the model, but from the run, as nodes and middleware do.
Unknown ids and ids of other users get the same answer.
"""

from collections.abc import Callable
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolRuntime

from langmem_graph.graphs.user_identity import UserId
from langmem_graph.memory import Memory
from langmem_graph.tools import tool_answers
from langmem_graph.tools.tool_definitions import FORGET, READING, REMEMBER, MemoryTool
from langmem_graph.tools.tool_turn_budget import MAX_TURNS, Answer, Caller


def create_memory_tools(
    memory: Memory, *, user_id: UserId = None, allow_forget: bool = False, fail_closed: bool = False
) -> list[BaseTool]:
    """Tools with which an agent searches, reads and writes the memory of its user.

    `search_records`, `search_conversation`, `get_records`, `get_conversation`, `read_file` and
    `remember`. All work sync and async, in `ToolNode`, `create_agent` or called by hand. Answers
    are quoted text, and the same as data in the tool message's `artifact`. What they answer is
    recalled text: the write node and the middleware do not store it again. After four turns with
    memory calls since the user's last message (NapMem 5.3) they ask the model to answer.

    Args:
        memory: the memory to search and write to.
        user_id: a fixed user or a function of the config. None takes `configurable.user_id`, the
            runtime context's `user_id` or the authenticated user, which must agree.
        allow_forget: add `forget`, which interrupts the graph for a human before it deletes; it
            needs a checkpointer. The human resumes with True or False.
        fail_closed: raise when memory fails. Otherwise the model is told to go on without it.

    Raises:
        MissingUserError: when a tool is called and no place names a user.
    """
    caller = Caller(memory, user_id, fail_closed)
    search_records, *others = (*READING, REMEMBER)
    note = f" All memory tools together: at most {MAX_TURNS} turns."
    tools = [_tool(caller, search_records, note), *(_tool(caller, tool) for tool in others)]
    if allow_forget:
        note = " A human is asked first."
        tools.append(_tool(caller, FORGET, note, before=tool_answers.ask_a_human))
    return tools


def _tool(
    caller: Caller,
    tool: MemoryTool,
    note: str = "",
    before: Callable[..., str | None] | None = None,
) -> BaseTool:
    """One tool; LangGraph gives `config` and `runtime`, the model the other arguments."""

    def call(
        config: RunnableConfig,
        runtime: ToolRuntime = None,  # type: ignore[assignment]  # so LangGraph injects it
        **arguments: Any,
    ) -> Answer:
        refusal = before(**arguments) if before else None
        return (refusal, {}) if refusal else caller.answer(config, runtime, tool.work, arguments)

    return StructuredTool.from_function(
        call,  # under `ainvoke` it runs in a worker thread
        name=tool.name,
        description=tool.description + note,
        args_schema=tool.arguments,
        response_format="content_and_artifact",
    )
