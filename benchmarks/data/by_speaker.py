"""NapMem's way to ask LoCoMo: each conversation once for either speaker, who is then
the user.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from benchmarks.data.items import Conversation, DataSet, Question, Session
from langmem_graph.errors import InvalidInputError

_NOTES = (
    "By speaker, as NapMem asks it: in each conversation one speaker is the user and "
    "the other the "
    "assistant, then the other way round, after a message that says so. A question is "
    "asked of the "
    "speaker whom alone it names, else of the one who said most of its evidence; "
    "without evidence "
    "it is left out. NapMem also leaves out questions whose evidence does not fit "
    "their answer, "
    "which code cannot tell, and puts them from the user's view; here they keep their "
    "words.",
)


def by_speaker(data: DataSet) -> DataSet:
    """The data set with two users for each conversation.

    Raises:
        InvalidInputError: a conversation is not one of two named speakers.
    """
    talks = [one for talk in data.conversations for one in _users(talk)]
    return replace(data, conversations=talks, notes=(*data.notes, *_NOTES))


def _users(talk: Conversation) -> Iterator[Conversation]:
    said = {
        one["id"]: one.get("name")
        for session in talk.sessions
        for one in session.messages
    }
    speakers = sorted({str(name) for name in said.values() if name})
    if len(speakers) != 2:
        raise InvalidInputError(
            f"{talk.name} has no two speakers: {', '.join(speakers)}."
        )
    for user, other in (speakers, speakers[::-1]):
        asked = [
            one
            for one in talk.questions
            if one.gold and _of(one, speakers, said) == user
        ]
        sessions = [_as_said_to(session, user) for session in talk.sessions]
        sessions[0] = _with_setup(sessions[0], user, other)
        yield Conversation(f"{talk.name} ({user})", sessions, asked)


def _of(question: Question, speakers: list[str], said: dict[str, str | None]) -> str:
    """Whom a question is about: the one speaker it names, else who said most of its
    evidence.
    """
    named = [
        name
        for name in speakers
        if re.search(rf"\b{re.escape(name)}\b", question.text, re.IGNORECASE)
    ]
    if len(named) == 1:
        return named[0]
    evidence = [said[one] for one in question.gold]
    return max(speakers, key=evidence.count)


def _as_said_to(session: Session, user: str) -> Session:
    messages = [
        {**one, "role": "user" if one.get("name") == user else "assistant"}
        for one in session.messages
    ]
    return replace(session, messages=messages)


def _with_setup(session: Session, user: str, other: str) -> Session:
    """The user says who is who, and the assistant agrees, unless it speaks next
    anyway.
    """
    first = session.messages[0]
    lines = [
        (
            "user",
            user,
            f"I am {user}, and you are {other}. Talk with me as a friend would.",
        )
    ]
    if first["role"] == "user":
        lines.append(("assistant", other, "All right."))
    setup = [
        {
            "id": f"setup:{n}",
            "role": role,
            "name": name,
            "content": text,
            "at": first["at"],
        }
        for n, (role, name, text) in enumerate(lines, 1)
    ]
    return replace(session, messages=[*setup, *session.messages])
