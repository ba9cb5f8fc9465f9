"""`Rollout`: counts turns against the tool budget, makes the tool calls and takes the answer."""

from typing import Any

from langmem_graph.errors import InvalidInputError
from langmem_graph.llm.structured_calls import load_prompt
from langmem_graph.memory import UserMemory
from langmem_graph.navigation.actions import Action, FinalAnswer, read_action, read_answer
from langmem_graph.navigation.schemas import Finish, Navigation, ToolUse
from langmem_graph.navigation.tools import use_tool
from langmem_graph.tools.tool_answers import MAX_TURNS

MOST_TURNS = 50
"""The largest tool budget that is accepted."""
_LAST_TURN = "That was the last turn with tools. Answer now, with the JSON object."


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
