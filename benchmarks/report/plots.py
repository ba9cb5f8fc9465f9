"""The reports' plots, as PNG. Needs matplotlib."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from benchmarks.metrics.statistics import bootstrap_interval
from langmem_graph.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def bars(panels: Mapping[str, Mapping[str, Sequence[float]]], file: Path) -> None:
    """One panel per title, one bar per system: the mean with its 95% interval."""
    figure, axes = _figure(len(panels))
    for panel, (title, systems) in zip(axes, panels.items(), strict=True):
        _bars(panel, systems)
        panel.set_title(title)
    _write(figure, file)


def _bars(panel: "Axes", systems: Mapping[str, Sequence[float]]) -> None:
    for name, values in systems.items():
        mean, (low, high) = fmean(values), bootstrap_interval(values)
        margins = [[max(0.0, mean - low)], [max(0.0, high - mean)]]
        bar = panel.bar(name, mean, yerr=margins, capsize=3)
        panel.bar_label(bar, fmt="%.2f", label_type="center")
    panel.set_ylim(0, 1)
    panel.tick_params(axis="x", rotation=30)


def curves(
    lines: Mapping[str, Sequence[float]], places: Sequence[int], file: Path
) -> None:
    """Recall over the cut, one line per system."""
    figure, (panel,) = _figure(1)
    for name, values in lines.items():
        panel.plot(list(places), list(values), marker="o", label=name)
    panel.set(xlabel="k", ylabel="recall@k", ylim=(0, 1))
    panel.legend()
    _write(figure, file)


def time_lines(
    lines: Mapping[str, Mapping[int, float]], title: str, file: Path
) -> None:
    """Milliseconds over number of messages, both logarithmic."""
    figure, (panel,) = _figure(1)
    for name, points in lines.items():
        panel.plot(list(points), list(points.values()), marker="o", label=name)
    panel.set(
        xscale="log", yscale="log", xlabel="messages", ylabel="ms, median", title=title
    )
    panel.legend()
    _write(figure, file)


def _figure(panels: int) -> tuple[Any, list["Axes"]]:
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise MissingExtraError(
            "Plots need matplotlib: pip install matplotlib."
        ) from error
    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1, panels, figsize=(5 * panels + 1, 4), squeeze=False
    )
    return figure, list(axes[0])


def _write(figure: Any, file: Path) -> None:
    from matplotlib import pyplot

    file.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(file, dpi=120)
    pyplot.close(figure)
