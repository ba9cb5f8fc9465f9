"""Scripted models that tests of several modules share."""

import re
from typing import Any

from langchain_core.messages import BaseMessage

from langmem_graph.testing import ScriptedChatModel


def _extraction(prompt: str) -> dict[str, Any]:
    """A memory of every new message."""
    lines = re.findall(r'^(m\d+) \S+ \S+ \S+ .*?: "(.*)"$', prompt, re.MULTILINE)
    return {
        "memories": [
            {
                "text": f"Noted: {words[:300]}",
                "sources": [alias],
                "attribute": f"w{n} {words[-40:]}",
            }
            for n, (alias, words) in enumerate(lines)
        ][:20]
    }


def _track(prompt: str) -> dict[str, Any]:
    new = re.findall(r"^(r\d+): (.*)$", prompt, re.MULTILINE)
    story = "\n".join(words for _, words in new)[:1_900]
    same = {"name": "all", "title": "All", "summary": story[:300] or "none"}
    return {
        "tracks": [
            {**same, "narrative": story or "none", "evidence": [a for a, _ in new][:40]}
        ]
    }


def _profile(prompt: str) -> dict[str, Any]:
    return {"text": prompt.split("Topic tracks:")[1][:1_500], "topics": ["all"]}


def _fill(prompt: str) -> dict[str, Any]:
    """The first source that memory has, as it stands."""
    source = re.search(r'^(f[1-9]\d*): .*?"((?:[^"\\])*)"', prompt, re.MULTILINE)
    if not source:
        return {"arguments": {}, "missing": ["note"]}
    cited = {"path": "note", "fact": source[1], "quote": source[2]}
    return {"arguments": {"note": source[2]}, "sources": [cited]}


def _first_fact(prompt: str) -> dict[str, Any]:
    fact = re.search(r"^(f\d+): (.*)$", prompt, re.MULTILINE)
    said = {"answer": fact[2][:900], "facts": [fact[1]]} if fact else {}
    return {"known": bool(fact), **said}


ANSWERS: dict[str, Any] = {
    "Extraction": _extraction,
    "Reconciliation": {"changes": []},
    "CausalPairs": {"pairs": []},
    "TopicRound": _track,
    "ProfileText": _profile,
    "GoalPlan": {
        "intent": "act",
        "risks": [{"claim": "It leaks.", "examples": ["The secret leaked."]}],
        "answer": ["w"],
        "subgoals": [{"atom": "(w:thing) is the secret", "query": "secret"}],
    },
    "Unification": {},
    "Consequences": {"against": [{"fact": "f1", "why": "It leaks."}]},
    "GroundedAnswer": _first_fact,
    "ToolFill": _fill,
}


class AnswersBySchema(ScriptedChatModel):
    """A scripted model with answers as keywords: `AnswersBySchema(GoalPlan={"intent": "act"})`."""

    def __init__(self, **answers: Any) -> None:
        super().__init__(answers=answers)


def echo(messages: list[BaseMessage]) -> str:
    return f"echo: {' '.join(str(m.content) for m in messages)}"[:4_000]


def steady_model() -> ScriptedChatModel:
    """For many callers at once: it answers from the prompt alone and keeps nothing.

    To a chat it repeats what it is shown, word for word.
    """
    return ScriptedChatModel(script=echo, answers=ANSWERS, record=False)
