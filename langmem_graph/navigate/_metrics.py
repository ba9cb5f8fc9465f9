"""NapMem's metrics of how memory was used (its Tables 2 and 5)."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from pydantic import BaseModel, ConfigDict

from langmem_graph.errors import InvalidInputError
from langmem_graph.navigate._env import read_item
from langmem_graph.navigate._models import Navigation, QuestionItem
from langmem_graph.navigate._rubric import evidence_shown

Pair = tuple[QuestionItem, Navigation]


class NavigationMetrics(BaseModel):
    """Shares from 0 to 1; None where no item counts for a metric."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    items: int
    answered: float | None
    """Of all: answered within the tool budget."""
    tool_calls: float | None
    """Mean, of the items that need memory; failed calls count."""
    turns: float | None
    """Mean, of the items that need memory."""
    multi_level: float | None
    """Of the items that need memory: two or more layers were read."""
    evidence_hit: float | None
    """Of the tool calls for items with gold evidence: at least one gold id was shown."""
    evidence_recall: float | None
    """Of the gold ids of an item, the share shown at all; mean over the items that have some."""
    unneeded_calls: float | None
    """Of the items that need no memory: a tool was called."""
    tokens: float | None
    """Mean of input and output tokens, of all."""


def navigation_metrics(
    navigations: Sequence[Navigation], gold: Sequence[QuestionItem | Mapping[str, Any]]
) -> NavigationMetrics:
    """The metrics of many navigations.

    Args:
        navigations: in any state; one that failed counts with the calls it made.
        gold: the item of each, in the same order.

    Raises:
        InvalidInputError: their numbers differ, or they belong to different questions.
    """
    pairs = _paired(navigations, gold)
    needing = [done for item, done in pairs if item.needs_memory]
    evidenced = [(item, done) for item, done in pairs if item.needs_memory and item.evidence]
    return NavigationMetrics(
        items=len(pairs),
        answered=_mean(done.finish == "answered" for _, done in pairs),
        tool_calls=_mean(len(done.tool_calls) for done in needing),
        turns=_mean(done.turns for done in needing),
        multi_level=_mean(len(layers(done)) > 1 for done in needing),
        evidence_hit=_mean(hit for pair in evidenced for hit in _hits(*pair)),
        evidence_recall=_mean(evidence_shown(item, done) or 0.0 for item, done in evidenced),
        unneeded_calls=_mean(
            bool(done.tool_calls) for item, done in pairs if not item.needs_memory
        ),
        tokens=_mean(done.input_tokens + done.output_tokens for _, done in pairs),
    )


def layers(navigation: Navigation) -> set[str]:
    """The layers that were read."""
    return {use.layer for use in navigation.tool_calls if use.layer}


def _paired(
    navigations: Sequence[Navigation], gold: Sequence[QuestionItem | Mapping[str, Any]]
) -> list[Pair]:
    items = [read_item(one) for one in gold]
    if len(items) != len(navigations):
        raise InvalidInputError(f"{len(navigations)} navigations, but {len(items)} gold items.")
    pairs = list(zip(items, navigations, strict=True))
    for item, done in pairs:
        if (item.user_id, item.question) != (done.user_id, done.question):
            raise InvalidInputError(f"The gold item {item.id or item.question!r} is another's.")
    return pairs


def _hits(item: QuestionItem, navigation: Navigation) -> list[bool]:
    gold = set(item.evidence)
    return [
        not gold.isdisjoint([*use.message_ids, *use.record_ids]) for use in navigation.tool_calls
    ]


def _mean(values: Iterable[float]) -> float | None:
    """The mean, or None of nothing."""
    numbers = [float(value) for value in values]
    return fmean(numbers) if numbers else None
