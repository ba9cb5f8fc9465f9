"""Training with TRL: rows, the environment with its tools, the reward, and completed
rollouts.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from langmem_graph.errors import InvalidInputError
from langmem_graph.filters import Where, parsed
from langmem_graph.memory import Memory, UserMemory
from langmem_graph.navigation.actions import (
    LONGEST_TEXT,
    FinalAnswer,
    Finish,
    Navigation,
    QuestionItem,
    ToolUse,
    read_action,
    read_answer,
    read_item,
    tool_call,
    use_tool,
)
from langmem_graph.navigation.reward import Rubric
from langmem_graph.navigation.rollouts import check_budget, initial_messages
from langmem_graph.rooms import room_names
from langmem_graph.tool_answers import MAX_TURNS, READING

Message = dict[str, Any]
Row = dict[str, Any]
Method = TypeVar("Method", bound=Callable[..., str])


def openai_messages(messages: Sequence[Message]) -> list[Message]:
    """The messages in OpenAI's format; calls get ids, to which their answers refer."""
    converted = []
    turn = 0
    open_ids = iter(())
    for message in messages:
        plain = {"role": message["role"], "content": message.get("content") or ""}
        if calls := message.get("tool_calls"):
            turn += 1
            plain["tool_calls"] = [
                _call(call, turn, n) for n, call in enumerate(calls, 1)
            ]
            open_ids = iter([call["id"] for call in plain["tool_calls"]])
        if message["role"] == "tool":
            plain["tool_call_id"] = next(open_ids, f"call-{turn}-?")
        converted.append(plain)
    return converted


def calls_by_turn(
    completion: Sequence[Message], recorded: Sequence[ToolUse]
) -> list[ToolUse]:
    """The answered calls, each with its turn.

    The trainer itself answers a call whose arguments fit no tool: the environment has
    not recorded such a call, but it counts. Calls at the very end were not answered.
    """
    remaining = list(recorded)
    uses = []
    asking = [
        message["tool_calls"]
        for message in completion[:-1]
        if message.get("tool_calls")
    ]
    for turn, calls in enumerate(asking, 1):
        for call in calls:
            name, arguments = _requested(call)
            if remaining and (remaining[0].name, remaining[0].arguments) == (
                name,
                arguments,
            ):
                uses.append(remaining.pop(0).model_copy(update={"turn": turn}))
                continue
            plain = arguments if isinstance(arguments, dict) else {}
            error = "The trainer could not make this call."
            uses.append(ToolUse(name=name, arguments=plain, turn=turn, error=error))
    return uses + remaining


def finish_of(completion: Sequence[Message]) -> tuple[Finish, FinalAnswer]:
    """How the rollout ended; last calls without an answer exceeded the tool budget."""
    last = completion[-1] if completion else {}
    if last.get("role") != "assistant" or last.get("tool_calls"):
        return "over_budget", FinalAnswer("")
    text = str(last.get("content") or "")[:LONGEST_TEXT]
    return (
        ("answered", read_answer(text))
        if text.strip()
        else ("no_answer", FinalAnswer(""))
    )


def _call(call: Message, turn: int, number: int) -> Message:
    name, arguments = _requested(call)
    text = (
        arguments
        if isinstance(arguments, str)
        else json.dumps(arguments, ensure_ascii=False)
    )
    return tool_call(f"call-{turn}-{number}", name=name, arguments=text)


def _requested(call: Message) -> tuple[str, Any]:
    """Name and arguments of a call."""
    function = call.get("function") or {}
    return str(function.get("name") or "unknown"), function.get("arguments")


def _described_as_in_catalogue(method: Method) -> Method:
    """Take the catalogue's description as docstring: the trainer shows docstrings to
    the model.
    """
    (tool,) = [tool for tool in READING if tool.name == method.__name__]
    fields = tool.arguments.model_fields.items()
    arguments = [f"    {name}: {field.description}" for name, field in fields]
    method.__doc__ = "\n".join([tool.description, "", "Args:", *arguments])
    method.__annotations__.pop("return")  # the other prompts have no return type either
    return method


def trl_rows(
    items: Iterable[QuestionItem | Mapping[str, Any]], *, budget: int = MAX_TURNS
) -> list[Row]:
    """The rows of a training set: `prompt`, and the item as JSON text."""
    check_budget(budget)
    return [
        {
            "prompt": initial_messages(item.question, budget),
            "item": item.model_dump_json(),
        }
        for item in map(read_item, items)
    ]


def trl_environment(
    memory: Memory, *, where: Where | None = None, shared: Sequence[str | int] = ()
) -> Callable[[], "TrlEnvironment"]:
    """The value for `GRPOTrainer(environment_factory=…)`; options as for
    `NavigationEnv`.
    """
    parsed(where)  # raises for an unusable one
    rooms = room_names(shared)
    return lambda: TrlEnvironment(memory, where, rooms)


class TrlEnvironment:
    """One rollout: the trainer shows its public methods to the model as tools."""

    def __init__(
        self, memory: Memory, where: Where | None = None, shared: Sequence[str] = ()
    ) -> None:
        self._memory = memory
        self._where = where
        self._shared = shared
        self._begun: tuple[QuestionItem, UserMemory] | None = None
        self._uses: list[ToolUse] = []

    def reset(self, *, item: str, **row: Any) -> None:
        """Begin a row of `trl_rows`."""
        asked = QuestionItem.model_validate_json(item)
        self._begun = asked, self._memory.user(asked.user_id, shared=self._shared)
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
        text, use = use_tool(self._current()[1], call, turn=1, where=self._where)
        self._uses.append(use)
        return text

    def _current(self) -> tuple[QuestionItem, UserMemory]:
        if self._begun is None:
            raise InvalidInputError("There is no question yet. Call reset first.")
        return self._begun


def trl_navigation(
    environment: TrlEnvironment, prompt: Sequence[Row], completion: Sequence[Row]
) -> tuple[QuestionItem, Navigation]:
    """The question item and the navigation of a rollout, for metrics and export."""
    item, user = environment._current()  # private, since public methods would be tools
    finish, answer = finish_of(completion)
    has_calls = [bool(message.get("tool_calls")) for message in completion]
    navigation = Navigation(
        user_id=item.user_id,
        question=item.question,
        **vars(answer),
        finish=finish,
        tool_calls=calls_by_turn(completion, environment._uses),
        turns=sum(has_calls[:-1]),  # calls at the very end were not made
        problems=list(user._left_out),  # same package
        messages=openai_messages([*prompt, *completion]),
    )
    return item, navigation


def trl_reward(rubric: Rubric | None = None) -> Callable[..., list[float]]:
    """The value for `GRPOTrainer(reward_funcs=…)`: the rubric's reward of each
    rollout.
    """
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
