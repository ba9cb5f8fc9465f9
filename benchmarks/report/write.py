"""The report of a run: report.md and its plots, from the log alone."""

from functools import partial
from pathlib import Path

from benchmarks.data.general import CATEGORY as GENERAL
from benchmarks.job import Job, machine
from benchmarks.log import Log, Row
from benchmarks.metrics.tool_calls import task_f1
from benchmarks.report import plots
from benchmarks.report.answers import answer_tables, lead, lead_title, scored, tool_task
from benchmarks.report.costs import cost_tables
from benchmarks.report.figures import by_system, mean, measured_of
from benchmarks.report.retrieval import recall_at, retrieval_tables


def write_report(job: Job, log: Log, seconds: float) -> str:
    """Write report.md and plots into the run's folder, and give the report's text."""
    names = [spec.name for spec in job.specs]
    own = {(t.name, q.id) for t in job.data.conversations for q in t.questions}
    rows = [
        row
        for row in log.rows("asked")
        if (row["conversation"], row["question"]) in own
    ]
    rows = [row for row in rows if row["system"] in names]
    added = [row for row in log.rows("added") if row["system"] in names]
    build = answer_tables if job.reader else retrieval_tables
    parts = [*build(job.data, rows, names), *_failures([*rows, *added])]
    parts += cost_tables(log, names, job.prices, cold=job.cold)
    parts += [
        "\n## Run\n",
        *_header(job, seconds),
        *(f"- {one}" for one in job.data.notes),
    ]
    text = "\n".join([*parts, ""])
    folder = job.folder
    (folder / "report.md").write_text(text, encoding="utf-8")
    _plot(job, rows, names, folder)
    return text


def _header(job: Job, seconds: float) -> list[str]:
    settings = job.settings
    lines = [
        f"- langmem-graph {settings['version']}, commit "
        f"{settings['commit'] or 'unknown'}; "
        f"{machine()}.",
        f"- Data {settings['files']}, {len(job.data.conversations)} conversations; "
        "gold are "
        f"{job.by}s; embeddings {settings['embeddings']}.",
        f"- This call took {seconds:.0f} s.",
    ]
    if job.left_out:
        lines.append(f"- {job.left_out:,} questions without gold are in no figure.")
    if job.limit is not None:
        lines.append(f"- A sample: at most {job.limit:,} questions, evenly spread.")
    if job.reader:
        model, judge = job.names
        lines.append(
            f"- Model {model}, judge {judge or 'none: answers are not judged'}; reader "
            f"{job.reader.name}, {job.reader.tokens:,} tokens of memory."
        )
        if judge and model == judge:
            lines.append(
                "- The judge is the model itself, and may favour its own answers."
            )
        lines.append(
            "- A failed answer or judgement counts as 0 and is counted in its column."
        )
    return lines


def _failures(rows: list[Row]) -> list[str]:
    """The first of each system's failures, for whoever must look into them."""
    first: dict[str, str] = {}
    for row in rows:
        for failure in row["failures"]:
            plain = " ".join(failure.split()).encode("utf-8", "replace").decode("utf-8")
            first.setdefault(row["system"], plain[:200])
    if not first:
        return []
    return [
        "\nFirst failures:\n",
        *(f"- {name}: {what}" for name, what in first.items()),
    ]


def _plot(job: Job, rows: list[Row], names: list[str], folder: Path) -> None:
    if job.reader is None:
        systems = by_system([row for row in rows if row["gold"]], names)
        found = {name: [recall_at(row) for row in own] for name, own in systems.items()}
        lines = {
            name: [mean([recall_at(row, k) for row in own]) for k in job.data.cuts]
            for name, own in systems.items()
        }
        if lines:
            plots.curves(lines, job.data.cuts, folder / "recall.png")
        title = f"{job.data.title}: recall@10"
    elif job.data.task == "tool":
        asked = {(t.name, q.id): q for t in job.data.conversations for q in t.questions}
        found = {
            name: [
                task_f1(tool_task(r, asked[r["conversation"], r["question"]]))
                for r in own
            ]
            for name, own in by_system(rows, names).items()
        }
        title = f"{job.data.title}: value F1"
    else:
        known = [row for row in rows if row["category"] != GENERAL and row["scores"]]
        measure = partial(scored, lead(known))
        found = {
            name: measured_of(own, measure)
            for name, own in by_system(known, names).items()
        }
        title = f"{job.data.title}: {lead_title(known)}"
    found = {name: values for name, values in found.items() if values}
    if found:
        plots.bars({title: found}, folder / "scores.png")
