"""The memory tools: an agent walks the pyramid itself (NapMem 5.3, Table 7).

A tool never takes a user id from the model: it comes from the run, as for nodes and middleware.
Unknown ids and ids of other users get the same answer.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolRuntime
from pydantic import BaseModel, Field

from langmem_graph.graphs.identity import UserId
from langmem_graph.memory import Memory
from langmem_graph.tools import answers
from langmem_graph.tools.calling import MAX_TURNS, Answer, Caller, Work


class SearchArguments(BaseModel):
    """Arguments of the searches."""

    query: str = Field(description="What to look for, in plain words.", max_length=2_000)


class MessageArguments(BaseModel):
    """Arguments of `get_conversation`."""

    message_ids: list[str] = Field(description="Message ids as the searches show them.")


class RecordArguments(BaseModel):
    """Arguments of `get_records`."""

    record_ids: list[str] = Field(description="Record ids as search_records shows them.")


class FileArguments(BaseModel):
    """Arguments of `read_file`."""

    name: str = Field(description="index.md, profile.md or topics/NAME.md", max_length=200)


class RememberArguments(BaseModel):
    """Arguments of `remember`."""

    text: str = Field(description="One standalone sentence.", max_length=2_000)


class ForgetArguments(BaseModel):
    """Arguments of `forget`."""

    record_id: str = Field(description="The record to delete for good.", max_length=200)


def create_memory_tools(
    memory: Memory,
    *,
    user_id: UserId = None,
    allow_forget: bool = False,
    fail_closed: bool = False,
) -> list[BaseTool]:
    """Tools with which an agent looks things up and writes them down.

    `search_records`, `search_conversation`, `get_records`, `get_conversation`, `read_file` and
    `remember`. All work sync and async, in `ToolNode`, `create_agent` or called by hand. Answers
    are quoted text, and the same as data in the tool message's `artifact`. What they answer is
    recalled text: the write node and the middleware do not store it again. After four turns with
    memory calls since the user's last message (NapMem 5.3) they ask the model to answer.

    Args:
        memory: where to look.
        user_id: a fixed user or a function of the config. None takes `configurable.user_id`, the
            runtime context's `user_id` or the authenticated user, which must agree.
        allow_forget: add `forget`, which interrupts the graph for a human before it deletes; it
            needs a checkpointer. The human resumes with True or False.
        fail_closed: raise when memory fails. Otherwise the model is told to go on without it.

    Raises:
        MissingUserError: when a tool is called and no place names a user.
    """
    caller = Caller(memory, user_id, fail_closed)
    tools = [
        _tool(caller, "search_records", _RECORDS, SearchArguments, answers.search_records),
        _tool(caller, "search_conversation", _SEARCH, SearchArguments, answers.search_conversation),
        _tool(caller, "get_records", _GET, RecordArguments, answers.get_records),
        _tool(caller, "get_conversation", _READ, MessageArguments, answers.get_conversation),
        _tool(caller, "read_file", _FILE, FileArguments, answers.read_file),
        _tool(caller, "remember", _REMEMBER, RememberArguments, answers.remember),
    ]
    if allow_forget:
        made = _tool(
            caller, "forget", _FORGET, ForgetArguments, answers.forget, answers.ask_a_human
        )
        tools.append(made)
    return tools


_RECORDS = (
    "Search what is known of this user: facts, events, preferences, instructions, each with its "
    f"sources. At most {answers.MAX_HITS}. Use it when the answer may depend on the user; not for "
    f"general knowledge. All memory tools together: at most {MAX_TURNS} turns."
)
_SEARCH = (
    "Search what this user and the assistant said in earlier conversations, word for word. At most "
    f"{answers.MAX_HITS} quotes with date, speaker and message id. For exact words and evidence."
)
_GET = (
    f"Show records in full, with sources and what they superseded. At most {answers.MAX_IDS} ids."
)
_READ = (
    "Read messages of earlier conversations by their ids, each as far as there is room. "
    f"At most {answers.MAX_IDS} ids."
)
_FILE = (
    "Read index.md (what topics there are), profile.md (who the user is) or a topic track. For "
    "broad questions start here."
)
_REMEMBER = "Write down one sentence about the user, when they ask you to remember something."
_FORGET = "Delete one record for good, when the user asks for it. A human is asked first."


def _tool(
    caller: Caller,
    name: str,
    description: str,
    arguments: type[BaseModel],
    work: Work,
    before: Callable[..., str | None] | None = None,
) -> BaseTool:
    """One tool; LangGraph fills in `config` and `runtime`, the model the rest."""

    def call(
        config: RunnableConfig,
        runtime: ToolRuntime = None,  # type: ignore[assignment]  # so LangGraph injects it
        **given: Any,
    ) -> Answer:
        refused = before(**given) if before else None
        return (refused, {}) if refused else caller.answer(config, runtime, work, given)

    async def acall(
        config: RunnableConfig,
        runtime: ToolRuntime = None,  # type: ignore[assignment]  # as above
        **given: Any,
    ) -> Answer:
        return await asyncio.to_thread(call, config, runtime, **given)

    return StructuredTool.from_function(
        call,
        acall,
        name=name,
        description=description,
        args_schema=arguments,
        response_format="content_and_artifact",
    )
