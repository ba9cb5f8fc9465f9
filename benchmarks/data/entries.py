"""RealMem's memory-entry mode: memories hold the set's own extracted entries, not what
was said.
"""

from dataclasses import replace

from benchmarks.data.items import Conversation, DataSet, Question, Session
from langmem_graph.errors import InvalidInputError

_NOTES = (
    "Memories hold the entries that the set's authors extracted, each as a message of "
    "its own at "
    "its session's date, and nothing of what was said. Gold are the entries that the "
    "reply was "
    "made from.",
)


def as_entries(data: DataSet) -> DataSet:
    """The data set with entries in place of messages.

    Raises:
        InvalidInputError: its questions name no entries as gold.
    """
    if not any(
        question.memories for talk in data.conversations for question in talk.questions
    ):
        raise InvalidInputError(f"{data.title} does not say which entries are gold.")
    talks = [_conversation(talk) for talk in data.conversations]
    return replace(
        data, by="message", conversations=talks, notes=(*data.notes, *_NOTES)
    )


def _conversation(talk: Conversation) -> Conversation:
    sessions = [_entries(session) for session in talk.sessions]
    asked = [replace(one, gold=_gold(one, sessions)) for one in talk.questions]
    return replace(talk, sessions=sessions, questions=asked)


def _entries(session: Session) -> Session:
    """Their ids are `SESSION#NUMBER`, the first being 1."""
    at = session.messages[0].get("at") if session.messages else None
    entries = [
        {
            "id": f"{session.session_id}#{n}",
            "role": "user",
            "content": one["text"],
            "at": at,
        }
        for n, one in enumerate(session.records, 1)
    ]
    return Session(session.session_id, entries)


def _gold(question: Question, sessions: list[Session]) -> frozenset[str]:
    """Entries of the gold sessions with the text of a gold memory."""
    return frozenset(
        str(entry["id"])
        for session in sessions[: question.before]
        if session.session_id in question.gold
        for entry in session.messages
        if entry["content"] in question.memories
    )
