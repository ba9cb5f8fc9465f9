"""Runs a chat model as the policy of one rollout."""

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
from langmem_graph.navigate._walk import Rollout
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
    """Let a chat model read one user's memory with the five reading tools and answer.

    The result is always a `Navigation`; `finish` and `problems` say how the rollout ended.

    Args:
        model: any LangChain chat model with tool calling.
        user_memory: whose memory, from `memory.user(id)`. Nothing is written to it.
        question: the question; it should name the current date where that matters.
        budget: the tool budget, in turns, as in NapMem.
        max_tokens: the model is not called again once so many were used.
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
    rollout = await asyncio.to_thread(Rollout, user_memory, question, budget)
    usage = _TokenUsage(user_memory.settings.encoding)
    caller = _ModelCalls(_with_tools(model), timeout, usage)
    history = as_messages(rollout.messages)
    while rollout.finish == "unfinished":
        if usage.input_tokens + usage.output_tokens >= max_tokens:
            rollout.stop("token_limit")
            break
        answer = await caller.call(history)
        if isinstance(answer, str):
            rollout.stop("model_error", answer)
            break
        place = len(rollout.messages)
        replies = await asyncio.to_thread(rollout.act, as_action(answer))
        history += [as_history(answer, rollout.messages[place]), *as_messages(replies)]
    milliseconds = (perf_counter() - start) * 1_000
    return rollout.navigation(milliseconds=milliseconds, **usage.report())


def _with_tools(model: BaseChatModel) -> Runnable[LanguageModelInput, AIMessage]:
    try:
        return model.bind_tools(navigation_tools())
    except NotImplementedError as error:
        raise InvalidInputError(f"{type(model).__name__} cannot call tools.") from error


@dataclass
class _TokenUsage:
    """Tokens used so far, as counted by the server, or estimated where it counts none."""

    encoding: str
    input_tokens: int = 0
    output_tokens: int = 0
    tokens_exact: bool = True

    def count(self, asked: Sequence[BaseMessage], answer: object) -> None:
        """Add one model call; may load the tokenizer's table."""
        counted = getattr(answer, "usage_metadata", None) or {}
        given, made = counted.get("input_tokens"), counted.get("output_tokens")
        if isinstance(given, int) and isinstance(made, int) and given + made > 0:
            self.input_tokens += given
            self.output_tokens += made
            return
        counter = token_counter(self.encoding)
        self.tokens_exact = False
        self.input_tokens += sum(counter.count(str(one.content)) for one in asked)
        if isinstance(answer, AIMessage):
            calls = "".join(str(call["args"]) for call in answer.tool_calls)
            self.output_tokens += counter.count(str(answer.text) + calls)

    def report(self) -> dict[str, Any]:
        """The fields of a `Navigation`."""
        return {name: value for name, value in vars(self).items() if name != "encoding"}


@dataclass(frozen=True)
class _ModelCalls:
    """Calls the model in a thread and counts tokens; errors are returned as text."""

    model: Runnable[LanguageModelInput, AIMessage]
    timeout: float
    usage: _TokenUsage

    async def call(self, history: Sequence[BaseMessage]) -> AIMessage | str:
        """The model's message, or what went wrong."""
        asked = list(history)
        try:
            call = in_own_thread(lambda: self.model.invoke(asked))
            answer: Any = await asyncio.wait_for(call, self.timeout)
        except TimeoutError as error:
            answer = str(error) or f"no answer within {self.timeout:g} seconds"
        except Exception as error:  # noqa: BLE001  # every provider raises errors of its own
            answer = f"{type(error).__name__}: {str(error)[:500]}"
        await asyncio.to_thread(self.usage.count, asked, answer)
        if isinstance(answer, AIMessage | str):
            return answer
        return f"the model answered {type(answer).__name__}, no message"
