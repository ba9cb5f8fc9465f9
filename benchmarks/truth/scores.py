"""What one judged case counts for in each measure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.truth.cases import FILLED, SCHEDULE_KINDS
from benchmarks.truth.outcome import in_view

Row = dict[str, Any]
BACKLOG_TOKENS = 3_000
FIRST, SECOND = "Extraction", "Reconciliation"
"""The schemas of the call that reads a batch, and of the one that follows where it is
needed.
"""


@dataclass(frozen=True)
class Judged:
    """The outcome of a case with a judge's answer.

    Attributes:
        run: what the run was.
        outcome: as `outcome` made it.
        answer: the judge's.
        sheet: what the sheet's numbers stand for.
    """

    run: Row
    outcome: Row
    answer: Row
    sheet: Row

    def __getitem__(self, name: str) -> Any:
        return self.outcome[name]

    @property
    def is_change(self) -> bool:
        """Something changes in it."""
        return bool(self["group"] == "change")

    @property
    def is_schedule(self) -> bool:
        """An appointment or a routine changes in it."""
        return self.is_change and self["kind"] in SCHEDULE_KINDS

    @property
    def accepted(self) -> bool:
        """What holds is known in full, what holds no longer is not shown as current.

        Of an appointment or routine the next time is also right.
        """
        gone = "still current" not in self.answer.get("no_longer", [])
        known = all(verdict == "held" for verdict in self.answer.get("now", []))
        return (
            gone
            and known
            and not (self.is_schedule and self.answer.get("next") == "wrong")
        )

    @property
    def never_recorded(self) -> bool:
        """Something that holds no longer was not in memory in the first place."""
        return "never recorded" in self.answer.get("no_longer", [])

    @property
    def superseded(self) -> bool:
        """Something that still holds is listed as no longer true, or contradicted."""
        return "lost" in self.answer.get("still", [])

    @property
    def lost(self) -> bool:
        """Something that still holds was superseded, or is labelled as if it
        had been.
        """
        return self.superseded or bool(self.answer.get("mislabelled"))

    @property
    def damaged(self) -> bool:
        """The same, or another record of the user was superseded."""
        return self.lost or bool(self["filler_superseded"])

    def correct_records(self) -> list[Row]:
        """The case's own records that hold and that the judge found nothing
        wrong with.
        """
        wrong = {
            self.sheet["records"][number] for number in self.answer.get("wrong", [])
        }
        return [row for row in _own(self["holds"]) if row["record_id"] not in wrong]

    def superseded_shown(self) -> Iterator[bool]:
        """For each superseded record whose source a recall quotes: is it labelled each
        time?
        """
        quotes = [quote for recall in self["recalls"] for quote in recall["quotes"]]
        for row in _own(self["no_longer_holds"]):
            labels = [
                q["labelled"] for q in quotes if q["message"] in row["message_ids"]
            ]
            if labels:
                yield all(labels)

    def outdated_lines(self) -> Iterator[bool]:
        """For each quoted line that states what holds no longer: is it labelled?"""
        return (label == "labelled" for label in self.answer.get("lines", {}).values())

    def old_in_view(self) -> Iterator[bool]:
        """For each recorded sentence that holds no longer: did the model see it at the
        change?
        """
        records = {
            row["record_id"]: row for row in [*self["holds"], *self["no_longer_holds"]]
        }
        stated = self.answer.get("stated_by", [])
        for place, verdict in enumerate(self.answer.get("no_longer", [])):
            if verdict == "never recorded":
                continue
            number = stated[place] if place < len(stated) else ""
            found = self.sheet["records"].get(number) or self["old"][place]["record_id"]
            if found in records:
                sources = records[found]["message_ids"]
                yield in_view(self["view"], self.sheet["turn"], found, sources)

    @property
    def calls(self) -> int:
        """Everything included, also what was asked again."""
        return len(self["calls"])

    @property
    def turns(self) -> int:
        """Messages of the user with their answers."""
        return int(sum(self["turns"]))

    @property
    def shortest(self) -> int:
        """Turns of its shortest session."""
        return int(min(self["turns"]))

    def asked(self, purpose: str) -> int:
        """Calls of one purpose, without repairs."""
        return sum(c["purpose"] == purpose and not c["repair"] for c in self["calls"])


def _own(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if not row["record_id"].startswith(FILLED)]
