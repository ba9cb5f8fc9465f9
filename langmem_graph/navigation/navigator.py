"""`run_navigator`: a LangChain chat model as the policy of a rollout."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, ToolCall, convert_to_messages
from langchain_core.runnables import Runnable

from langmem_graph.errors import InvalidInputError
from langmem_graph.memory import UserMemory
from langmem_graph.navigation.environment import Rollout
from langmem_graph.navigation.navigation_items import Navigation
from langmem_graph.navigation.reading_tools import navigation_tools
from langmem_graph.runtime import in_own_thread, run_apart
from langmem_graph.tokens import token_counter
from langmem_graph.tools.tool_turn_budget import MAX_TURNS


def as_action(message: AIMessage) -> dict[str, Any]:
    """A model's message as an action; calls whose arguments could not be parsed are kept."""
    calls: list[tuple[Any, Any]] = [(call, call.get("args")) for call in message.tool_calls]
    calls += [(call, call.get("args") or "?") for call in message.invalid_tool_calls]
    parsed = [{"id": c.get("id"), "name": c.get("name"), "arguments": args} for c, args in calls]
    return {"content": str(message.text), "tool_calls": parsed}


def as_history(message: AIMessage, recorded: dict[str, Any]) -> AIMessage:
    """The model's own message for its next call.

    It stays as it came, with all that the provider put into it, where its calls are correct. Else
    it is rebuilt: providers refuse empty messages and calls without an id, an answer or valid
    arguments.
    """
    calls = recorded.get("tool_calls", [])
    requested = [(call["id"], call["name"]) for call in message.tool_calls]
    parsed = [(call["id"], call["function"]["name"]) for call in calls]
    if (
        requested == parsed
        and not message.invalid_tool_calls
        and (calls or recorded["content"].strip())
    ):
        return message
    return AIMessage(recorded["content"] or "(empty)", tool_calls=[_call(call) for call in calls])


def _call(recorded: dict[str, Any]) -> ToolCall:
    function = recorded["function"]
    try:
        arguments = json.loads(function["arguments"])
    except (ValueError, RecursionError):
        arguments = {}
    plain = arguments if isinstance(arguments, dict) else {}
    return ToolCall(name=function["name"], args=plain, id=recorded["id"])


def run_navigator(
    model: BaseChatModel,
    user_memory: UserMemory,
    question: str,
    *,
    budget: int = MAX_TURNS,
    max_tokens: int = 100_000,
    timeout: float = 120.0,
) -> Navigation:
    """Let a chat model answer a question by reading one user's memory with the five tools.

    The result is always a `Navigation`; `finish` and `problems` say how the rollout ended.

    Args:
        model: any LangChain chat model with tool calling.
        user_memory: whose memory, from `memory.user(id)`. Nothing is written to it.
        question: the question; it should name the current date where that matters.
        budget: the tool budget, in turns, as in NapMem.
        max_tokens: after so many tokens the model is not called again.
        timeout: seconds for one call of the model.

    Raises:
        InvalidInputError: an empty question, an unusable limit, or a model without tool calling.
        StorageError: the memory is closed or cannot be opened.
    """
    limits: Any = {"budget": budget, "max_tokens": max_tokens, "timeout": timeout}
    return run_apart(arun_navigator(model, user_memory, question, **limits))


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
    history = convert_to_messages(rollout.messages)
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
        history += [as_history(answer, rollout.messages[place]), *convert_to_messages(replies)]
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
        self.input_tokens += sum(counter.count(str(message.content)) for message in asked)
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
