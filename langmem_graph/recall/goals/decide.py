"""Chooses which of several values holds, by corrections and dates alone (methods 6.2).

Facts that are still true beat outdated ones, confirmed ones beat drafts, and within one attribute
of one subject the newer one holds. Where that does not decide, both are shown.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from langmem_graph.models import Fact

_NEVER = datetime.min.replace(tzinfo=UTC)
_DOUBTFUL = ("draft", "inferred")


def decide(values: Mapping[str, Sequence[Fact]]) -> str | None:
    """The value that holds, or None when the facts do not say."""
    left = dict(values)
    for test in (_is_current, _is_confirmed):
        left = _passing(left, test)
        if len(left) == 1:
            return next(iter(left))
    return _newest(left)


def _passing(
    values: dict[str, Sequence[Fact]], test: Callable[[Fact], bool]
) -> dict[str, Sequence[Fact]]:
    """The values that a fact of the better sort speaks for; all, when none does."""
    better = {value: facts for value, facts in values.items() if any(map(test, facts))}
    return better or values


def _is_current(fact: Fact) -> bool:
    return not fact.outdated


def _is_confirmed(fact: Fact) -> bool:
    return fact.confirmation not in _DOUBTFUL


def _newest(values: Mapping[str, Sequence[Fact]]) -> str | None:
    """The newest, where all are about one attribute and the dates differ."""
    about = {(f.subject, f.attribute) for facts in values.values() for f in facts}
    if len(about) != 1 or None in next(iter(about)) or "" in next(iter(about)):
        return None
    latest = {value: max(fact.at or _NEVER for fact in facts) for value, facts in values.items()}
    last = max(latest.values())
    newest = [value for value, at in latest.items() if at == last]
    return newest[0] if len(newest) == 1 else None
