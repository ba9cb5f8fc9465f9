"""figures: the numbers of a run, grouped as tables show them."""

from collections.abc import Callable, Sequence
from statistics import fmean

from langmem_graph.bench.console import table
from langmem_graph.bench.log import Row
from langmem_graph.bench.metrics.statistics import bootstrap_interval

Measure = Callable[[Row], float]


def by_system(rows: Sequence[Row], names: Sequence[str]) -> dict[str, list[Row]]:
    """The rows of each system, in the order the systems were named."""
    found = {name: [row for row in rows if row["system"] == name] for name in names}
    return {name: own for name, own in found.items() if own}


def mean(values: Sequence[float]) -> float:
    """The mean, or 0 of nothing."""
    return fmean(values) if values else 0.0


def interval(values: Sequence[float]) -> str:
    """The 95% interval of the mean."""
    low, high = bootstrap_interval(values)
    return f"{low:.3f}–{high:.3f}"


def breakdown(
    title: str,
    systems: dict[str, list[Row]],
    label: Callable[[Row], str],
    measure: Measure,
    measured: str,
) -> list[str]:
    """A measure per label; nothing where the data set has no such labels."""
    labels = sorted({label(row) for own in systems.values() for row in own})
    if len(labels) < 2:
        return []
    lines = []
    for one in labels:
        columns = [[measure(r) for r in own if label(r) == one] for own in systems.values()]
        lines.append([one or "(none)", str(len(columns[0])), *(f"{mean(c):.3f}" for c in columns)])
    return [f"\n{title}, {measured}:\n", table(["", "questions", *systems], lines)]


def mean_of_means(own: Sequence[Row], measure: Measure) -> float:
    """The unweighted mean of the conversations' means, as RealMem aggregates."""
    talks: dict[str, list[float]] = {}
    for row in own:
        talks.setdefault(row["conversation"], []).append(measure(row))
    return mean([mean(values) for values in talks.values()])
