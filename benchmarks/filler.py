"""A stand-in for a perfect reader of a tool-filling prompt: it takes gold values, where shown.

It knows what is right and may use only what its prompt shows: a candidate, or words of a source
that the set names. With it, what is measured is the search and the copying, not a model.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_SOURCE = re.compile(r"^(f\d+): (.*)$", re.MULTILINE)
_QUOTE = re.compile(r'"(?:[^"\\]|\\.)*"')
_CANDIDATE = re.compile(r'^(v\d+): ("(?:[^"\\]|\\.)*") \((\w+), (f\d+)\)$', re.MULTILINE)


@dataclass(frozen=True)
class Shown:
    """What one prompt shows."""

    sources: dict[str, list[str]]
    """Texts by name; `f0` is the request."""
    candidates: dict[str, tuple[str, str]]
    """Value and source by name."""

    @classmethod
    def of(cls, prompt: str) -> "Shown":
        """Read the prompt."""
        quotes = {name: _QUOTE.findall(rest) for name, rest in _SOURCE.findall(prompt)}
        sources = {name: [json.loads(one) for one in own] for name, own in quotes.items()}
        found = _CANDIDATE.findall(prompt)
        return cls(sources, {name: (json.loads(raw), source) for name, raw, _, source in found})

    def telling(self, texts: Sequence[str]) -> list[str]:
        """Names of the sources that show one of these texts, which may be cut."""
        return [
            name
            for name, own in self.sources.items()
            if any(text.startswith(shown) for shown in own for text in texts if shown)
        ]


class FillAnswers:
    """Answers for one task of the acting set."""

    def __init__(self, task: Mapping[str, Any], lines: Mapping[str, Mapping[str, Any]]) -> None:
        self._task, self._lines = task, lines
        self.shown = Shown({}, {})
        self.listed: set[str] = set()
        """Slots whose value was among the listed candidates."""
        self.found: set[str] = set()
        """Slots whose value was among them or in the words of a right source."""

    def ToolFill(self, prompt: str) -> dict[str, Any]:  # noqa: N802  # the schema's name
        """Every slot from where it is shown."""
        self.shown = Shown.of(prompt)
        gold = self._task["gold"]
        return {"slots": [one for slot in gold for one in self._fill(slot, gold[slot])]}

    def Verdicts(self, prompt: str) -> dict[str, Any]:  # noqa: N802
        """An inferred value follows where the set says so."""
        numbers = re.findall(r"^(\d+)\. (\S+) = ", prompt, re.MULTILINE)
        gold = self._task["gold"]
        right = {slot for slot in gold if gold[slot]["type"] != "default"}
        return {"verdicts": [{"number": int(n), "follows": slot in right} for n, slot in numbers]}

    def _fill(self, slot: str, gold: Mapping[str, Any]) -> list[dict[str, Any]]:
        if gold["type"] == "default":
            return [{"slot": slot, "how": "default"}]
        right = self._right_sources(gold)
        if gold["type"] == "inferred" or _is_concluded(gold["value"]):
            self.found |= {slot} if right else set()
            return [_inferred(slot, gold["value"], right)] if right else []
        words = gold["value"] if isinstance(gold["value"], list) else [surface(gold)]
        copies = [self._copy(slot, str(one), right) for one in words]
        if all(copies):
            self.found.add(slot)
            self.listed |= {slot} if all("candidate" in one for one in copies if one) else set()
        return [one for one in copies if one]

    def _right_sources(self, gold: Mapping[str, Any]) -> list[str]:
        lines = [self._lines[one] for one in gold["sources"]]
        texts = [text for line in lines for text in (line["message"], line["record"]) if text]
        return self.shown.telling(texts) if lines else ["f0"]

    def _copy(self, slot: str, words: str, right: Sequence[str]) -> dict[str, Any] | None:
        for name, (raw, source) in self.shown.candidates.items():
            if raw == words and (source in right or not right):
                return {"slot": slot, "how": "copy", "candidate": name}
        for source in right:
            if any(words in text for text in self.shown.sources[source]):
                return {"slot": slot, "how": "copy", "words": words, "sources": [source]}
        return None


def surface(gold: Mapping[str, Any]) -> str:
    """The words that stand for the value."""
    return str(gold.get("surface", gold["value"]))


def _is_concluded(value: Any) -> bool:
    """Objects, lists of them, and booleans, which are said in words of all kinds."""
    parts = value if isinstance(value, list) else [value]
    return any(isinstance(part, dict | list | bool) for part in parts)


def _inferred(slot: str, value: Any, sources: Sequence[str]) -> dict[str, Any]:
    written = json.dumps(value, ensure_ascii=False)
    return {"slot": slot, "how": "infer", "value": written, "sources": list(sources[:4])}


class Liar(FillAnswers):
    """Makes every value up: retyped words, sources that were never shown, values of its own."""

    def _fill(self, slot: str, gold: Mapping[str, Any]) -> list[dict[str, Any]]:
        made_up = f"invented {slot} 4711"
        return [
            {"slot": slot, "how": "copy", "words": made_up, "sources": ["f0", "f1"]},
            {"slot": slot, "how": "copy", "candidate": "v999"},
            {"slot": slot, "how": "infer", "value": json.dumps(made_up), "sources": ["f998"]},
        ]

    def ToolFill(self, prompt: str) -> dict[str, Any]:  # noqa: N802
        """Every slot, those without gold too."""
        names = re.findall(r"^- (\S+) \(", prompt, re.MULTILINE)
        self.shown = Shown.of(prompt)
        return {"slots": [one for slot in names[:16] for one in self._fill(slot, {})]}
