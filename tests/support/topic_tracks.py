"""Answers of a model that gathers records into one track, and a profile of it."""

import re
from typing import Any

from langmem_graph.storage.add_messages import ByHand, add_messages
from tests.support.models import AnswersBySchema
from tests.support.writing import echo, turn


def changed_lines(question: str) -> dict[str, str]:
    """The lines of the changed records in a question about topics, by alias."""
    lines = question.split("Changed records:\n")[1].splitlines()
    return dict(line.split(": ", 1) for line in lines)  # type: ignore[misc]


def texts_in(question: str) -> list[str]:
    """The words of the changed records, without date, kind and what became of them."""
    return [
        re.sub(r'^.*?\) "(.*)" - .*$', r"\1", line)
        for line in changed_lines(question).values()
    ]


def gather(question: str) -> dict[str, Any]:
    """Everything into one track, whose story grows."""
    new = changed_lines(question)
    told = "append" if "- boats: " in question else "narrative"
    track = {"name": "boats", "title": "Boats", "summary": f"{len(new)} more."}
    return {
        "tracks": [{**track, told: " ".join(texts_in(question)), "evidence": list(new)}]
    }


PROFILE = {"text": "Owns boats.", "topics": ["boats"]}


def active(ana: Any) -> list[str]:
    return [row["record_id"] for row in ana.export_records()]


BOATS = ("I own a boat.", "I sail on Sundays.", "My boat is called Vega.")
CANOES = ("I bought a canoe.", "The canoe is red.", "The canoe is in the shed.")


def gathering(**answers: Any) -> AnswersBySchema:
    given = {"Extraction": echo, "TopicRound": gather, "ProfileText": PROFILE}
    return AnswersBySchema(**(given | answers))


def tell(user: Any, texts: tuple[str, ...], session: str) -> None:
    for number, text in enumerate(texts):
        user.add(turn(text, number=number), session_id=session)


def rows(*texts: str, **fields: Any) -> list[dict[str, Any]]:
    """Records that cite the message of `user_with_source`."""
    return [{"text": text, "source_message_ids": ["m0"], **fields} for text in texts]


def user_with_source(memory: Any) -> Any:
    """Ana, with a message that no model reads."""
    told = {"role": "user", "content": "Be brief.", "id": "m0"}
    services = memory._services
    add_messages(
        services, "ana", told, "s0", None, whole_conversation=False, by_hand=ByHand()
    )
    return memory.user("ana")


def questions(model: AnswersBySchema, schema: str) -> list[str]:
    return [question for name, question in model.asked if name == schema]


def calls(model: AnswersBySchema) -> dict[str, int]:
    names = [name for name, _ in model.asked]
    return {name: names.count(name) for name in dict.fromkeys(names)}
