"""One walk through one user's memory: turns are counted, calls made, the answer taken."""

from typing import Any

from langmem_graph.errors import InvalidInputError
from langmem_graph.llm.structured import load_prompt
from langmem_graph.navigate._actions import Action, read_action
from langmem_graph.navigate._answer import FinalAnswer, read_answer
from langmem_graph.navigate._models import Finish, Navigation, ToolUse
from langmem_graph.navigate._tools import use_tool
from langmem_graph.tools.calling import MAX_TURNS
from langmem_graph.user import UserMemory

MOST_TURNS = 50
"""Beyond this a budget is a mistake."""
_LAST = "That was the last turn with tools. Answer now, with the JSON object."


def opening(question: str, budget: int) -> list[dict[str, Any]]:
    """The first messages of every walk: what to do, and the question."""
    rules = load_prompt("navigate").format(turns=budget)
    return [{"role": "system", "content": rules}, {"role": "user", "content": question}]


def check_budget(budget: object) -> int:
    """The budget, or an `InvalidInputError`."""
    if isinstance(budget, int) and not isinstance(budget, bool) and 0 <= budget <= MOST_TURNS:
        return budget
    raise InvalidInputError(f"budget must be a number of turns up to {MOST_TURNS}, not {budget!r}.")


class Walk:
    """A question on its way; `act` until `finish` is no longer `unfinished`.

    A turn is a message of the model that is no answer: with tool calls, or with nothing that can
    be used. After `budget` turns only an answer is left; anything else ends the walk without one.
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
        self.messages = opening(self._question, self._budget)
        self.turns = 0
        self.finish: Finish = "unfinished"

    @property
    def turns_left(self) -> int:
        """Turns that may still be no answer."""
        return self._budget - self.turns

    def act(self, action: object) -> list[dict[str, Any]]:
        """Take one action; the messages that answer it."""
        taken = read_action(action, self.turns + 1)
        self.messages.append(taken.as_message())
        if not taken.calls and taken.problem is None:
            self._answer, self.finish = read_answer(taken.text), "answered"
            return []
        if self.turns_left == 0:
            self.stop("over_budget" if taken.calls else "no_answer", taken.problem)
            return []
        self.turns += 1
        replies = self._replies(taken)
        if self.turns_left == 0:
            replies[-1]["content"] += f"\n\n{_LAST}"
        self.messages += replies
        return replies

    def stop(self, finish: Finish, problem: str | None = None) -> None:
        """End without an answer."""
        self.finish = finish
        self._problems += [problem] if problem else []

    def _replies(self, taken: Action) -> list[dict[str, Any]]:
        if not taken.calls:
            self._problems.append(str(taken.problem))
            return [{"role": "user", "content": str(taken.problem)}]
        replies = []
        for call in taken.calls:
            text, use = use_tool(self._user, call, self.turns)
            self._uses.append(use)
            if use.error:
                self._problems.append(f"{use.name}: {use.error}")
            replies.append({"role": "tool", "tool_call_id": call.id, "content": text})
        return replies

    def navigation(self, **more: Any) -> Navigation:
        """The walk so far; `more` adds what only the caller knows."""
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
