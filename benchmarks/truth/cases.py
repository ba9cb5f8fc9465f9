"""The cases, and the memory that each is added to: hundreds of records of one user's
life.
"""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

from langchain_core.embeddings import Embeddings

from benchmarks.common import REPOSITORY
from langmem_graph.errors import InvalidInputError
from langmem_graph.memory import Memory
from langmem_graph.settings import Settings
from langmem_graph.storage import add_messages
from langmem_graph.testing import ScriptedChatModel

FILLER = REPOSITORY / "benchmarks" / "sets" / "truth_filler.jsonl"
FILLER_RECORDS = 540
USER = "user"
FILLED = "filler-"
"""Ids of the filler's records, messages and sessions begin with this."""
SCHEDULE_KINDS = ("rescheduled", "cancelled", "completed", "skipped_once", "routine")
_SEED = 20_260_101
_MOST_ROUNDS = 50
"""Of topics over the filler, which a model without words leaves without a track."""


@dataclass(frozen=True)
class Case:
    """A talk of several sessions, and what must be known at its end.

    Attributes:
        group: `change` where something changes, `nothing` where it only seems to.
        sessions: each with `at` and its `messages`.
        now: sentences that must be known as current.
        no_longer: sentences that must not be shown as current.
        still: sentences that must not be lost.
        turn: numbers of the session and the message in which it changes, or seems to.
    """

    id: str
    language: str
    kind: str
    group: str
    sessions: list[dict[str, Any]]
    turn: tuple[int, int]
    now: list[str] = field(default_factory=list)
    no_longer: list[str] = field(default_factory=list)
    still: list[str] = field(default_factory=list)

    @property
    def gold(self) -> list[str]:
        """All sentences."""
        return [*self.now, *self.no_longer, *self.still]

    def messages(self, session: int) -> list[dict[str, Any]]:
        """A session's messages as `add` takes them, one minute after the other."""
        begun = datetime.fromisoformat(self.sessions[session]["at"])
        return [
            {
                "role": said["role"],
                "content": said["content"],
                "id": message_id(session, place),
                "at": (begun + timedelta(minutes=place)).isoformat(),
            }
            for place, said in enumerate(self.sessions[session]["messages"])
        ]

    def turns(self, session: int) -> Iterator[list[dict[str, Any]]]:
        """The session's messages by turns: what the user says, with the answer."""
        turn: list[dict[str, Any]] = []
        for message in self.messages(session):
            if turn and message["role"] == "user":
                yield turn
                turn = []
            turn.append(message)
        yield turn

    @property
    def end(self) -> datetime:
        """When the last message was said."""
        return datetime.fromisoformat(self.messages(len(self.sessions) - 1)[-1]["at"])


def message_id(session: int, place: int) -> str:
    """The id under which a message of a case is stored; it says nothing about
    the case.
    """
    return f"s{session}-m{place}"


def read_cases(files: Sequence[Path]) -> list[Case]:
    """The cases of these files, JSON lines.

    Raises:
        InvalidInputError: a line cannot be read as a case, or two have the same id.
    """
    cases = [_case(file, row) for file in files for row in read_lines(file)]
    ids = [case.id for case in cases]
    if twice := {name for name in ids if ids.count(name) > 1}:
        raise InvalidInputError(
            f"Two cases have the same id: {', '.join(sorted(twice))}."
        )
    return cases


def read_lines(file: Path) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def _case(file: Path, row: dict[str, Any]) -> Case:
    try:
        last = len(row["sessions"]) - 1
        spoken = [
            n
            for n, m in enumerate(row["sessions"][last]["messages"])
            if m["role"] == "user"
        ]
        turn = row.get("turn") or (last, spoken[-1])
        group = row.get("group") or ("change" if row.get("no_longer") else "nothing")
        known = {name: row[name] for name in ("id", "language", "kind", "sessions")}
        gold = {name: row.get(name, []) for name in ("now", "no_longer", "still")}
        gold["still"] = gold["still"] or row.get("facts", [])
        return Case(**known, **gold, group=group, turn=(turn[0], turn[1]))
    except (KeyError, IndexError, TypeError) as error:
        raise InvalidInputError(f"{file}: a line is no case ({error!r}).") from error


def chosen_filler(
    rows: Sequence[dict[str, Any]], language: str, count: int
) -> list[dict[str, Any]]:
    """So many of the filler's rows, all those of the language among them, in order of
    time.
    """
    own = [row for row in rows if row["language"] == language]
    others = [row for row in rows if row["language"] != language]
    more = max(0, min(count - len(own), len(others)))
    drawn = random.Random(f"{_SEED} {language}").sample(others, more)
    return sorted([*own, *drawn], key=lambda row: str(row["said_at"]))


def fill(
    folder: Path,
    rows: Sequence[dict[str, Any]],
    embeddings: Embeddings,
    settings: Settings,
) -> None:
    """Make a memory of one user that holds these records, with a message for each, and
    close it.

    The messages count as read, and the records as known to the topics: what a memory
    has held for long costs nothing when a case is added.
    """
    named = [row | {"id": f"{FILLED}{place:04d}"} for place, row in enumerate(rows)]
    silent = ScriptedChatModel(record=False)
    with Memory(
        folder, model=silent, embeddings=embeddings, settings=settings
    ) as memory:
        for month, some in groupby(named, key=lambda row: str(row["said_at"])[:7]):
            said = [
                {
                    "role": "user",
                    "content": row["text"],
                    "id": row["id"],
                    "at": row["said_at"],
                }
                for row in some
            ]
            session = f"{FILLED}{month}"
            add_messages.add_messages(
                memory._services,
                USER,
                said,
                session,
                None,
                whole_conversation=False,
                by_hand=add_messages.ByHand(),
            )
        report = memory.user(USER).add_records([_record(row) for row in named])
        rounds = (memory.user(USER).flush().llm_calls for _ in range(_MOST_ROUNDS))
        any(calls == 0 for calls in rounds)
    if report.rejected:
        raise InvalidInputError(
            f"The filler has unusable records: {report.rejected[0].reason}"
        )


def _record(row: dict[str, Any]) -> dict[str, Any]:
    kept = {
        name: row[name] for name in ("text", "kind", "subject", "attribute", "said_at")
    }
    return {"record_id": row["id"], "source_message_ids": [row["id"]], **kept}
