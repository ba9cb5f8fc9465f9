"""Turns, what a scripted model finds in them, and answers that cannot be used."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langmem_graph import Memory
from tests.support.settings import nested


def memories(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"scene": "talk", "memories": list(rows)}


def line_aliases(question: str) -> dict[str, str]:
    """Alias and words of the new messages in an extraction's question."""
    new = question.split("New messages:\n")[1]
    lines = [line for line in new.splitlines() if line.startswith("[m")]
    return {line[1 : line.index("]")]: line.split(": ", 1)[1] for line in lines}


def echo(question: str) -> dict[str, Any]:
    """A memory of everything the user says."""
    said = {a: t for a, t in line_aliases(question).items() if "assistant" not in t}
    rows = [
        {"text": f"The user said: {text}", "sources": [alias], "attribute": f"words {text[:20]}"}
        for alias, text in said.items()
        if " user: " in f" {question.split(f'[{alias}]')[1].splitlines()[0]}"
    ]
    return memories(*rows)


@contextmanager
def memory_at(path: Path) -> Iterator[Callable[..., Memory]]:
    """Opens a memory there with a model and settings, and closes the one before."""
    opened: list[Memory] = []

    def make(model: Any, **settings: Any) -> Memory:
        while opened:
            opened.pop().close()
        settings = {"extraction__debounce_seconds": 0.02, "storage__closing_seconds": 5, **settings}
        opened.append(Memory(path, model=model, embeddings="hash", settings=nested(**settings)))
        return opened[-1]

    yield make
    while opened:
        opened.pop().close()


def turn(user: str, assistant: str = "I see.", number: int = 0) -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": user, "id": f"u{number}-{user}"[:60]},
        {"role": "assistant", "content": assistant, "id": f"a{number}-{user}"[:60]},
    ]


def track(**fields: Any) -> dict[str, Any]:
    whole = {"name": "x", "title": "X", "summary": "s", "narrative": "n", "evidence": ["r1"]}
    return {"tracks": [whole | fields]}


BAD_ROUNDS: dict[str, Any] = {
    "prose": "Sure!",
    "null": "null",
    "exception": RuntimeError("down"),
    "no evidence": track(evidence=[]),
    "unknown evidence": track(evidence=["r99"]),
    "empty title": track(title=""),
    "drops the story": track(name="boats"),
    "path": track(name="../../x", title="", summary=""),
}

BAD: dict[str, Any] = {
    "prose": "Sure! Here are the memories.",
    "truncated": '{"memories": [{"text": "x"',
    "null": "null",
    "nothing": "",
    "wrong shape": {"memories": "none"},
    "unknown ids": memories({"text": "The user flies.", "sources": ["m77", "zz"]}),
    "too much": {"scene": "x", "memories": [{"text": "y" * 200_000, "sources": ["m1"]}]},
    "repetition": "la " * 70_000,
    "refusal": "I cannot help with that.",
    "no such request": ValueError("context length exceeded"),
    "exception": ConnectionError("server is out"),
}

DECISIONS: dict[str, Any] = {
    **{name: answer for name, answer in BAD.items() if name not in ("unknown ids", "too much")},
    "unknown record": {"decisions": [{"record": "r9", "action": "skip", "targets": ["n1"]}]},
    "unknown target": {"decisions": [{"record": "r1", "action": "skip", "targets": ["n9"]}]},
    "no target": {"decisions": [{"record": "r1", "action": "update", "targets": []}]},
    "skips what is new": {"decisions": [{"record": "r1", "action": "skip", "targets": ["n1"]}]},
    "drops all": {
        "decisions": [{"record": f"r{n}", "action": "skip", "targets": ["n1"]} for n in (1, 2)]
    },
    "merges into nonsense": {
        "decisions": [
            {"record": "r1", "action": "merge", "targets": ["n1"], "text": "The moon is cheese 99."}
        ]
    },
    "nothing decided": {"decisions": []},
}
