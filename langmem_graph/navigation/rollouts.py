"""Rollouts: a policy answers one question by reading memory, within a tool budget."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ToolCall,
    convert_to_messages,
)
from langchain_core.runnables import Runnable

from langmem_graph.errors import InvalidInputError, quoted
from langmem_graph.filters import Where, parsed
from langmem_graph.llm.structured_calls import load_prompt
from langmem_graph.memory import Memory, UserMemory
from langmem_graph.navigation import actions
from langmem_graph.navigation.actions import (
    Finish,
    Navigation,
    QuestionItem,
    ToolUse,
    read_item,
)
from langmem_graph.navigation.reward import Rubric
from langmem_graph.rooms import room_names
from langmem_graph.runtime import run_apart
from langmem_graph.server_urls import shown_text
from langmem_graph.threads import in_thread
from langmem_graph.tokens import token_counter
from langmem_graph.tool_answers import MAX_TURNS

MOST_TURNS = 50
"""The largest tool budget that is accepted."""
_LAST_TURN = "That was the last turn with tools. Answer now, with the JSON object."
Observation = dict[str, Any]
"""New `messages` in OpenAI's format, `turns_left`, and `shown`, the ids shown
so far.
"""


def initial_messages(question: str, budget: int) -> list[dict[str, Any]]:
    """The first messages of every rollout: the instructions and the question."""
    rules = load_prompt("navigate").format(turns=budget)
    return [{"role": "system", "content": rules}, {"role": "user", "content": question}]


def check_budget(budget: object) -> int:
    """The tool budget, or an `InvalidInputError` where it is no number of turns."""
    if (
        isinstance(budget, int)
        and not isinstance(budget, bool)
        and 0 <= budget <= MOST_TURNS
    ):
        return budget
    raise InvalidInputError(
        f"budget must be a number of turns up to {MOST_TURNS}, not {quoted(budget)}."
    )


class Rollout:
    """One rollout of a policy on one question; call `act` while `finish` is
    `unfinished`.

    After `budget` turns only an answer counts; anything else ends the rollout without
    an answer.
    """

    def __init__(
        self,
        user: UserMemory,
        question: str,
        budget: int = MAX_TURNS,
        where: Where | None = None,
    ) -> None:
        if not isinstance(question, str) or not question.strip():
            raise InvalidInputError("The question is empty.")
        self._user = user
        self._question = question.strip().encode("utf-8", "replace").decode("utf-8")
        self._budget = check_budget(budget)
        self._where = where
        parsed(where)  # raises for an unusable one
        self._answer = actions.FinalAnswer("")
        self._uses: list[ToolUse] = []
        self._problems: list[str] = []
        self.messages = initial_messages(self._question, self._budget)
        self.turns = 0
        self.finish: Finish = "unfinished"

    @property
    def turns_left(self) -> int:
        """What is left of the tool budget."""
        return self._budget - self.turns

    def act(self, action: object) -> list[dict[str, Any]]:
        """Take one action of the policy; returns the messages that reply to it."""
        parsed = actions.read_action(action, self.turns + 1)
        self.messages.append(parsed.as_message())
        if not parsed.calls and parsed.problem is None:
            self._answer = actions.read_answer(parsed.text)
            self.finish = "answered"
            return []
        if self.turns_left == 0:
            self.stop("over_budget" if parsed.calls else "no_answer", parsed.problem)
            return []
        self.turns += 1
        replies = self._replies(parsed)
        if self.turns_left == 0:
            replies[-1]["content"] += f"\n\n{_LAST_TURN}"
        self.messages += replies
        return replies

    def stop(self, finish: Finish, problem: str | None = None) -> None:
        """End without an answer."""
        self.finish = finish
        self._problems += [problem] if problem else []

    def _replies(self, parsed: actions.Action) -> list[dict[str, Any]]:
        if not parsed.calls:
            self._problems.append(str(parsed.problem))
            return [{"role": "user", "content": str(parsed.problem)}]
        replies = []
        for call in parsed.calls:
            text, use = actions.use_tool(self._user, call, self.turns, self._where)
            self._uses.append(use)
            if use.error:
                self._problems.append(f"{use.name}: {use.error}")
            replies.append({"role": "tool", "tool_call_id": call.id, "content": text})
        return replies

    def navigation(self, **more: Any) -> Navigation:
        """The rollout so far; `more` adds fields that only the caller knows."""
        return Navigation(
            user_id=self._user.id,
            question=self._question,
            **vars(self._answer),
            finish=self.finish,
            tool_calls=self._uses,
            turns=self.turns,
            problems=[*self._problems, *self._user._left_out],  # same package
            messages=self.messages,
            **more,
        ).model_copy(deep=True)


class NavigationEnv:
    """Runs one rollout at a time over real memories, for any trainer; all its output is
    JSON.

    Every action gets a reply: one that cannot be parsed costs a turn, and the reply
    says why.

    Args:
        memory: holds the users' memories.
        budget: the tool budget, in turns, after which only an answer counts (NapMem
            5.3).
        rubric: computes the reward of a finished rollout.
        where: the tools show what passes this filter alone (docs/scopes.md), and no
            file.
        shared: the tools also look in these shared rooms, as far as the item's user may
            read them; `authorize` is asked at every call.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        budget: int = MAX_TURNS,
        rubric: Rubric | None = None,
        where: Where | None = None,
        shared: Sequence[str | int] = (),
    ) -> None:
        parsed(where)  # raises for an unusable one
        self._memory, self._where, self._shared = memory, where, room_names(shared)
        self._budget = check_budget(budget)
        self._rubric = rubric or Rubric()
        self._begun: tuple[QuestionItem, Rollout] | None = None

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools as OpenAI functions."""
        return actions.navigation_tools()

    @property
    def navigation(self) -> Navigation:
        """The current rollout so far."""
        return self._current()[1].navigation()

    def reset(self, question_item: QuestionItem | Mapping[str, Any]) -> Observation:
        """Begin a rollout; the observation holds the first messages.

        Raises:
            InvalidInputError: the question item is not valid.
        """
        item = read_item(question_item)
        user = self._memory.user(item.user_id, shared=self._shared)
        rollout = Rollout(user, item.question, self._budget, self._where)
        self._begun = item, rollout
        return _observation(rollout, rollout.messages)

    def step(self, action: object) -> tuple[Observation, float, bool, dict[str, Any]]:
        """Take one action: a text, an assistant message in OpenAI's format, or a short
        form.

        `{"answer": …}` and `{"name": …, "arguments": …}` are short forms. After the end
        nothing changes, and the reward is 0.

        Returns:
            The observation, the reward (0 until the end), whether it is done, and
            `info`: how it ended, the calls, and at the end the terms of the reward.

        Raises:
            InvalidInputError: before the first `reset`.
            StorageError: the memory was closed.
        """
        item, rollout = self._current()
        if rollout.finish != "unfinished":
            return _observation(rollout, []), 0.0, True, _info(rollout)
        observation = _observation(rollout, rollout.act(action))
        if rollout.finish == "unfinished":
            return observation, 0.0, False, _info(rollout)
        score = self._rubric.score(item, rollout.navigation())
        return (
            observation,
            score.reward,
            True,
            {**_info(rollout), "score": score.model_dump()},
        )

    def _current(self) -> tuple[QuestionItem, Rollout]:
        if self._begun is None:
            raise InvalidInputError("There is no question yet. Call reset first.")
        return self._begun


def _observation(rollout: Rollout, messages: list[dict[str, Any]]) -> Observation:
    shown = sorted(rollout.navigation().shown)
    copies = [dict(message) for message in messages]
    return {"messages": copies, "turns_left": rollout.turns_left, "shown": shown}


def _info(rollout: Rollout) -> dict[str, Any]:
    return rollout.navigation().model_dump(include={"finish", "tool_calls", "problems"})


def _as_action(message: AIMessage) -> dict[str, Any]:
    """A model's message as an action; calls whose arguments could not be parsed are
    kept.
    """
    calls: list[tuple[Any, Any]] = [
        (call, call.get("args")) for call in message.tool_calls
    ]
    calls += [(call, call.get("args") or "?") for call in message.invalid_tool_calls]
    parsed = [
        {"id": c.get("id"), "name": c.get("name"), "arguments": args}
        for c, args in calls
    ]
    return {"content": str(message.text), "tool_calls": parsed}


def _as_history(message: AIMessage, recorded: dict[str, Any]) -> AIMessage:
    """The model's own message for its next call, as it came where its calls are
    correct.

    Else it is rebuilt: providers refuse empty messages, and calls without id, answer or
    arguments.
    """
    content: str = recorded["content"]
    functions = [
        (call["id"], call["function"]) for call in recorded.get("tool_calls", [])
    ]
    requested = [(call["id"], call["name"]) for call in message.tool_calls]
    as_recorded = requested == [
        (call_id, about["name"]) for call_id, about in functions
    ]
    if (
        as_recorded
        and not message.invalid_tool_calls
        and (functions or content.strip())
    ):
        return message
    calls = [
        ToolCall(
            name=about["name"],
            args=actions.read_arguments(about["arguments"])[0],
            id=call_id,
        )
        for call_id, about in functions
    ]
    return AIMessage(content or "(empty)", tool_calls=calls)


def run_navigator(
    model: BaseChatModel,
    user_memory: UserMemory,
    question: str,
    *,
    budget: int = MAX_TURNS,
    max_tokens: int = 100_000,
    timeout: float = 120.0,
    where: Where | None = None,
) -> Navigation:
    """Let a chat model answer a question by reading one user's memory with the five
    tools.

    The result is always a `Navigation`; `finish` and `problems` say how the rollout
    ended.

    Args:
        model: any LangChain chat model with tool calling.
        user_memory: whose memory, from `memory.user(id)`, with `shared=[…]` of the
            rooms that the user may read, too. Nothing is written to it.
        question: the question; it should name the current date where that matters.
        budget: the tool budget, in turns, as in NapMem.
        max_tokens: after so many tokens the model is not called again.
        timeout: seconds for one call of the model.
        where: the tools show what passes this filter alone (docs/scopes.md), and no
            file.

    Raises:
        InvalidInputError: an empty question, an unusable limit, or a model without tool
            calling.
        StorageError: the memory is closed or cannot be opened.
    """
    limits: Any = {"budget": budget, "max_tokens": max_tokens, "timeout": timeout}
    limits["where"] = where
    return run_apart(arun_navigator(model, user_memory, question, **limits))


async def arun_navigator(
    model: BaseChatModel,
    user_memory: UserMemory,
    question: str,
    *,
    budget: int = MAX_TURNS,
    max_tokens: int = 100_000,
    timeout: float = 120.0,
    where: Where | None = None,
) -> Navigation:
    """Async twin of `run_navigator`."""
    if max_tokens < 1 or timeout <= 0:
        raise InvalidInputError("max_tokens and timeout must be above 0.")
    start = perf_counter()
    rollout = await in_thread(Rollout, user_memory, question, budget, where)
    caller = _ModelCalls(_with_tools(model), timeout, user_memory.settings.encoding)
    history = convert_to_messages(rollout.messages)
    while rollout.finish == "unfinished":
        if caller.input_tokens + caller.output_tokens >= max_tokens:
            rollout.stop("token_limit")
            break
        answer = await caller.call(history)
        if isinstance(answer, str):
            rollout.stop("model_error", answer)
            break
        place = len(rollout.messages)
        replies = await in_thread(rollout.act, _as_action(answer))
        history += [
            _as_history(answer, rollout.messages[place]),
            *convert_to_messages(replies),
        ]
    return rollout.navigation(
        milliseconds=(perf_counter() - start) * 1_000,
        input_tokens=caller.input_tokens,
        output_tokens=caller.output_tokens,
        tokens_exact=caller.tokens_exact,
    )


def _with_tools(model: BaseChatModel) -> Runnable[LanguageModelInput, AIMessage]:
    try:
        return model.bind_tools(actions.navigation_tools())
    except NotImplementedError as error:
        raise InvalidInputError(f"{type(model).__name__} cannot call tools.") from error


@dataclass
class _ModelCalls:
    """Calls the model in a thread and counts tokens, as the server does, or else
    estimates.
    """

    model: Runnable[LanguageModelInput, AIMessage]
    timeout: float
    encoding: str
    input_tokens: int = 0
    output_tokens: int = 0
    tokens_exact: bool = True

    async def call(self, history: Sequence[BaseMessage]) -> AIMessage | str:
        """The model's message, or what went wrong."""
        asked = list(history)
        try:
            call = in_thread(self.model.invoke, asked)
            answer: Any = await asyncio.wait_for(call, self.timeout)
        except TimeoutError as error:
            answer = str(error) or f"no answer within {self.timeout:g} seconds"
        except Exception as error:  # noqa: BLE001  # every provider raises errors of its own
            answer = f"{type(error).__name__}: {shown_text(error)[:500]}"
        await in_thread(self._count, asked, answer)
        if isinstance(answer, AIMessage | str):
            return answer
        return f"the model answered {type(answer).__name__}, no message"

    def _count(self, asked: Sequence[BaseMessage], answer: object) -> None:
        """Add one model call; may load the tokenizer's table."""
        counted = getattr(answer, "usage_metadata", None) or {}
        given = counted.get("input_tokens")
        made = counted.get("output_tokens")
        if isinstance(given, int) and isinstance(made, int) and given + made > 0:
            self.input_tokens += given
            self.output_tokens += made
            return
        counter = token_counter(self.encoding)
        self.tokens_exact = False
        self.input_tokens += sum(
            counter.count(str(message.content)) for message in asked
        )
        if isinstance(answer, AIMessage):
            calls = "".join(str(call["args"]) for call in answer.tool_calls)
            self.output_tokens += counter.count(str(answer.text) + calls)
