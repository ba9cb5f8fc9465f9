"""LoCoMo and RealMem as conversations with questions and the items that answer them.

The messages come from the library's own importers, so what is measured is what a user imports.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langmem_graph.importers._locomo import read_sample
from langmem_graph.importers._realmem import read_realmem

_EVIDENCE = re.compile(r"D:?(\d+):(\d+)")
_LOCOMO_CATEGORIES = {
    1: "1 multi-hop",
    2: "2 temporal",
    3: "3 commonsense",
    4: "4 single-hop",
    5: "5 adversarial",
}


class DataMissingError(Exception):
    """The data set is not where it was looked for."""


@dataclass(frozen=True)
class Session:
    """Messages as `user.add` takes them, and the data set's own records of them."""

    session_id: str
    messages: list[dict[str, Any]]
    records: list[dict[str, Any]] = field(default_factory=list)
    """As `user.add_records` takes them."""


@dataclass(frozen=True)
class Question:
    """A question and its gold: message ids (LoCoMo) or session ids (RealMem), never empty."""

    text: str
    category: str
    gold: frozenset[str]
    kind: str = ""
    """RealMem's `session_type`: `single` or `multi`."""
    before: int | None = None
    """Only the sessions before this place are in memory when it is asked; None is all."""


@dataclass(frozen=True)
class Conversation:
    """One memory's life: its sessions in order and the questions asked of it."""

    name: str
    sessions: list[Session]
    questions: list[Question]

    def steps(self) -> Iterator[tuple[list[Question], Session | None]]:
        """In order: the questions asked at this point, then the session to add, None at the end."""
        for place, session in enumerate(self.sessions):
            yield [q for q in self.questions if q.before == place], session
        yield [q for q in self.questions if q.before is None], None


def load_locomo(data: Path) -> list[Conversation]:
    """The samples of all files in `data/locomo`.

    Raises:
        DataMissingError: names where the files were looked for.
    """
    samples: list[dict[str, Any]] = []
    for file in _files(data / "locomo", "LoCoMo"):
        content = json.loads(file.read_text(encoding="utf-8"))
        samples += content if isinstance(content, list) else [content]
    return [_locomo(sample, number) for number, sample in enumerate(samples, 1)]


def load_realmem(data: Path) -> list[Conversation]:
    """The people of all files in `data/realmem`.

    Raises:
        DataMissingError: names where the files were looked for.
    """
    return [_realmem(file) for file in _files(data / "realmem", "RealMem")]


def _files(folder: Path, name: str) -> list[Path]:
    found = sorted(folder.glob("*.json"))
    if not found:
        raise DataMissingError(f"{name}: no *.json in {folder}; see benchmarks/README.md.")
    return found


def _locomo(sample: dict[str, Any], number: int) -> Conversation:
    talks = list(read_sample(sample))
    observed = sample.get("observation") or {}
    sessions = [
        Session(talk.session_id, talk.messages, _observations(observed, number, talk.messages))
        for number, talk in enumerate(talks, 1)
    ]
    known = {message["id"] for session in sessions for message in session.messages}
    questions = [_locomo_question(row, known) for row in sample["qa"]]
    name = str(sample.get("sample_id", number))
    return Conversation(name, sessions, [q for q in questions if q.gold])


def _observations(
    observed: dict[str, Any], session: int, messages: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """LoCoMo's published observations of a session: a sentence, its speaker, its turns."""
    ids = {message["id"] for message in messages}
    rows = []
    for speaker, lines in (observed.get(f"session_{session}_observation") or {}).items():
        for text, evidence in lines:
            cited = evidence_ids([evidence] if isinstance(evidence, str) else evidence) & ids
            if cited:
                row = {"text": text, "subject": speaker, "source_message_ids": sorted(cited)}
                rows.append(row)
    return rows


def _locomo_question(row: dict[str, Any], known: set[str]) -> Question:
    gold = evidence_ids(row.get("evidence") or []) & known
    return Question(str(row["question"]), _LOCOMO_CATEGORIES[row["category"]], gold)


def evidence_ids(evidence: Sequence[str]) -> frozenset[str]:
    """Turn ids out of LoCoMo's evidence, where one string may hold several, or `D30:05`."""
    found = _EVIDENCE.findall(" ".join(evidence))
    return frozenset(f"D{int(session)}:{int(turn)}" for session, turn in found)


def _realmem(file: Path) -> Conversation:
    data = json.loads(file.read_text(encoding="utf-8"))
    sessions = [
        Session(talk.session_id, talk.messages, _memory_points(talk.messages, raw))
        for talk, raw in zip(read_realmem(data), data["dialogues"], strict=True)
    ]
    questions = list(_realmem_questions(data["dialogues"]))
    return Conversation(file.stem, sessions, [q for q in questions if q.gold])


def _memory_points(messages: list[dict[str, Any]], raw: dict[str, Any]) -> list[dict[str, Any]]:
    """RealMem's extracted memory; a point without a turn (0, -1) is of the whole session."""
    ids = [message["id"] for message in messages if message["content"].strip()]
    rows = []
    for point in raw.get("extracted_memory") or []:
        own = f"{raw['session_uuid']}:{point.get('source_turn')}"
        cited = [own] if own in ids else ids
        rows.append({"text": point["content"], "source_message_ids": cited})
    return rows


def _realmem_questions(dialogues: list[dict[str, Any]]) -> Iterator[Question]:
    earlier: set[str] = set()
    for place, session in enumerate(dialogues):
        turns = session["dialogue_turns"]
        for number, turn in enumerate(turns):
            if turn.get("is_query"):
                gold = _gold_sessions(turns[number + 1 :]) & earlier
                yield _realmem_question(turn, gold, place)
        earlier.add(session["session_uuid"])


def _realmem_question(turn: dict[str, Any], gold: set[str], place: int) -> Question:
    return Question(
        turn["content"],
        str(turn.get("category_name")),
        frozenset(gold),
        kind=str(turn.get("session_type")),
        before=place,
    )


def _gold_sessions(later: list[dict[str, Any]]) -> set[str]:
    """They stand on the assistant's next turn."""
    answer = next((turn for turn in later if turn["speaker"] == "Assistant"), {})
    return set(answer.get("memory_session_uuids") or [])
