"""A chat model walks a user's memory by itself and answers one question."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable

from langmem_graph.errors import InvalidInputError
from langmem_graph.loop import in_own_thread
from langmem_graph.navigate._model_messages import as_action, as_history, as_messages
from langmem_graph.navigate._models import Navigation
from langmem_graph.navigate._tools import navigation_tools
from langmem_graph.navigate._walk import Walk
from langmem_graph.steps import run_apart
from langmem_graph.tokens import token_counter
from langmem_graph.tools.calling import MAX_TURNS
from langmem_graph.user import UserMemory


def run_navigator(
    model: BaseChatModel,
    user_memory: UserMemory,
    question: str,
    *,
    budget: int = MAX_TURNS,
    max_tokens: int = 100_000,
    timeout: float = 120.0,
) -> Navigation:
    """Let a chat model walk one user's memory with the five reading tools, and answer.

    Whatever the model does, a `Navigation` comes back; `finish` and `problems` say how it went.

    Args:
        model: any LangChain chat model with tool calling.
        user_memory: whose memory, from `memory.user(id)`. Nothing is written to it.
        question: what to answer; say in it when it is asked, where that matters.
        budget: turns with tools, as in NapMem.
        max_tokens: no further call of the model once so many were used.
        timeout: seconds for one call of the model.

    Raises:
        InvalidInputError: an empty question, an unusable limit, or a model without tool calling.
        StorageError: the memory is closed or cannot be opened.
    """
    return run_apart(
        arun_navigator(
            model,
            user_memory,
            question,
            budget=budget,
            max_tokens=max_tokens,
            timeout=timeout,
        )
    )


async def arun_navigator(
    model: BaseChatModel,
    user_memory: UserMemory,
    question: str,
    *,
    budget: int = MAX_TURNS,
    max_tokens: int = 100_000,
    timeout: float = 120.0,
) -> Navigation:
    """Async twin of `run_navigator`."""
    if max_tokens < 1 or timeout <= 0:
        raise InvalidInputError("max_tokens and timeout must be above 0.")
    start = perf_counter()
    walk = await asyncio.to_thread(Walk, user_memory, question, budget)
    spent = _Spent(user_memory.settings.encoding)
    caller = _Caller(_with_tools(model), timeout, spent)
    history = as_messages(walk.messages)
    while walk.finish == "unfinished":
        if spent.input_tokens + spent.output_tokens >= max_tokens:
            walk.stop("token_limit")
            break
        said = await caller.call(history)
        if isinstance(said, str):
            walk.stop("model_error", said)
            break
        before = len(walk.messages)
        replies = await asyncio.to_thread(walk.act, as_action(said))
        history += [as_history(said, walk.messages[before]), *as_messages(replies)]
    milliseconds = (perf_counter() - start) * 1_000
    return walk.navigation(milliseconds=milliseconds, **spent.report())


def _with_tools(model: BaseChatModel) -> Runnable[LanguageModelInput, AIMessage]:
    try:
        return model.bind_tools(navigation_tools())
    except NotImplementedError as error:
        raise InvalidInputError(f"{type(model).__name__} cannot call tools.") from error


@dataclass
class _Spent:
    """Tokens so far, as the server counts them, or estimated where it does not."""

    encoding: str
    input_tokens: int = 0
    output_tokens: int = 0
    tokens_exact: bool = True

    def count(self, asked: Sequence[BaseMessage], said: object) -> None:
        """Add one call; may load the tokenizer's table."""
        counted = getattr(said, "usage_metadata", None) or {}
        given, made = counted.get("input_tokens"), counted.get("output_tokens")
        if isinstance(given, int) and isinstance(made, int) and given + made > 0:
            self.input_tokens += given
            self.output_tokens += made
            return
        counter = token_counter(self.encoding)
        self.tokens_exact = False
        self.input_tokens += sum(counter.count(str(one.content)) for one in asked)
        if isinstance(said, AIMessage):
            calls = "".join(str(call["args"]) for call in said.tool_calls)
            self.output_tokens += counter.count(str(said.text) + calls)

    def report(self) -> dict[str, Any]:
        """The fields of a `Navigation`."""
        return {name: value for name, value in vars(self).items() if name != "encoding"}


@dataclass(frozen=True)
class _Caller:
    """Calls the model once, in a thread, and counts; errors become a text."""

    model: Runnable[LanguageModelInput, AIMessage]
    timeout: float
    spent: _Spent

    async def call(self, history: Sequence[BaseMessage]) -> AIMessage | str:
        """The model's message, or what went wrong."""
        asked = list(history)
        try:
            call = in_own_thread(lambda: self.model.invoke(asked))
            said: Any = await asyncio.wait_for(call, self.timeout)
        except TimeoutError as error:
            said = str(error) or f"no answer within {self.timeout:g} seconds"
        except Exception as error:  # noqa: BLE001  # every provider raises errors of its own
            said = f"{type(error).__name__}: {str(error)[:500]}"
        await asyncio.to_thread(self.spent.count, asked, said)
        if isinstance(said, AIMessage | str):
            return said
        return f"the model answered {type(said).__name__}, no message"
