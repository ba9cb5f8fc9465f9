"""The memory tools: find messages, and read the ones found.

A tool never takes a user id from the model: it comes from the run, as for nodes and middleware.
Unknown ids and ids of other users get the same answer.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.messages import convert_to_messages
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolRuntime
from pydantic import BaseModel, Field

from langmem_graph.graphs.conversation import MARK, in_view, value_in
from langmem_graph.graphs.identity import UserId, user_of
from langmem_graph.memory import Memory
from langmem_graph.models import Message, MessageHit
from langmem_graph.recall.context import framed, quote
from langmem_graph.tokens import token_counter
from langmem_graph.user import UserMemory

_log = logging.getLogger(__name__)

MAX_HITS = 5
"""Hits of one search (NapMem, Table 7)."""
MAX_IDS = 20
"""Messages of one reading."""

Answer = tuple[str, dict[str, Any]]
"""What the model reads, and the same as data in the tool message's artifact."""


class SearchConversation(BaseModel):
    """Arguments of `search_conversation`."""

    query: str = Field(description="What to look for, in plain words.", max_length=2_000)


class GetConversation(BaseModel):
    """Arguments of `get_conversation`."""

    message_ids: list[str] = Field(description="Ids as search_conversation shows them.")


def create_memory_tools(
    memory: Memory, *, user_id: UserId = None, fail_closed: bool = False
) -> list[BaseTool]:
    """Tools with which an agent looks things up: `search_conversation`, `get_conversation`.

    Both work sync and async, in `ToolNode`, `create_agent` or called by hand. Their answers are
    quoted text; the same as data is the tool message's `artifact`. What they answer is recalled
    text: the write node and the middleware do not store it again.

    Args:
        memory: where to look.
        user_id: a fixed user or a function of the config. None takes `configurable.user_id`, the
            runtime context's `user_id` or the authenticated user, which must agree.
        fail_closed: raise when memory fails. Otherwise the model is told to go on without it.

    Raises:
        MissingUserError: when a tool is called and no place names a user.
    """
    look = _Lookup(memory, user_id, fail_closed)
    return [
        _tool(look.search, look.asearch, "search_conversation", _SEARCH, SearchConversation),
        _tool(look.read, look.aread, "get_conversation", _READ, GetConversation),
    ]


_SEARCH = (
    "Search what this user and the assistant said in earlier conversations. Gives at most "
    f"{MAX_HITS} quotes with date, speaker and message id. Use it when the answer may depend on "
    "something said before; not for general knowledge."
)
_READ = (
    "Read messages of earlier conversations by the ids that search_conversation gave, each as far "
    f"as there is room. At most {MAX_IDS} ids."
)


def _tool(
    call: Callable[..., Any],
    acall: Callable[..., Any],
    name: str,
    description: str,
    arguments: type[BaseModel],
) -> BaseTool:
    return StructuredTool.from_function(
        call,
        acall,
        name=name,
        description=description,
        args_schema=arguments,
        response_format="content_and_artifact",
    )


class _Lookup:
    """The tools' work; each answer is text for the model and data for the application."""

    def __init__(self, memory: Memory, user_id: UserId, fail_closed: bool) -> None:
        self._memory = memory
        self._user_id = user_id
        self._fail_closed = fail_closed

    def search(
        self,
        query: str,
        config: RunnableConfig,
        runtime: ToolRuntime = None,  # type: ignore[assignment]  # so LangGraph injects it
    ) -> Answer:
        if not query.strip():
            return _answer("The query is empty. Give words to look for.", [])
        seen = _in_view(runtime)
        nothing = "Nothing was found. Try other words, or answer without memory."

        def look(user: UserMemory) -> list[MessageHit]:
            hits = user.search_conversation(query, MAX_HITS + len(seen))
            return [hit for hit in hits if not {hit.message_id, hit.text} & seen][:MAX_HITS]

        return self._looked_up(config, look, "best match first", nothing)

    async def asearch(
        self,
        query: str,
        config: RunnableConfig,
        runtime: ToolRuntime = None,  # type: ignore[assignment]  # as above
    ) -> Answer:
        return await asyncio.to_thread(self.search, query, config, runtime)

    def read(self, message_ids: list[str], config: RunnableConfig) -> Answer:
        ids = message_ids[:MAX_IDS]
        unknown = f"No message has these ids: {ids}. Use ids as search_conversation shows them."
        order = "in the order asked"
        if left := len(message_ids) - len(ids):
            order += f"; {left} ids too many were left out"
        return self._looked_up(config, lambda user: user.get_conversation(ids), order, unknown)

    async def aread(self, message_ids: list[str], config: RunnableConfig) -> Answer:
        return await asyncio.to_thread(self.read, message_ids, config)

    def _looked_up(
        self,
        config: RunnableConfig,
        look: Callable[[UserMemory], Sequence[Message | MessageHit]],
        order: str,
        otherwise: str,
    ) -> Answer:
        user_id = user_of(config, self._user_id)
        try:
            found = look(self._memory.user(user_id))
            return _answer(self._quoted(found, order) if found else otherwise, found)
        except Exception as error:
            if self._fail_closed:
                raise
            _log.warning("a memory tool failed: %s: %s", type(error).__name__, error)
            return _answer("Memory cannot be read right now. Answer without it, and say so.", [])

    def _quoted(self, found: Sequence[Message | MessageHit], order: str) -> str:
        """As much of each message as the token budget allows."""
        settings = self._memory.settings
        counter = token_counter(settings.encoding)
        share = max(settings.excerpt_tokens, settings.context_tokens // len(found))
        return framed((quote(said, counter, share) for said in found), order)


def _in_view(runtime: ToolRuntime | None) -> set[str]:
    """What the model sees anyway: the conversation that the tool is called in."""
    messages = value_in(runtime.state, "messages") if runtime else None
    return set(in_view(convert_to_messages(messages or [])))


def _answer(text: str, found: Sequence[Message | MessageHit]) -> Answer:
    messages = [said.model_dump(mode="json", exclude={"signals"}) for said in found]
    return text, {**MARK, "messages": messages}
