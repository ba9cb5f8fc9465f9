"""The environment in the form that TRL's GRPOTrainer takes; TRL itself is not imported here.

The trainer makes one environment per rollout, calls `reset` with the row, offers the public
methods as tools and counts the turns (`max_tool_calling_iterations`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from langmem_graph.errors import InvalidInputError
from langmem_graph.memory import Memory
from langmem_graph.navigate._actions import read_action
from langmem_graph.navigate._completions import calls_by_turn, finish_of, openai_messages
from langmem_graph.navigate._env import read_item
from langmem_graph.navigate._models import Navigation, QuestionItem, ToolUse
from langmem_graph.navigate._rubric import Rubric
from langmem_graph.navigate._tools import use_tool
from langmem_graph.navigate._walk import check_budget, initial_messages
from langmem_graph.tools.calling import MAX_TURNS
from langmem_graph.tools.catalogue import READING

Row = dict[str, Any]
Method = TypeVar("Method", bound=Callable[..., str])


def _described_as_in_catalogue(method: Method) -> Method:
    """Take the catalogue's description as docstring: the trainer shows docstrings to the model."""
    (tool,) = [one for one in READING if one.name == method.__name__]
    fields = tool.arguments.model_fields.items()
    lines = [
        tool.description,
        "",
        "Args:",
        *(f"    {name}: {of.description}" for name, of in fields),
    ]
    method.__doc__ = "\n".join(lines)
    method.__annotations__.pop("return")  # it would stand in the prompt, and nowhere else does
    return method


def trl_rows(
    items: Iterable[QuestionItem | Mapping[str, Any]], *, budget: int = MAX_TURNS
) -> list[Row]:
    """The rows of a training set: `prompt`, and the item as JSON text."""
    check_budget(budget)
    checked = [read_item(item) for item in items]
    return [
        {"prompt": initial_messages(item.question, budget), "item": item.model_dump_json()}
        for item in checked
    ]


def trl_environment(memory: Memory) -> Callable[[], "TrlEnvironment"]:
    """What `GRPOTrainer(environment_factory=…)` takes."""
    return lambda: TrlEnvironment(memory)


class TrlEnvironment:
    """One rollout: the trainer shows its public methods to the model as tools."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._item: QuestionItem | None = None
        self._uses: list[ToolUse] = []

    def reset(self, *, item: str, **row: Any) -> None:
        """Begin a row of `trl_rows`."""
        self._item = QuestionItem.model_validate_json(item)
        self._uses = []

    @_described_as_in_catalogue
    def search_records(self, query: str) -> str:
        """Replaced by the description in the catalogue."""
        return self._use("search_records", query=query)

    @_described_as_in_catalogue
    def search_conversation(self, query: str) -> str:
        """Replaced by the description in the catalogue."""
        return self._use("search_conversation", query=query)

    @_described_as_in_catalogue
    def get_records(self, record_ids: list[str]) -> str:
        """Replaced by the description in the catalogue."""
        return self._use("get_records", record_ids=record_ids)

    @_described_as_in_catalogue
    def get_conversation(self, message_ids: list[str]) -> str:
        """Replaced by the description in the catalogue."""
        return self._use("get_conversation", message_ids=message_ids)

    @_described_as_in_catalogue
    def read_file(self, name: str) -> str:
        """Replaced by the description in the catalogue."""
        return self._use("read_file", name=name)

    def _use(self, tool: str, **arguments: Any) -> str:
        (call,) = read_action({"name": tool, "arguments": arguments}, 1).calls
        text, use = use_tool(self._memory.user(self._current_item().user_id), call, turn=1)
        self._uses.append(use)
        return text

    def _current_item(self) -> QuestionItem:
        if self._item is None:
            raise InvalidInputError("There is no question yet. Call reset first.")
        return self._item

    def _navigation(
        self, prompt: Sequence[Row], completion: Sequence[Row]
    ) -> tuple[QuestionItem, Navigation]:
        item = self._current_item()
        finish, answer = finish_of(completion)
        asking = [bool(one.get("tool_calls")) for one in completion]
        navigation = Navigation(
            user_id=item.user_id,
            question=item.question,
            **vars(answer),
            finish=finish,
            tool_calls=calls_by_turn(completion, self._uses),
            turns=sum(asking[:-1]),  # calls at the very end were not made
            messages=openai_messages([*prompt, *completion]),
        )
        return item, navigation


def trl_navigation(
    environment: TrlEnvironment, prompt: Sequence[Row], completion: Sequence[Row]
) -> tuple[QuestionItem, Navigation]:
    """The question item and the navigation of a rollout, for metrics and export."""
    return environment._navigation(prompt, completion)  # public methods would be tools


def trl_reward(rubric: Rubric | None = None) -> Callable[..., list[float]]:
    """What `GRPOTrainer(reward_funcs=…)` takes: the rubric's reward of each rollout."""
    chosen = rubric or Rubric()

    def navigation_reward(
        prompts: Sequence[Sequence[Row]],
        completions: Sequence[Sequence[Row]],
        environments: Sequence[TrlEnvironment],
        **_: Any,
    ) -> list[float]:
        rollouts = zip(environments, prompts, completions, strict=True)
        return [chosen.score(*trl_navigation(*rollout)).reward for rollout in rollouts]

    return navigation_reward
