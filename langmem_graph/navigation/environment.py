"""`Rollout`: counts turns against the tool budget, makes the tool calls and takes the answer."""

from collections.abc import Mapping
from typing import Any

from langmem_graph.errors import InvalidInputError
from langmem_graph.llm.structured_calls import load_prompt
from langmem_graph.memory import Memory, UserMemory
from langmem_graph.navigation.navigation_items import (
    Finish,
    Navigation,
    QuestionItem,
    ToolUse,
    read_item,
)
from langmem_graph.navigation.parse_actions import Action, FinalAnswer, read_action, read_answer
from langmem_graph.navigation.reading_tools import navigation_tools, use_tool
from langmem_graph.navigation.reward import Rubric
from langmem_graph.tools.tool_turn_budget import MAX_TURNS

MOST_TURNS = 50
"""The largest tool budget that is accepted."""
_LAST_TURN = "That was the last turn with tools. Answer now, with the JSON object."
Observation = dict[str, Any]
"""New `messages` in OpenAI's format, `turns_left`, and `shown`, the ids shown so far."""


def initial_messages(question: str, budget: int) -> list[dict[str, Any]]:
    """The first messages of every rollout: the instructions and the question."""
    rules = load_prompt("navigate").format(turns=budget)
    return [{"role": "system", "content": rules}, {"role": "user", "content": question}]


def check_budget(budget: object) -> int:
    """The tool budget.

    Raises:
        InvalidInputError: it is no number of turns from 0 to `MOST_TURNS`.
    """
    if isinstance(budget, int) and not isinstance(budget, bool) and 0 <= budget <= MOST_TURNS:
        return budget
    raise InvalidInputError(f"budget must be a number of turns up to {MOST_TURNS}, not {budget!r}.")


class Rollout:
    """One rollout of a policy on one question; call `act` while `finish` is `unfinished`.

    A turn is a message of the policy that is not an answer: tool calls, or something unusable.
    After `budget` turns only an answer counts; anything else ends the rollout without an answer.
    """

    def __init__(self, user: UserMemory, question: str, budget: int = MAX_TURNS) -> None:
        if not isinstance(question, str) or not question.strip():
            raise InvalidInputError("The question is empty.")
        self._user = user
        self._question = question.strip().encode("utf-8", "replace").decode("utf-8")
        self._budget = check_budget(budget)
        self._answer = FinalAnswer("")
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
        parsed = read_action(action, self.turns + 1)
        self.messages.append(parsed.as_message())
        if not parsed.calls and parsed.problem is None:
            self._answer, self.finish = read_answer(parsed.text), "answered"
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

    def _replies(self, parsed: Action) -> list[dict[str, Any]]:
        if not parsed.calls:
            self._problems.append(str(parsed.problem))
            return [{"role": "user", "content": str(parsed.problem)}]
        replies = []
        for call in parsed.calls:
            text, use = use_tool(self._user, call, self.turns)
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
            problems=self._problems,
            messages=self.messages,
            **more,
        ).model_copy(deep=True)


class NavigationEnv:
    """Runs one rollout at a time over real memories, for any trainer; all its output is JSON.

    Every action gets a reply: one that cannot be parsed costs a turn, and the reply says why.

    Args:
        memory: holds the users' memories.
        budget: the tool budget, in turns, after which only an answer counts (NapMem 5.3).
        rubric: computes the reward of a finished rollout.
    """

    def __init__(
        self, memory: Memory, *, budget: int = MAX_TURNS, rubric: Rubric | None = None
    ) -> None:
        self._memory = memory
        self._budget = check_budget(budget)
        self._rubric = rubric or Rubric()
        self._item: QuestionItem | None = None
        self._rollout: Rollout | None = None

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools as OpenAI functions."""
        return navigation_tools()

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
        self._rollout = Rollout(self._memory.user(item.user_id), item.question, self._budget)
        self._item = item
        return self._observation(self._rollout, self._rollout.messages)

    def step(self, action: object) -> tuple[Observation, float, bool, dict[str, Any]]:
        """Take one action: a text, an assistant message in OpenAI's format, or a short form.

        `{"answer": …}` and `{"name": …, "arguments": …}` are short forms. After the end
        nothing changes, and the reward is 0.

        Returns:
            The observation, the reward (0 until the end), whether it is done, and `info`: how it
            ended, the calls, and at the end the terms of the reward.

        Raises:
            InvalidInputError: before the first `reset`.
            StorageError: the memory was closed.
        """
        item, rollout = self._current()
        if rollout.finish != "unfinished":
            return self._observation(rollout, []), 0.0, True, self._info(rollout)
        observation = self._observation(rollout, rollout.act(action))
        if rollout.finish == "unfinished":
            return observation, 0.0, False, self._info(rollout)
        score = self._rubric.score(item, rollout.navigation())
        return observation, score.reward, True, {**self._info(rollout), "score": score.model_dump()}

    def _current(self) -> tuple[QuestionItem, Rollout]:
        if self._item is None or self._rollout is None:
            raise InvalidInputError("There is no question yet. Call reset first.")
        return self._item, self._rollout

    @staticmethod
    def _observation(rollout: Rollout, messages: list[dict[str, Any]]) -> Observation:
        shown = sorted(rollout.navigation().shown)
        copies = [dict(message) for message in messages]
        return {"messages": copies, "turns_left": rollout.turns_left, "shown": shown}

    @staticmethod
    def _info(rollout: Rollout) -> dict[str, Any]:
        return rollout.navigation().model_dump(include={"finish", "tool_calls", "problems"})
