"""The reports' plots, as PNG."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from benchmarks.metrics import bootstrap_interval
from benchmarks.results import MAIN_CUT, Answer, by_system

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def recall_bars(answers: Mapping[str, Sequence[Answer]], file: Path) -> None:
    """One panel per data set, one bar per system with its 95% interval."""
    figure, panels = _figure(len(answers))
    for panel, (name, own) in zip(panels, answers.items(), strict=True):
        _bars(panel, by_system(own))
        panel.set_title(f"{name}: recall@{MAIN_CUT}")
    _write(figure, file)


def _bars(panel: "Axes", systems: Mapping[str, Sequence[Answer]]) -> None:
    recalls = {name: [answer.recall() for answer in own] for name, own in systems.items()}
    for name, values in recalls.items():
        mean, (low, high) = fmean(values), bootstrap_interval(values)
        bar = panel.bar(name, mean, yerr=[[mean - low], [high - mean]], capsize=3)
        panel.bar_label(bar, fmt="%.2f", label_type="center")
    panel.set_ylim(0, 1)
    panel.tick_params(axis="x", rotation=30)


def time_lines(lines: Mapping[str, Mapping[int, float]], title: str, file: Path) -> None:
    """Milliseconds over number of messages, both logarithmic."""
    figure, (panel,) = _figure(1)
    for name, points in lines.items():
        panel.plot(list(points), list(points.values()), marker="o", label=name)
    panel.set(xscale="log", yscale="log", xlabel="messages", ylabel="ms, median", title=title)
    panel.legend()
    _write(figure, file)


def _figure(panels: int) -> tuple[Any, list["Axes"]]:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, panels, figsize=(5 * panels + 1, 4), squeeze=False)
    return figure, list(axes[0])


def _write(figure: Any, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(file, dpi=120)
