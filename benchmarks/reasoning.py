"""What reasoning over memory finds: questions of several hops, and acts that memory
speaks against.

Run from the repository root: `python -m benchmarks.reasoning`. No model is called: a
stand-in reasons by rule and only from what it is shown (`oracle.py`), so that the loop
and the retrieval are measured. The sets were written for this project; `sets/README.md`
says how.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from benchmarks import common
from benchmarks.chatter import make_chat, sessions
from benchmarks.long_replies import long_replies, replied
from benchmarks.stand_ins import ActAnswers, HopAnswers, answers_of
from langmem_graph.memory import Memory
from langmem_graph.results import Recall
from langmem_graph.settings import ReasoningSettings, Settings
from langmem_graph.testing import ScriptedChatModel
from langmem_graph.values.content_words import content

SETS = Path(__file__).parent / "sets"
WIDE = 4_000
"""Tokens of a context: both sides may quote everything they find."""
ASKED = "2025-06-01T09:00:00+00:00"


def load(name: str) -> list[dict[str, Any]]:
    """The lines of a set."""
    lines = (SETS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


class Asking:
    """A memory of some lines, and a reader in it whose answers change with the
    question.
    """

    def __init__(
        self,
        directory: str,
        lines: Sequence[dict[str, Any]],
        replies: Iterator[str] | None = None,
        **options: Any,
    ) -> None:
        self.reader = ScriptedChatModel()
        self.memory = Memory(
            directory, model=self.reader, causal_scorer="none", **options
        )
        self.user = self.memory.user("user")
        for line in lines:
            said = {"role": "user", "content": line["message"], "id": line["id"]}
            talk = replied([{**said, "at": line["at"]}], replies)
            self.user.add(talk, session_id=line["at"][:10])
        if lines:  # records need a message that is stored
            self.user.add_records([_record(line) for line in lines])
        self.user.flush()  # the reader finds nothing more in them

    def ask(self, query: str, answers: Any, mode: Any = "auto") -> "Asked":
        """Ask once with reasoning, and once without."""
        self.reader.answers = answers_of(answers)
        self.reader.asked.clear()
        plain = self.user.recall(query, k=20, max_tokens=WIDE)
        found = self.user.recall(query, mode=mode, max_tokens=WIDE, at=ASKED)
        return Asked(found, [schema for schema, _ in self.reader.asked], plain)


@contextmanager
def asking(lines: Sequence[dict[str, Any]], **options: Any) -> Iterator[Asking]:
    """A memory of these lines, a message and a record of each.

    `replies` stand behind the messages; other options are those of `Memory`.
    """
    with TemporaryDirectory() as directory:
        made = Asking(directory, lines, **options)
        with made.memory:
            yield made


def _record(line: dict[str, Any]) -> dict[str, Any]:
    own = {name: line[name] for name in ("attribute", "subject", "kind")}
    return {
        "text": line["record"],
        "record_id": line["id"],
        "source_message_ids": [line["id"]],
        "said_at": line["at"],
        **own,
    }


@dataclass
class Asked:
    """One recall with a reader that reasons, and the plain look-up beside it."""

    recall: Recall
    calls: list[str]
    plain: Recall

    def quotes(self, ids: Sequence[str]) -> bool:
        """True when the reasoned context quotes all of these lines."""
        return set(ids) <= _quoted(self.recall)

    def plain_quotes(self, ids: Sequence[str]) -> bool:
        """True when the look-up alone quotes them."""
        return set(ids) <= _quoted(self.plain)


def _quoted(recall: Recall) -> set[str]:
    return {hit.message_id for hit in recall.evidence}


@dataclass
class Hops:
    """What became of one question."""

    question: dict[str, Any]
    asked: Asked

    @property
    def complete(self) -> bool:
        """All evidence is in the context."""
        return self.asked.quotes(self.question["evidence"])

    @property
    def right(self) -> bool:
        """The proof is complete and its answer is the set's."""
        reasoning = self.asked.recall.reasoning
        assert reasoning is not None
        found = {
            *reasoning.bindings.values(),
            *(v for r in reasoning.rows for v in r.values.values()),
        }
        return reasoning.status == "grounded" and self.question["answer"] in found


def hops(**options: Any) -> list[Hops]:
    """Every question of the set; options are those of `Memory`."""
    lines = load("hops_memory")
    texts = {line["id"]: (line["record"], line["message"]) for line in lines}
    with asking(lines, **options) as memory:
        return [
            Hops(one, memory.ask(one["question"], HopAnswers(one, texts)))
            for one in load("hops_questions")
        ]


@dataclass
class Acts:
    """What became of the acts, the harmless ones and the plain questions."""

    acts: list[tuple[dict[str, Any], Asked]]
    controls: list[tuple[dict[str, Any], Asked]]
    suspected: list[tuple[dict[str, Any], Asked]]
    """The harmless ones again, with a reader that is told to suspect something."""
    lookups: list[tuple[dict[str, Any], Asked]]
    conflicts: dict[str, str]
    """By request, the line that speaks against it."""

    def found(self) -> list[bool]:
        """For each act: its conflict is in the context."""
        return [asked.quotes([self.conflicts[one["id"]]]) for one, asked in self.acts]

    def found_first(self) -> list[bool]:
        """For each act: its conflict stands in the part that is to be checked first."""
        return [
            self.conflicts[one["id"]] in _warned(asked.recall)
            for one, asked in self.acts
        ]

    def found_plainly(self) -> list[bool]:
        """For each act: the look-up alone has it."""
        return [
            asked.plain_quotes([self.conflicts[one["id"]]]) for one, asked in self.acts
        ]

    def over_warned(self) -> list[bool]:
        """For each harmless act: memory is held against it."""
        return [bool(_warned(asked.recall)) for _, asked in self.controls]

    def over_warned_suspecting(self) -> list[bool]:
        """The same with a reader that suspects something in each."""
        return [bool(_warned(asked.recall)) for _, asked in self.suspected]

    def groups(self) -> dict[str, list[Asked]]:
        """What was asked, by its kind."""
        kinds = {
            "act": self.acts,
            "harmless act": self.controls,
            "the same, suspected": self.suspected,
        }
        kinds["plain question"] = self.lookups
        return {name: [asked for _, asked in pairs] for name, pairs in kinds.items()}

    def edges_of_lookups(self) -> list[bool]:
        """For each plain question: the edge was taken."""
        return ["Consequences" in asked.calls for _, asked in self.lookups]


def _warned(recall: Recall) -> set[str]:
    """Lines that are shown as speaking against the request."""
    assert recall.reasoning is not None
    ids = {one for risk in recall.reasoning.risks for one in risk.facts}
    return {m for fact in recall.facts if fact.id in ids for m in fact.message_ids}


def acts(**options: Any) -> Acts:
    """Every request of the sets; options are those of `Memory`."""
    lines = load("acts_memory")
    conflicts = {
        line["conflicts_with"]: line["id"] for line in lines if line["conflicts_with"]
    }
    with asking(lines, **options) as memory:
        by_id = {line["id"]: line for line in lines}

        def asked(
            request: str,
            risks: list[dict[str, Any]],
            intent: str = "act",
            line: str = "",
        ) -> Asked:
            texts = (by_id[line]["record"], by_id[line]["message"]) if line else ()
            return memory.ask(request, ActAnswers(risks, intent, texts))

        def act(one: dict[str, Any]) -> Asked:
            own = conflicts[one["id"]]
            return asked(one["request"], unlike(one["risks"], by_id[own]), line=own)

        requests, controls = load("acts"), load("controls")
        return Acts(
            [(one, act(one)) for one in requests],
            [(one, asked(one["request"], one["risks"])) for one in controls],
            [(one, asked(one["request"], one["suspicions"])) for one in controls],
            [(one, asked(one["question"], [], "lookup")) for one in load("lookups")],
            conflicts,
        )


def unlike(risks: list[dict[str, Any]], line: dict[str, Any]) -> list[dict[str, Any]]:
    """The risks without any word of meaning that the line has: wording alone finds
    nothing.
    """
    own = content(f"{line['message']} {line['record']}")

    def rest(text: str) -> str:
        return " ".join(word for word in text.split() if not content(word) & own)

    return [
        {
            **risk,
            "claim": rest(risk["claim"]),
            "examples": [rest(e) for e in risk["examples"]],
        }
        for risk in risks
    ]


def share(values: Sequence[bool]) -> str:
    """As `39/40 (98%)`."""
    return f"{sum(values)}/{len(values)} ({sum(values) / len(values):.0%})"


def report_hops(found: Sequence[Hops]) -> str:
    """The questions' table."""
    rows = []
    for count in sorted({one.question["hops"] for one in found}):
        own = [one for one in found if one.question["hops"] == count]
        rows.append(_hop_row(f"{count} hops", own))
    rows.append(_hop_row("all", found))
    header = [
        "questions",
        "evidence complete",
        "proved and right",
        "look-up alone, top 20",
        "calls",
    ]
    return "## Questions of several hops\n\n" + common.table(header, rows)


def calls(asked: Sequence[Asked]) -> str:
    """The mean and the greatest number of model calls."""
    made = [one.recall.report.llm_calls for one in asked]
    return f"{sum(made) / len(made):.2f}, at most {max(made)}"


def _hop_row(name: str, found: Sequence[Hops]) -> list[str]:
    return [
        name,
        share([one.complete for one in found]),
        share([one.right for one in found]),
        share([one.asked.plain_quotes(one.question["evidence"]) for one in found]),
        calls([one.asked for one in found]),
    ]


def report_acts(found: Acts) -> str:
    """The acts' table."""
    rows = [
        ["conflict in the context", share(found.found())],
        ["conflict among what is to be checked first", share(found.found_first())],
        ["conflict by the look-up alone, top 20", share(found.found_plainly())],
        ["harmless acts that memory is held against", share(found.over_warned())],
        ["the same with risks made up for each", share(found.over_warned_suspecting())],
        [
            "plain questions for which the edge was taken",
            share(found.edges_of_lookups()),
        ],
        *(
            [f"model calls, {name}", calls(asked)]
            for name, asked in found.groups().items()
        ),
    ]
    return "## Acts that memory speaks against\n\n" + common.table(["", "share"], rows)


def speed(messages: int = 10_000, rounds: int = 15) -> str:
    """A round of four subgoals beside plain recalls, without the model's own time."""
    subgoals = [
        {
            "atom": f"(x{n}:thing) was mentioned with {word}",
            "query": f"{word} and what was said",
        }
        for n, word in enumerate(("garden", "flight", "sister", "budget"))
    ]
    asked = "What about the garden and the flight?"
    question = {"question": asked, "subgoals": subgoals}
    question |= {"answer_variables": ["x0"], "refinements": [], "proofs": []}
    with asking([], settings=Settings(reasoning=ReasoningSettings(depth=0))) as memory:
        for number, lines in enumerate(sessions(make_chat(), messages)):
            memory.user.add(lines, session_id=str(number))
        memory.reader.answers = answers_of(HopAnswers(question, {}))
        plain = _timed(lambda: memory.user.recall(asked), rounds)
        reasoned = _timed(lambda: memory.user.recall(asked, mode="reason"), rounds)
    rows = [
        ["plain recall", f"{plain:.0f} ms"],
        ["with a round of 4 subgoals", f"{reasoned:.0f} ms"],
    ]
    rows.append(["the round, in plain recalls", f"{(reasoned - plain) / plain:.1f}"])
    return f"## Time at {messages:,} messages\n\n" + common.table(["", "median"], rows)


def _timed(work: Callable[[], Any], rounds: int) -> float:
    work()
    spent = []
    for _ in range(rounds):
        start = perf_counter()
        work()
        spent.append((perf_counter() - start) * 1_000)
    return median(spent)


def main() -> None:
    """Print the tables."""
    made = common.parser(__doc__)
    made.add_argument("parts", nargs="*", default=["hops", "acts", "speed"])
    made.add_argument(
        "--replies", action="store_true", help="a long reply behind each message"
    )
    options = made.parse_args()
    replies = long_replies() if options.replies else None
    reports: dict[str, Callable[[], str]] = {
        "hops": lambda: report_hops(hops(replies=replies)),
        "acts": lambda: report_acts(acts(replies=replies)),
        "speed": speed,
    }
    text = "\n\n".join(reports[part]() for part in options.parts)
    common.save(options.output, "reasoning.md", f"# Reasoning over memory\n\n{text}\n")


if __name__ == "__main__":
    main()
