"""A backlog of messages, each with words of its own, and a model that notes each that it reads."""

import re
from collections.abc import Callable
from typing import Any

from tests.support.models import AnswersBySchema
from tests.support.writing import lines_of, memories

FILLER = "and so on " * 300
"""Long enough that a batch holds three turns."""
MARK = re.compile(r"thing\w+")


def session(number: int, turns: int, filler: str = FILLER) -> list[dict[str, Any]]:
    """One session: in turn n the user names `thing{number}x{n}`."""
    rows = []
    for n in range(turns):
        at = f"2025-01-{number % 28 + 1:02d}T10:{n % 60:02d}"
        name = f"thing{number}x{n}"
        for role, words in (
            ("user", f"I own {name}, {filler}"),
            ("assistant", f"Nice. {filler}"),
        ):
            rows.append(
                {"role": role, "content": words, "id": f"{role[0]}-{name}", "at": at}
            )
    return rows


def marks(sessions: int, turns: int) -> list[str]:
    """What the user names in so many sessions, in order of the alphabet."""
    return sorted(
        f"thing{number}x{n}" for number in range(sessions) for n in range(turns)
    )


def fill(user: Any, sessions: int, turns: int, filler: str = FILLER) -> list[str]:
    """Add so many sessions; returns what the user names in them."""
    for number in range(sessions):
        user.add(session(number, turns, filler), session_id=f"s{number}")
    return marks(sessions, turns)


def noting(
    seen: list[str], before: Callable[[], object] = lambda: None
) -> AnswersBySchema:
    """A model that makes a record of what each user message names, and adds it to `seen`."""

    def extract(question: str) -> dict[str, Any]:
        before()
        named = {
            alias: MARK.findall(words)[0]
            for alias, (speaker, words) in lines_of(question).items()
            if speaker == "user"
        }
        seen.extend(named.values())
        return memories(
            *(
                {
                    "text": f"The user owns {name}.",
                    "sources": [alias],
                    "attribute": name,
                }
                for alias, name in named.items()
            )
        )

    return AnswersBySchema(Extraction=extract)


def owned(user: Any) -> list[str]:
    """What the records say that the user owns, in order of the alphabet; repeated if stored so."""
    return sorted(MARK.findall(row["text"])[0] for row in user.export_records())
