"""The figures of judged runs as tables; beside each share stands what it is a
share of.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any

from benchmarks.common import table
from benchmarks.truth.scores import BACKLOG_TOKENS, FIRST, SECOND, Judged

LONG_SESSIONS = (1, 12, 20)
"""Turns of every session, from which on calls are counted apart."""


def share(values: Iterable[bool]) -> str:
    """As `39/40 (98%)`."""
    given = list(values)
    return (
        f"{sum(given)}/{len(given)} ({sum(given) / len(given):.0%})"
        if given
        else "0 cases"
    )


def report(judged: Sequence[Judged], unjudged: int) -> str:
    """All runs, one after the other."""
    parts = ["# Does memory stay true?"]
    if unjudged:
        parts.append(f"{unjudged} sheets have no answer yet and are in no figure.")
    ordered = sorted(judged, key=_run)
    parts += [_section(name, list(own)) for name, own in groupby(ordered, key=_run)]
    return "\n\n".join(parts) + "\n"


def _run(one: Judged) -> str:
    told = [one.run.get(name) for name in ("mode", "embeddings", "model", "commit")]
    return ", ".join(str(part) for part in told if part)


def _section(name: str, judged: Sequence[Judged]) -> str:
    parts = [f"## {name}: {len(judged)} cases", _truth(judged), costs(judged)]
    for title, part_of in _PARTS.items():
        parts.append(_by(title, judged, part_of))
    return "\n\n".join(parts)


_PARTS: dict[str, Callable[[Judged], str]] = {
    "language": lambda one: str(one["language"]),
    "group and kind": lambda one: f"{one['group']}: {one['kind']}",
}


def _truth(judged: Sequence[Judged]) -> str:
    changes = [one for one in judged if one.is_change]
    nothing = [one for one in judged if not one.is_change]
    correct = [row for one in judged for row in one.correct_records()]
    superseded = [label for one in judged for label in one.superseded_shown()]
    outdated = [label for one in judged for label in one.outdated_lines()]
    rows = [
        ["changes accepted", share(one.accepted for one in changes)],
        ["of these, what ended was never recorded", _count(_unrecorded(changes))],
        [
            "schedule changes accepted",
            share(one.accepted for one in changes if one.is_schedule),
        ],
        [
            "nothing changes: wrongly superseded or labelled",
            share(one.damaged for one in nothing),
        ],
        [
            "nothing changes: what still holds superseded",
            share(o.superseded for o in nothing),
        ],
        ["something changes: something else lost", share(one.lost for one in changes)],
        ["cases in which another record of the user was superseded", _fillers(judged)],
        [
            "old record in view of the change",
            share(_flat(one.old_in_view() for one in changes)),
        ],
        [
            "correct records marked inferred",
            share(_is_inferred(row) for row in correct),
        ],
        [
            "superseded records, source shown unlabelled",
            share(not one for one in superseded),
        ],
        ["outdated statements shown unlabelled", share(not one for one in outdated)],
    ]
    return table(["truth", "share"], rows)


def _flat(parts: Iterable[Iterable[bool]]) -> list[bool]:
    return [value for part in parts for value in part]


def _unrecorded(changes: Iterable[Judged]) -> list[bool]:
    return [one.never_recorded for one in changes if one.accepted]


def _count(values: Sequence[bool]) -> str:
    return f"{sum(values)} of {len(values)}"


def _fillers(judged: Iterable[Judged]) -> str:
    return share(bool(one["filler_superseded"]) for one in judged)


def _is_inferred(row: dict[str, Any]) -> bool:
    return bool(row["confirmation"] == "inferred")


def costs(judged: Sequence[Judged]) -> str:
    """Calls and tokens as a table."""
    rows = [*_pace(judged), *_second_calls(judged), *_purposes(judged)]
    reports = [report for one in judged for report in one["reports"]]
    for name in ("refused", "refused_changes", "repairs", "given_up"):
        rows.append(
            [
                name.replace("_", " "),
                str(sum(report.get(name, 0) for report in reports)),
            ]
        )
    rows.append(["problems", str(sum(len(report["problems"]) for report in reports))])
    return table(["cost", ""], rows)


def _pace(judged: Sequence[Judged]) -> list[list[str]]:
    """Calls for each turn of live sessions, by their length; calls for the tokens of a
    backlog.
    """
    if judged[0]["mode"] == "backlog":
        return [
            _per_tokens("all cases", judged),
            _per_tokens(f"cases of {BACKLOG_TOKENS:,} tokens or more", _large(judged)),
        ]
    rows = []
    for least in LONG_SESSIONS:
        own = [one for one in judged if one.shortest >= least]
        turns = sum(one.turns for one in own)
        value = f"{sum(one.calls for one in own) / turns:.2f}" if turns else "none"
        told = f"{value} ({len(own)} cases, {turns} turns)"
        rows.append([f"calls a turn, sessions of {least} turns or more", told])
    return rows


def _large(judged: Iterable[Judged]) -> list[Judged]:
    return [one for one in judged if one["message_tokens"] >= BACKLOG_TOKENS]


def _per_tokens(name: str, judged: Sequence[Judged]) -> list[str]:
    tokens = sum(one["message_tokens"] for one in judged)
    calls = sum(one.calls for one in judged)
    value = f"{calls * BACKLOG_TOKENS / tokens:.2f}" if tokens else "none"
    title = f"calls for {BACKLOG_TOKENS:,} tokens of messages, {name}"
    return [title, f"{value} ({len(judged)} cases, {calls} calls)"]


def _second_calls(judged: Sequence[Judged]) -> list[list[str]]:
    first, second = (
        sum(one.asked(purpose) for one in judged) for purpose in (FIRST, SECOND)
    )
    value = f"{second}/{first} ({second / first:.0%})" if first else "none"
    return [["batches with a second call", value]]


def _purposes(judged: Sequence[Judged]) -> list[list[str]]:
    """For each kind of call: how many, and tokens of rules with schema, of the rest, of
    answers.
    """
    calls = [call for one in judged for call in one["calls"]]
    rows = []
    for purpose in sorted({call["purpose"] for call in calls}):
        own = [call for call in calls if call["purpose"] == purpose]
        sums = (
            _mean(own, name) for name in ("rule_tokens", "user_tokens", "answer_tokens")
        )
        told = "{} rules and schema + {} shown, {} answered".format(*sums)
        rows.append([f"{purpose}: {len(own)} calls, tokens a call", told])
    return rows


def _mean(calls: Sequence[dict[str, Any]], name: str) -> int:
    return round(sum(int(call[name]) for call in calls) / len(calls))


def _by(title: str, judged: Sequence[Judged], part_of: Callable[[Judged], str]) -> str:
    rows = []
    for part, group in groupby(sorted(judged, key=part_of), key=part_of):
        own = list(group)
        changes = [one for one in own if one.is_change]
        rows.append(
            [
                part,
                str(len(own)),
                share(one.accepted for one in changes),
                share(one.damaged for one in own if not one.is_change),
                share(_flat(one.old_in_view() for one in changes)),
                share(
                    _is_inferred(row) for one in own for row in one.correct_records()
                ),
            ]
        )
    header = [title, "cases", "accepted", "wrongly superseded", "in view", "inferred"]
    return table(header, rows)
