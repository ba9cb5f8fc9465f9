"""`NavigationEnv`, the environment for training a policy: `reset`, then `step` until it is done."""

from collections.abc import Mapping
from typing import Any

from langmem_graph.errors import InvalidInputError
from langmem_graph.memory import Memory
from langmem_graph.navigation.reward import Rubric
from langmem_graph.navigation.rollout import Rollout, check_budget
from langmem_graph.navigation.schemas import Navigation, QuestionItem, read_item
from langmem_graph.navigation.tools import navigation_tools
from langmem_graph.tools.tool_answers import MAX_TURNS

Observation = dict[str, Any]
"""New `messages` in OpenAI's format, `turns_left`, and `shown`, the ids shown so far."""


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
