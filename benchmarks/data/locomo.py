"""LoCoMo: two people's sessions, gold by message.

A sample holds `session_N` lists with a `session_N_date_time` each.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.data.files import find, in_layout, read_all
from benchmarks.data.items import Conversation, DataSet, Question, Session

_SESSION = re.compile(r"session_(\d+)")
_TIME = "%I:%M %p on %d %B, %Y"
_EVIDENCE = re.compile(r"D:?(\d+):(\d+)")
CATEGORIES = {
    1: "1 multi-hop",
    2: "2 temporal",
    3: "3 commonsense",
    4: "4 single-hop",
    5: "5 adversarial",
}
ADVERSARIAL = CATEGORIES[5]
_WANTED = (
    "LoCoMo's JSON (locomo10.json of github.com/snap-research/locomo, CC BY-NC 4.0)"
)
_NOTES = (
    "About 6% of LoCoMo's answer keys are known to be wrong: differences under 3 "
    "points mean "
    "little.",
    "Category 5 asks for what was never said, or not of this person: only abstaining "
    "is right. Its "
    "evidence is where the misleading fact stands. Papers often leave it out, so "
    "totals are given "
    "with and without it.",
)


def load_locomo(data: Path) -> DataSet:
    """A file or a folder of samples, each file one or a list of them."""
    files = find(data, "locomo", "*.json", _WANTED)
    samples = read_all(files)
    conversations = in_layout(
        "LoCoMo",
        files,
        lambda: [_conversation(one, n) for n, one in enumerate(samples, 1)],
    )
    cuts = (1, 5, 10, 20)
    return DataSet(
        "locomo", "LoCoMo", "message", cuts, "judged", conversations, files, _NOTES
    )


def _conversation(sample: dict[str, Any], number: int) -> Conversation:
    sessions = list(_sessions(sample))
    known = {message["id"] for session in sessions for message in session.messages}
    at = sessions[-1].messages[-1]["at"] if sessions and sessions[-1].messages else None
    questions = [_question(row, n, known, at) for n, row in enumerate(sample["qa"], 1)]
    return Conversation(str(sample.get("sample_id", number)), sessions, questions)


def _sessions(sample: dict[str, Any]) -> Iterator[Session]:
    """In order; each message at its session's date."""
    talk, observed = sample["conversation"], sample.get("observation") or {}
    numbers = sorted(
        int(found[1]) for key in talk if (found := _SESSION.fullmatch(key))
    )
    for place, number in enumerate(numbers, 1):
        at = _when(talk.get(f"session_{number}_date_time"))
        messages = [_message(turn, at) for turn in talk[f"session_{number}"]]
        yield Session(
            f"session_{number}", messages, _observations(observed, place, messages)
        )


def _when(text: str | None) -> str | None:
    return (
        datetime.strptime(text.strip(), _TIME).replace(tzinfo=UTC).isoformat()
        if text
        else None
    )


def _message(turn: dict[str, Any], at: str | None) -> dict[str, Any]:
    caption = turn.get("blip_caption")
    return {
        "id": turn["dia_id"],
        "role": "user",
        "name": turn["speaker"],
        "content": turn["text"] + (f" [shares {caption}]" if caption else ""),
        "at": at,
    }


def _observations(
    observed: dict[str, Any], session: int, messages: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """LoCoMo's published observations of a session: a sentence, its speaker,
    its turns.
    """
    ids = {message["id"] for message in messages}
    rows = []
    for speaker, lines in (
        observed.get(f"session_{session}_observation") or {}
    ).items():
        for text, evidence in lines:
            cited = (
                evidence_ids([evidence] if isinstance(evidence, str) else evidence)
                & ids
            )
            if cited:
                row = {
                    "text": text,
                    "subject": speaker,
                    "source_message_ids": sorted(cited),
                }
                rows.append(row)
    return rows


def _question(
    row: dict[str, Any], number: int, known: set[str], at: str | None
) -> Question:
    """Ids that name no turn are dropped from the evidence; it is asked when all was
    said.
    """
    category = CATEGORIES[row["category"]]
    abstain = category == ADVERSARIAL
    return Question(
        id=f"q{number}",
        text=str(row["question"]),
        gold=evidence_ids(row.get("evidence") or []) & known,
        category=category,
        at=at,
        answer="" if abstain else str(row.get("answer", "")),
        rule="abstain" if abstain else "answer",
    )


def evidence_ids(evidence: Sequence[str]) -> frozenset[str]:
    """Turn ids out of LoCoMo's evidence, where one string may hold several, or
    `D30:05`.
    """
    found = _EVIDENCE.findall(" ".join(evidence))
    return frozenset(f"D{int(session)}:{int(turn)}" for session, turn in found)
