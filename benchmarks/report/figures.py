"""The numbers of a run, grouped as tables show them."""

from collections.abc import Callable, Sequence
from statistics import fmean

from benchmarks.common import table
from benchmarks.log import Row
from benchmarks.metrics.statistics import bootstrap_interval

Measure = Callable[[Row], float | None]
"""None where a question does not measure it, which is not 0."""


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
        columns = [
            [row for row in own if label(row) == one] for own in systems.values()
        ]
        cells = [_cell(measured_of(rows, measure)) for rows in columns]
        lines.append([one or "(none)", str(len(columns[0])), *cells])
    return [f"\n{title}, {measured}:\n", table(["", "questions", *systems], lines)]


def measured_of(rows: Sequence[Row], measure: Measure) -> list[float]:
    """The values of those that measure it."""
    return [value for row in rows if (value := measure(row)) is not None]


def _cell(values: Sequence[float]) -> str:
    return f"{mean(values):.3f}" if values else "–"


def mean_of_means(own: Sequence[Row], measure: Measure) -> float:
    """The unweighted mean of the conversations' means, as RealMem aggregates."""
    talks: dict[str, list[Row]] = {}
    for row in own:
        talks.setdefault(row["conversation"], []).append(row)
    values = [measured_of(rows, measure) for rows in talks.values()]
    return mean([mean(one) for one in values if one])
