"""What memory fills into tool calls: a written set in Mem2ActBench's layout.

Run from the repository root: `python -m benchmarks.acting`. No model is called: a
stand-in that knows the right values gives them only where it is shown their sources
(`stand_ins.py`), so that the search and the check of values are measured.
`sets/README.md` says how the set was written.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import common
from benchmarks.long_replies import long_replies, replied
from benchmarks.metrics import tool_calls
from benchmarks.metrics.tool_calls import ToolTask
from benchmarks.reasoning import load, share
from benchmarks.stand_ins import FillAnswers, Liar, answers_of, surface
from langmem_graph.memory import Memory
from langmem_graph.results import GroundedCall
from langmem_graph.testing import ScriptedChatModel

ASKED = "2026-11-02T09:00:00+00:00"


@dataclass
class Filled:
    """What became of one task."""

    task: dict[str, Any]
    call: GroundedCall
    reader: FillAnswers

    def slots(self, kind: str, *, remembered: bool | None = None) -> list[str]:
        """Gold slots of a type; with `remembered` only those with, or without, a
        source.
        """
        gold = self.task["gold"]
        own = [slot for slot in gold if gold[slot]["type"] == kind]
        if remembered is None:
            return own
        return [slot for slot in own if bool(gold[slot]["sources"]) == remembered]

    def value(self, slot: str) -> Any:
        """What the call gives a slot; None where nothing."""
        found: Any = self.call.arguments
        for part in slot.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        return found

    def copied(self) -> list[bool]:
        """For each text taken from memory or request: is it the gold, byte for byte?"""
        gold = self.task["gold"]
        grounding = self.call.grounding
        defaults = [name for name in grounding if grounding[name].type == "default"]
        taken = [
            slot
            for slot in self.slots("explicit")
            if self.value(slot) is not None and slot not in defaults
        ]
        texts = [slot for slot in taken if isinstance(gold[slot]["value"], str | list)]
        plain = [slot for slot in texts if "surface" not in gold[slot]]
        return [
            _bytes(self.value(slot)) == _bytes(gold[slot]["value"]) for slot in plain
        ]

    def defaults(self) -> list[bool]:
        """For each slot of which nothing is said: is it the schema's default, or left
        out?
        """
        gold = self.task["gold"]
        return [
            self.value(s) in (None, gold[s]["value"]) for s in self.slots("default")
        ]

    def invented(self) -> list[str]:
        """Slots with a value that the set says nobody knows."""
        return [slot for slot in self.task["absent"] if self.value(slot) is not None]

    def reported(self) -> list[bool]:
        """For each required slot that nobody knows: is it named as missing?"""
        missing = {one.name for one in self.call.missing}
        return [slot in missing for slot in self.task["absent"] if self._required(slot)]

    def _required(self, slot: str) -> bool:
        return slot in self.task["tool"]["parameters"].get("required", [])

    def measured(self) -> ToolTask:
        """For the field's measures; a default that is left out counts as sent."""
        gold = {
            slot: one
            for slot, one in self.task["gold"].items()
            if one["value"] is not None or self.value(slot) is not None
        }
        given = {slot: self.value(slot) for slot in [*gold, *self.task["absent"]]}
        unsaid = {s: gold[s]["value"] for s in self.slots("default") if s in gold}
        predicted = {s: v if v is not None else unsaid.get(s) for s, v in given.items()}
        complex_kinds = ("long", "nested", "url", "list", "unicode")
        marked = {
            s: {**one, "complex": one["complex"] in complex_kinds}
            for s, one in gold.items()
        }
        return ToolTask(
            self.task["tool"]["name"],
            tool_calls.gold_slots(marked),
            self.call.name,
            {slot: value for slot, value in predicted.items() if value is not None},
            [text for texts in self.reader.shown.sources.values() for text in texts],
            absent=self.task["absent"],
        )


def _bytes(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


@contextmanager
def remembering(
    lines: Sequence[dict[str, Any]],
    replies: Iterator[str] | None = None,
    **options: Any,
) -> Iterator[Memory]:
    """A memory of these lines, with replies behind them; its model's answers can be
    changed.
    """
    with (
        TemporaryDirectory() as directory,
        Memory(
            directory, model=ScriptedChatModel(), causal_scorer="none", **options
        ) as memory,
    ):
        user = memory.user("user")
        for day, own in groupby(lines, key=lambda line: line["at"][:10]):
            user.add(replied(map(_message, own), replies), session_id=day)
        records = [_record(line) for line in lines if line["record"]]
        report = user.add_records(records)
        assert not report.rejected, report.rejected
        user.flush()  # the reader finds nothing more in them
        yield memory


def _message(line: dict[str, Any]) -> dict[str, Any]:
    return {
        "role": "user",
        "content": line["message"],
        "id": line["id"],
        "at": line["at"],
    }


def _record(line: dict[str, Any]) -> dict[str, Any]:
    old = [line["supersedes"]] if line["supersedes"] else []
    return {
        "record_id": line["id"],
        "text": line["record"],
        "source_message_ids": [line["id"]],
        "said_at": line["at"],
        "subject": line["subject"],
        "attribute": line["attribute"],
        "supersedes": old,
    }


def acting(lies: int = 20, **options: Any) -> tuple[list[Filled], list[Filled]]:
    """Every task with the perfect reader, and the first `lies` with the liar."""
    lines, tasks = load("acting_memory"), load("acting_tasks")
    with remembering(lines, **options) as memory:
        honest = _filled(memory, lines, tasks, FillAnswers)
        return honest, _filled(memory, lines, tasks[:lies], Liar)


def _filled(
    memory: Memory,
    lines: Sequence[dict[str, Any]],
    tasks: Sequence[dict[str, Any]],
    answers: type[FillAnswers],
) -> list[Filled]:
    known = {line["id"]: line for line in lines}
    # its answers change
    reader: Any = memory._pipelines.model if memory._pipelines else None
    done = []
    for task in tasks:
        chosen = answers(task, known)
        reader.answers = answers_of(chosen)
        call = memory.user("user").ground(task["tool"], task["request"], at=ASKED)
        done.append(Filled(task, call, chosen))
    return done


def shown(done: Sequence[Filled], *, remembered: bool | None = None) -> list[bool]:
    """For each explicit slot: did its gold value stand in what was shown?"""
    return [
        slot in one.reader.found
        for one in done
        for slot in one.slots("explicit", remembered=remembered)
    ]


def report_acting(done: Sequence[Filled], lies: Sequence[Filled]) -> str:
    """All tables."""
    inferred = [
        slot in one.reader.found for one in done for slot in one.slots("inferred")
    ]
    calls = [one.call.llm_calls for one in done]
    rows = [
        ["explicit values that are shown", share(shown(done))],
        ["of them from memory", share(shown(done, remembered=True))],
        ["explicit values sent and right", share(_sent(done, "explicit"))],
        ["sources of inferred values shown", share(inferred)],
        [
            "inferred values that code can show, sent and right",
            share(_sent(done, "inferred")),
        ],
        [
            "copied texts that are the gold, byte for byte",
            share(_all(done, Filled.copied)),
        ],
        ["defaults right or left out", share(_all(done, Filled.defaults))],
        [
            "required values that nobody knows, named as missing",
            share(_all(done, Filled.reported)),
        ],
        ["invented values", str(sum(len(one.invented()) for one in done))],
        [f"values taken from a liar, {len(lies)} tasks", str(lies_taken(lies))],
        ["model calls", f"{sum(calls) / len(calls):.1f}, {min(calls)} to {max(calls)}"],
    ]
    found = common.table([f"{len(done)} tasks", ""], rows)
    return (
        f"## Tool calls from memory\n\n{found}\n\n{_by_kind(done)}\n\n{_measures(done)}"
    )


def _sent(done: Sequence[Filled], kind: str) -> list[bool]:
    return [
        tool_calls.same_value(one.task["gold"][slot]["value"], one.value(slot))
        for one in done
        for slot in one.slots(kind)
    ]


def _all(done: Sequence[Filled], values: Any) -> list[bool]:
    return [value for one in done for value in values(one)]


def lies_taken(lies: Sequence[Filled]) -> int:
    """Made-up values that got into a call."""
    return sum("invented" in json.dumps(one.call.arguments) for one in lies)


def _by_kind(done: Sequence[Filled]) -> str:
    rows = []
    for kind in sorted({one.task["kind"] for one in done}):
        own = [one for one in done if one.task["kind"] == kind]
        rows.append([kind, str(len(own)), share(shown(own, remembered=True))])
    return common.table(["kind", "tasks", "explicit values from memory shown"], rows)


def _measures(done: Sequence[Filled]) -> str:
    tasks = [one.measured() for one in done]
    rows = [[name, f"{value:.3f}"] for name, value in tool_calls.summary(tasks).items()]
    by_type = tool_calls.slot_accuracy(tasks, lambda slot: slot.type)
    by_complexity = tool_calls.slot_accuracy(tasks, tool_calls.complexity)
    for name, (right, count) in {**by_type, **by_complexity}.items():
        rows.append([f"slot accuracy, {name} ({count})", f"{right:.3f}"])
    for name, rate in tool_calls.error_rates(tasks).items():
        rows.append([f"error over all slots: {name}", f"{rate:.3f}"])
    return "## The field's measures\n\n" + common.table(["measure", ""], rows)


def misses(done: Sequence[Filled]) -> list[str]:
    """Explicit slots that are not as they should be, to look at."""
    return [
        (
            f"{one.task['id']} {slot} = {surface(one.task['gold'][slot])}: "
            f"{one.value(slot)}"
        )
        for one in done
        for slot in one.slots("explicit")
        if one.value(slot) != one.task["gold"][slot]["value"]
    ]


def main() -> None:
    """Print the tables."""
    made = common.parser(__doc__)
    made.add_argument(
        "--misses", action="store_true", help="also list what is not right"
    )
    made.add_argument(
        "--replies", action="store_true", help="a long reply behind each message"
    )
    options = made.parse_args()
    done, lies = acting(replies=long_replies() if options.replies else None)
    text = report_acting(done, lies)
    if options.misses:
        text += "\n\n" + "\n".join(f"- {miss}" for miss in misses(done))
    common.save(options.output, "acting.md", text + "\n")


if __name__ == "__main__":
    main()
