"""What it cost: seconds, calls, tokens, bytes per 1,000 turns, and dollars."""

from collections.abc import Sequence

from benchmarks.common import table
from benchmarks.log import Log, Row
from benchmarks.report.figures import by_system

_TOKENS = ("calls", "input_tokens", "output_tokens")
_TITLES = {
    "calls": "calls",
    "input_tokens": "prompt tokens",
    "output_tokens": "completion tokens",
}


def cost_tables(
    log: Log, names: Sequence[str], prices: tuple[float, float] | None, *, cold: bool
) -> list[str]:
    """Efficiency per 1,000 turns, and the totals of a run with models."""
    embedding = "contain" if cold else "do not contain"
    parts = [
        "\n## Efficiency\n",
        "Adding is given per 1,000 turns; systems that share a memory are each "
        "charged for it. "
        f"Seconds {embedding} embedding.\n",
        _efficiency(log, names),
    ]
    if any("reply" in row for row in log.rows("asked")):
        parts += ["\nTotals, judging apart:\n", _totals(log, names, prices)]
    return parts


def _efficiency(log: Log, names: Sequence[str]) -> str:
    """Calls and tokens only where there was a model."""
    answered = any("reply" in row for row in log.rows("asked"))
    kinds = _TOKENS if answered else ()
    header = ["system", "turns", "add s", *(f"add {_TITLES[kind]}" for kind in kinds)]
    header += [
        "sessions with failures",
        "MB on disk",
        "s a question",
        *(f"{_TITLES[kind]} a question" for kind in kinds),
    ]
    sizes = by_system(log.rows("size"), names)
    asked = by_system(log.rows("asked"), names)
    lines = []
    for name, own in by_system(log.rows("added"), names).items():
        turns = sum(row["turns"] for row in own)
        values = [f"{turns:,}", f"{_per_1000(own, 'seconds', turns):.2f}"]
        values += [f"{_per_1000(own, kind, turns):,.0f}" for kind in kinds]
        values.append(str(sum(bool(row["failures"]) for row in own)))
        stored = sizes.get(name, [])
        kept = sum(row["turns"] for row in stored)
        values.append(f"{_per_1000(stored, 'bytes', kept) / 1e6:.2f}" if kept else "–")
        lines.append([name, *values, *_asking(asked.get(name, []), kinds)])
    return table(header, lines)


def _per_1000(rows: Sequence[Row], kind: str, turns: int) -> float:
    return 1_000 * float(sum(row[kind] for row in rows)) / turns if turns else 0.0


def _asking(rows: Sequence[Row], kinds: Sequence[str]) -> list[str]:
    """Means of one question."""
    if not rows:
        return ["–"] * (1 + len(kinds))
    spent = [row["reply"]["spent"] if "reply" in row else row for row in rows]
    seconds = sum(one["seconds"] for one in spent) / len(rows)
    others = [sum(one[kind] for one in spent) / len(rows) for kind in kinds]
    return [f"{seconds:.3f}", *(f"{one:,.1f}" for one in others)]


def _totals(log: Log, names: Sequence[str], prices: tuple[float, float] | None) -> str:
    header = [
        "system",
        "calls",
        "prompt tokens",
        "completion tokens",
        "judge calls",
        "judge tokens",
    ]
    header += ["USD, judge's not included"] if prices else []
    added = by_system(log.rows("added"), names)
    lines = []
    for name, own in by_system(log.rows("asked"), names).items():
        spent = [row["reply"]["spent"] for row in own] + added.get(name, [])
        calls, read, written = (sum(one[kind] for one in spent) for kind in _TOKENS)
        judged = [row["judged"] for row in own]
        tokens = sum(one["input_tokens"] + one["output_tokens"] for one in judged)
        values = [calls, read, written, sum(one["calls"] for one in judged), tokens]
        line = [name, *(f"{value:,}" for value in values)]
        if prices:
            line.append(f"{(read * prices[0] + written * prices[1]) / 1e6:.4f}")
        lines.append(line)
    return table(header, lines)
