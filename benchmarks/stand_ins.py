"""Stand-ins for a perfect reader: of questions, of acts, and of a tool's arguments.

They reason by rule and use only what their prompt shows. With them, what is measured is the search,
the loop and the copying, not a model.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_FACT = re.compile(r'^(f\d+): .*?("(?:[^"\\]|\\.)*")$', re.MULTILINE)
_STATEMENT = re.compile(r"^(s\d+): (.+)$", re.MULTILINE)
_VARIABLE = re.compile(r"\((\w+):[^()]+\)")
_SOURCE = re.compile(r"^(f\d+): (.*)$", re.MULTILINE)
_QUOTE = re.compile(r'"(?:[^"\\]|\\.)*"')
_CANDIDATE = re.compile(r'^(v\d+): ("(?:[^"\\]|\\.)*") \((\w+), (f\d+)\)$', re.MULTILINE)


def answers_of(reader: Any) -> dict[str, Any]:
    """For `ScriptedChatModel`: each method that is named after a schema answers that schema."""
    schemas = [name for name in dir(reader) if name[0].isupper()]
    return {"Refinement": {"stop": True}} | {name: getattr(reader, name) for name in schemas}


@dataclass(frozen=True)
class HopAnswers:
    """Splits one question of the set, and binds what the shown facts prove.

    Args:
        question: a line of `hops_questions.jsonl`.
        texts: by id of the memory's line, the texts under which it may be shown.
    """

    question: dict[str, Any]
    texts: Mapping[str, tuple[str, ...]]

    def GoalPlan(self, prompt: str) -> dict[str, Any]:  # noqa: N802  # named after the schema
        """The split that the set gives, made without knowing the memory."""
        subgoals = [{"atom": g["atom"], "query": g["query"]} for g in self.question["subgoals"]]
        return {"subgoals": subgoals, "answer": self.question["answer_variables"]}

    def Unification(self, prompt: str) -> dict[str, Any]:  # noqa: N802
        """What the shown facts prove, chains within one round included."""
        shown, known = self._shown(prompt), dict(_known(prompt))
        bindings, grounded = [], []
        for proof in self._provable(shown, known):
            facts = [alias for one in proof["facts"] for alias in shown[one]]
            bindings += [
                {"variable": name, "entity": entity, "facts": facts}
                for name, entity in proof["binds"].items()
                if name not in _known(prompt)
            ]
            grounded += [
                {"subgoal": alias, "facts": facts}
                for alias in self._named(prompt, proof["grounds"], known)
            ]
        return {"bindings": bindings, "grounded": grounded}

    def Refinement(self, prompt: str) -> dict[str, Any]:  # noqa: N802
        """The refinements whose names have been shown, each once."""
        shown, known = self._shown(prompt), _known(prompt)
        tried = set(re.findall(r"^- (.+)$", prompt, re.MULTILINE))
        wanted = []
        for one in self.question["refinements"]:
            parents = self._named(prompt, [one["for"]], known)
            visible = all(needed in shown for needed in one["needs_shown"])
            if parents and visible and one["query"] not in tried:
                fields = {name: one[name] for name in ("atom", "query", "relation")}
                wanted.append({"for_subgoal": parents[0], **fields})
        return {"stop": not wanted, "subgoals": wanted}

    def _shown(self, prompt: str) -> dict[str, list[str]]:
        """The aliases under which the memory's lines are shown."""
        aliases: dict[str, list[str]] = {}
        for alias, text in _FACT.findall(prompt):
            aliases.setdefault(json.loads(text), []).append(alias)
        return {
            one: [alias for text in texts for alias in aliases.get(text, [])]
            for one, texts in self.texts.items()
            if any(text in aliases for text in texts)
        }

    def _provable(
        self, shown: Mapping[str, Any], known: dict[str, str]
    ) -> Iterator[dict[str, Any]]:
        """Proofs whose facts are shown and whose variables are known, in any order."""
        waiting = list(self.question["proofs"])
        while ready := [
            proof
            for proof in waiting
            if all(one in shown for one in proof["facts"])
            and all(name in known for name in proof["needs"])
        ]:
            for proof in ready:
                waiting.remove(proof)
                known |= proof["binds"]
                yield proof

    def _named(self, prompt: str, own: Sequence[str], known: Mapping[str, str]) -> list[str]:
        """What the prompt calls these statements; found by their words."""
        every = [*self.question["subgoals"], *self.question["refinements"]]
        atoms = {_filled(one["atom"], known) for one in every if one["id"] in own}
        return [
            alias for alias, text in _STATEMENT.findall(prompt) if _filled(text, known) in atoms
        ]


def _known(prompt: str) -> dict[str, str]:
    line = re.search(r"^Known: (.+)$", prompt, re.MULTILINE)
    pairs = line.group(1).split("; ") if line and " = " in line.group(1) else []
    return dict(pair.split(" = ", 1) for pair in pairs)


def _filled(atom: str, known: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda found: known.get(found[1], found[0]), atom).casefold()


@dataclass(frozen=True)
class ActAnswers:
    """Names the risks that the set gives for one request.

    Args:
        risks: written from the request alone, by somebody who did not know the memory.
        intent: what kind of request it is.
    """

    risks: list[dict[str, Any]]
    intent: str = "act"

    def GoalPlan(self, prompt: str) -> dict[str, Any]:  # noqa: N802
        """An act needs nothing proved; a question is one statement."""
        return {"intent": self.intent, "subgoals": []}

    def Consequences(self, prompt: str) -> dict[str, Any]:  # noqa: N802
        """The risks, whatever is shown."""
        return {"risks": self.risks}


# --- tool calls ----------------------------------------------------------------------------------


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
