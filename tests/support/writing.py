"""Turns, what a scripted model finds in them, and answers that cannot be used."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langmem_graph import Memory
from tests.conftest import let_go
from tests.support.settings import nested


def memories(
    *rows: dict[str, Any],
    changes: Sequence[dict[str, Any]] = (),
    look_for: Sequence[str] = (),
) -> dict[str, Any]:
    return {
        "memories": list(rows),
        "changes": list(changes),
        "look_for": list(look_for),
    }


def lines_of(question: str) -> dict[str, tuple[str, str]]:
    """Speaker and words of the new messages in an extraction's question, by alias."""
    new = question.split("New messages:\n")[1]
    found = re.findall(r'^(m\d+) \S+ \S+ \S+ (.*?): (".*")$', new, re.MULTILINE)
    return {alias: (speaker, json.loads(words)) for alias, speaker, words in found}


def line_aliases(question: str) -> dict[str, str]:
    """Words of the new messages in an extraction's question, by alias."""
    return {alias: words for alias, (_, words) in lines_of(question).items()}


def record_alias(question: str, words: str) -> str:
    """The alias of the record with these words among those that a question shows."""
    shown = re.findall(r"^(n\d+) (.*)$", question, re.MULTILINE)
    found = [alias for alias, line in shown if words in line]
    assert found, f"{words!r} is not shown: {question}"
    return found[0]


def change(record: str, relation: str, quote: str, **fields: Any) -> dict[str, Any]:
    """A proposed change; the message is `m1` and the memory that holds instead the first one."""
    given = {"record": record, "relation": relation, "message": "m1", "quote": quote}
    return (
        {"by": 0} | given | fields
        if relation in ("replaces", "corrects")
        else given | fields
    )


def echo(question: str) -> dict[str, Any]:
    """A memory of everything the user says."""
    rows = [
        {
            "text": f"The user said: {text}",
            "sources": [alias],
            "attribute": f"words {text[:20]}",
        }
        for alias, (speaker, text) in lines_of(question).items()
        if speaker == "user"
    ]
    return memories(*rows)


@contextmanager
def memory_at(path: Path) -> Iterator[Callable[..., Memory]]:
    """Opens a memory there with a model and settings, and closes the one before."""
    opened: list[Memory] = []

    def make(model: Any, **settings: Any) -> Memory:
        while opened:
            opened.pop().close()
        settings = {
            "extraction__debounce_seconds": 0.02,
            "storage__closing_seconds": 5,
            **settings,
        }
        opened.append(
            Memory(
                path,
                model=model,
                embeddings="hash",
                forget_on_request=settings.pop("forget_on_request", "hide"),
                settings=nested(**settings),
            )
        )
        return opened[-1]

    yield make
    let_go(*opened)


def turn(user: str, assistant: str = "I see.", number: int = 0) -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": user, "id": f"u{number}-{user}"[:60]},
        {"role": "assistant", "content": assistant, "id": f"a{number}-{user}"[:60]},
    ]


def track(**fields: Any) -> dict[str, Any]:
    whole = {
        "name": "x",
        "title": "X",
        "summary": "s",
        "narrative": "n",
        "evidence": ["r1"],
    }
    return {"tracks": [whole | fields]}


BAD_ROUNDS: dict[str, Any] = {
    "prose": "Sure!",
    "null": "null",
    "exception": RuntimeError("down"),
    "no evidence": track(evidence=[]),
    "unknown evidence": track(evidence=["r99"]),
    "empty summary": track(summary=""),
    "drops the story": track(name="boats", narrative="n"),
    "path": track(name="../../x", title="", summary=""),
}

BAD: dict[str, Any] = {
    "prose": "Sure! Here are the memories.",
    "truncated": '{"memories": [{"text": "x"',
    "null": "null",
    "nothing": "",
    "wrong shape": {"memories": "none"},
    "unknown ids": memories({"text": "The user flies.", "sources": ["m77", "zz"]}),
    "too much": {"memories": [{"text": "y" * 200_000, "sources": ["m1"]}]},
    "repetition": "la " * 70_000,
    "refusal": "I cannot help with that.",
    "no such request": ValueError("context length exceeded"),
    "exception": ConnectionError("server is out"),
}

CHANGES: dict[str, Any] = {
    **{
        name: answer
        for name, answer in BAD.items()
        if name not in ("unknown ids", "too much")
    },
    "unknown record": {"changes": [change("n99", "ended", "I own a boat")]},
    "unknown message": {
        "changes": [change("n1", "ended", "I own a boat", message="m99")]
    },
    "invented quote": {"changes": [change("n1", "ended", "I sold the boat")]},
    "one word": {"changes": [change("n1", "ended", "boat")]},
    "no such memory": {"changes": [change("n1", "replaces", "I own a boat", by=99)]},
    "no such relation": {"changes": [change("n1", "forgets", "I own a boat")]},
    "nothing changed": {"changes": []},
}
