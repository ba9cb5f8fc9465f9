"""How right a tool call is, slot by slot, and why a slot is wrong (methods 3.4).

Pure functions over gold arguments, predicted arguments and the gold slots' types. A
call that could not be read is given as a prediction without a tool name: it is counted,
and wrong.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Literal, get_args
from unicodedata import normalize

from rapidfuzz.distance import Levenshtein

from benchmarks.metrics.answers import bleu1, token_f1, words
from benchmarks.metrics.soft_matching import supports
from benchmarks.metrics.value_patterns import find_values

SlotType = Literal["explicit", "inferred", "default"]
"""Where a gold value comes from: said, to be concluded, or the schema's own."""
Complexity = Literal["simple", "number", "boolean", "complex"]
ErrorClass = Literal[
    "tool_selection",
    "retrieval_miss",
    "lossless_retention",
    "hallucinated_default",
    "unused",
]
ERROR_CLASSES: tuple[ErrorClass, ...] = get_args(ErrorClass)
"""In the order in which they are tested; a slot has the first that holds."""
LONGEST_SIMPLE = 30
"""Characters of a simple string; a longer one is complex."""
RETAINED = 0.6
"""Edit likeness from which a wrong value is the right one, corrupted."""
_ABSENT = object()


@dataclass(frozen=True)
class GoldSlot:
    """A parameter and the value it should get."""

    name: str
    value: Any
    type: SlotType = "explicit"
    sources: frozenset[str] = frozenset()
    """Ids of the items (messages or records) that the value comes from."""
    complex: bool | None = None
    """Whether the data set calls it complex; None: `complexity` tells."""


SlotLabel = Callable[[GoldSlot], str]


@dataclass(frozen=True)
class ToolTask:
    """A call that should be made, the call that was made, and what the model was shown.

    Attributes:
        tool: the right tool's name.
        gold: its slots with values.
        predicted_tool: None where no call could be read.
        predicted: the arguments that were given.
        shown: texts that were before the model: the request and what memory gave.
        shown_ids: ids of the items that were before the model.
        absent: slots that should get no value.
    """

    tool: str
    gold: tuple[GoldSlot, ...]
    predicted_tool: str | None
    predicted: Mapping[str, Any] = field(default_factory=dict)
    shown: Sequence[str] = ()
    shown_ids: Collection[str] = ()
    absent: Collection[str] = ()

    @property
    def arguments(self) -> dict[str, Any]:
        """The gold call's arguments."""
        return {slot.name: slot.value for slot in self.gold}

    @property
    def was_read(self) -> bool:
        """Whether there is a call at all."""
        return self.predicted_tool is not None

    @property
    def right_tool(self) -> bool:
        """Whether the tool of that name was called."""
        return self.predicted_tool == self.tool


def same_value(gold: Any, predicted: Any, *, exact_links: bool = False) -> bool:
    """Whether two JSON values are the same.

    Types are strict (`"5"` is not 5, `true` is not 1), numbers go by value (1 is 1.0),
    strings are trimmed and case is ignored.

    Args:
        gold: the right value.
        predicted: the given one.
        exact_links: compare the case of strings that hold a web address.
    """
    if isinstance(gold, bool) or isinstance(predicted, bool):
        return gold is predicted
    if isinstance(gold, int | float) and isinstance(predicted, int | float):
        return gold == predicted
    if isinstance(gold, str) and isinstance(predicted, str):
        one, other = normalize("NFC", gold.strip()), normalize("NFC", predicted.strip())
        strict = exact_links and "://" in one
        return one == other if strict else one.casefold() == other.casefold()
    if isinstance(gold, list) and isinstance(predicted, list):
        pairs = zip(gold, predicted, strict=False)
        alike = (same_value(a, b, exact_links=exact_links) for a, b in pairs)
        return len(gold) == len(predicted) and all(alike)
    if isinstance(gold, dict) and isinstance(predicted, dict):
        alike = (
            same_value(gold[k], predicted.get(k), exact_links=exact_links) for k in gold
        )
        return gold.keys() == predicted.keys() and all(alike)
    return gold is None and predicted is None


def is_right(slot: GoldSlot, predicted: Mapping[str, Any]) -> bool:
    """Whether the slot is there with its value."""
    return slot.name in predicted and same_value(slot.value, predicted[slot.name])


def value_tokens(arguments: Mapping[str, Any]) -> list[str]:
    """The words of the values alone, case-folded, in the order of the sorted keys."""
    texts = (_written(arguments[key]) for key in sorted(arguments))
    return [token for text in texts for token in words(text)]


def call_tokens(tool: str | None, arguments: Mapping[str, Any]) -> list[str]:
    """The words of the whole call, serialised: the tool's name, the keys and the
    values.
    """
    call = {"name": tool, "arguments": arguments}
    return words(_written(call))


def _written(value: Any) -> str:
    return (
        value
        if isinstance(value, str)
        else json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    )


def value_f1(gold: Mapping[str, Any], predicted: Mapping[str, Any]) -> float:
    """F1 of the values' words: the figure that is comparable with the paper's."""
    return token_f1(value_tokens(predicted), value_tokens(gold))


def value_bleu1(gold: Mapping[str, Any], predicted: Mapping[str, Any]) -> float:
    """BLEU-1 of the values' words."""
    return bleu1(value_tokens(predicted), value_tokens(gold))


def call_bleu1(task: ToolTask) -> float:
    """BLEU-1 of the whole serialised call."""
    if not task.was_read:
        return 0.0
    made = call_tokens(task.predicted_tool, task.predicted)
    return bleu1(made, call_tokens(task.tool, task.arguments))


def slot_f1(gold: Mapping[str, Any], predicted: Mapping[str, Any]) -> float:
    """F1 of slots, right where the key is there with an equal value; 1 when both are
    empty.
    """
    return f1_of_counts(*slot_counts(gold, predicted))


def slot_counts(
    gold: Mapping[str, Any], predicted: Mapping[str, Any]
) -> tuple[int, int, int]:
    """Right slots, predicted slots and gold slots; sums of these give the micro F1."""
    right = sum(
        key in predicted and same_value(gold[key], predicted[key]) for key in gold
    )
    return right, len(predicted), len(gold)


def f1_of_counts(right: int, predicted: int, gold: int) -> float:
    """F1 of `slot_counts`, of one task or summed over tasks; 1 when there is nothing to
    fill.
    """
    return 2 * right / (predicted + gold) if predicted + gold else 1.0


def exact_match(task: ToolTask) -> bool:
    """The right tool with exactly the gold's keys, each with its value."""
    if not task.right_tool or task.predicted.keys() != task.arguments.keys():
        return False
    return all(is_right(slot, task.predicted) for slot in task.gold)


def invented(task: ToolTask) -> list[str]:
    """Slots that got a value though they should have none: the listed ones, else any
    not in gold.

    A value for a slot that the data set says nothing of is not counted where it lists
    `absent`.
    """
    extra = [name for name in task.predicted if name not in task.arguments]
    return [name for name in extra if name in task.absent] if task.absent else extra


def complexity(slot: GoldSlot) -> Complexity:
    """What kind of value it is: long texts, links, addresses, codes and nested values
    are complex.

    A date or an amount of a few characters is a simple string.
    """
    value = slot.value
    if slot.complex or isinstance(value, list | dict):
        return "complex"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if slot.complex is None and _is_complex_text(str(value)):
        return "complex"
    return "simple"


def _is_complex_text(text: str) -> bool:
    kinds = {value.type for value in find_values(text)}
    return len(text) > LONGEST_SIMPLE or bool(
        kinds & {"url", "email", "phone", "identifier", "address"}
    )


def error_class(slot: GoldSlot, task: ToolTask) -> ErrorClass | None:
    """Why a slot is wrong, the first reason that holds; None when it is right.

    Tested in this order: the wrong tool; no evidence for the value before the model; a
    complex value that came back damaged; a default that was replaced; evidence that was
    there and unused. A default stands in the schema, which is always before the model,
    so it is never a miss.
    """
    if not task.right_tool:
        return "tool_selection"
    if is_right(slot, task.predicted):
        return None
    if slot.type != "default" and not is_shown(slot, task):
        return "retrieval_miss"
    given = task.predicted.get(slot.name, _ABSENT)
    if (
        complexity(slot) == "complex"
        and given is not _ABSENT
        and _is_damaged(slot.value, given)
    ):
        return "lossless_retention"
    return "hallucinated_default" if slot.type == "default" else "unused"


def is_shown(slot: GoldSlot, task: ToolTask) -> bool:
    """Whether evidence for the value was before the model, by its source or by its
    words.
    """
    if not slot.sources.isdisjoint(task.shown_ids):
        return True
    return any(supports(text, slot.value) for text in task.shown)


def _is_damaged(gold: Any, given: Any) -> bool:
    right, other = _written(gold).strip().casefold(), _written(given).strip().casefold()
    if not other:
        return False
    alike = Levenshtein.normalized_similarity(right, other) >= RETAINED
    return alike or other in right or right in other


def gold_slots(gold: Mapping[str, Mapping[str, Any]]) -> tuple[GoldSlot, ...]:
    """The slots of `{name: {"value", "type", "sources", "complex"}}`."""
    return tuple(
        GoldSlot(
            name,
            one["value"],
            one.get("type", "explicit"),
            frozenset(map(str, one.get("sources") or ())),
            one.get("complex"),
        )
        for name, one in gold.items()
    )


def slot_accuracy(
    tasks: Sequence[ToolTask], label: SlotLabel
) -> dict[str, tuple[float, int]]:
    """Share of right slots and number of slots, per label of a slot, such as
    its type.
    """
    right: dict[str, list[bool]] = {}
    for task in tasks:
        for slot in task.gold:
            hit = task.right_tool and is_right(slot, task.predicted)
            right.setdefault(label(slot), []).append(hit)
    return {name: (fmean(hits), len(hits)) for name, hits in sorted(right.items())}


def error_rates(tasks: Sequence[ToolTask]) -> dict[ErrorClass, float]:
    """How often a slot is wrong for each reason, over all gold slots, right ones
    included.

    Shares of the errors alone could not be compared across systems.
    """
    found = Counter(error_class(slot, task) for task in tasks for slot in task.gold)
    total = found.total()
    return {name: found[name] / total if total else 0.0 for name in ERROR_CLASSES}


def summary(tasks: Sequence[ToolTask]) -> dict[str, float]:
    """All figures of a run over tasks, as fractions; empty without tasks.

    `arg_f1` is the values' F1 over the tasks with the right tool; `invented` counts
    slots per task.
    """
    if not tasks:
        return {}
    counts = [_counts(task) for task in tasks]
    right_tool = [task for task in tasks if task.right_tool]
    f1s = [task_f1(task) for task in right_tool]
    return {
        "value_f1": fmean(map(task_f1, tasks)),
        "value_bleu1": fmean(
            value_bleu1(task.arguments, task.predicted) if task.was_read else 0.0
            for task in tasks
        ),
        "call_bleu1": fmean(call_bleu1(task) for task in tasks),
        "slot_f1": fmean(
            f1_of_counts(*one) if task.right_tool else 0.0
            for task, one in zip(tasks, counts, strict=True)
        ),
        "slot_f1_micro": f1_of_counts(*map(sum, zip(*counts, strict=True))),
        "exact_match": fmean(exact_match(task) for task in tasks),
        "tool_accuracy": len(right_tool) / len(tasks),
        "arg_f1": fmean(f1s) if f1s else 0.0,
        "invented": fmean(len(invented(task)) for task in tasks),
    }


def task_f1(task: ToolTask) -> float:
    """F1 of the values' words; 0 where no call could be read, even if nothing was to be
    filled.
    """
    return value_f1(task.arguments, task.predicted) if task.was_read else 0.0


def _counts(task: ToolTask) -> tuple[int, int, int]:
    """`slot_counts`; a wrong tool's arguments fill no slot of the right one, but were
    given.
    """
    right, predicted, gold = slot_counts(task.arguments, task.predicted)
    # nothing to fill, and yet wrong
    missed = not task.right_tool and not predicted + gold
    return right if task.right_tool else 0, predicted + missed, gold
