"""Stand-ins for a perfect reader: of questions, of acts, and of a tool's arguments.

They reason by rule and use only what their prompt shows. With them, what is measured is
the search, the loop and the copying, not a model.
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
_LABELS = re.compile(r'^\S*(?: \((?:"(?:[^"\\]|\\.)*"|[^"()])*\))+')
"""The date of a source and its labels, which quote other texts."""
_QUOTE = re.compile(r'"(?:[^"\\]|\\.)*"')


def answers_of(reader: Any) -> dict[str, Any]:
    """For `ScriptedChatModel`: each method that is named after a schema answers that
    schema.
    """
    schemas = [name for name in dir(reader) if name[0].isupper()]
    return {name: getattr(reader, name) for name in schemas}


@dataclass(frozen=True)
class HopAnswers:
    """Names a question's evidence where all of it is shown; else splits it, and binds
    what is.

    Args:
        question: a line of `hops_questions.jsonl`.
        texts: by id of the memory's line, the texts under which it may be shown.
    """

    question: dict[str, Any]
    texts: Mapping[str, tuple[str, ...]]

    def GoalPlan(self, prompt: str) -> dict[str, Any]:  # noqa: N802  # named after the schema
        """All evidence, if it is shown; else the split that the set gives."""
        shown = self._shown(prompt)
        needed = self.question.get("evidence", [])
        facts = [alias for one in needed for alias in shown.get(one, [])[:1]]
        if needed and len(facts) == len(needed):
            rows = [{"item": self.question["answer"], "facts": facts[-1:]}]
            return {"facts": facts, "sure": True, "rows": rows}
        subgoals = [
            {"atom": g["atom"], "query": g["query"]} for g in self.question["subgoals"]
        ]
        answer = self.question["answer_variables"]
        return {"facts": facts, "subgoals": subgoals, "answer": answer}

    def FurtherItems(self, _: str) -> dict[str, Any]:  # noqa: N802
        """Nothing further: it is asked where all evidence was named."""
        return {"sure": True}

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
        wanted = self._refinements(prompt, shown, known)
        return {"bindings": bindings, "grounded": grounded, "look_for": wanted}

    def _refinements(
        self, prompt: str, shown: Mapping[str, Any], known: dict[str, str]
    ) -> list[dict[str, Any]]:
        """The refinements whose names have been shown, each once."""
        tried = set(re.findall(r"^- (.+)$", prompt, re.MULTILINE))
        wanted = []
        for one in self.question["refinements"]:
            parents = self._named(prompt, [one["for"]], known)
            visible = all(needed in shown for needed in one["needs_shown"])
            if parents and visible and one["query"] not in tried:
                fields = {name: one[name] for name in ("atom", "query", "relation")}
                wanted.append({"for_subgoal": parents[0], **fields})
        return wanted

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

    def _named(
        self, prompt: str, own: Sequence[str], known: Mapping[str, str]
    ) -> list[str]:
        """What the prompt calls these statements; found by their words."""
        every = [*self.question["subgoals"], *self.question["refinements"]]
        atoms = {_filled(one["atom"], known) for one in every if one["id"] in own}
        return [
            alias
            for alias, text in _STATEMENT.findall(prompt)
            if _filled(text, known) in atoms
        ]


def _known(prompt: str) -> dict[str, str]:
    line = re.search(r"^Known: (.+)$", prompt, re.MULTILINE)
    pairs = line.group(1).split("; ") if line and " = " in line.group(1) else []
    return dict(pair.split(" = ", 1) for pair in pairs)


def _filled(atom: str, known: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda found: known.get(found[1], found[0]), atom).casefold()


@dataclass(frozen=True)
class ActAnswers:
    """Names the risks that the set gives for one request, and what speaks against it if
    shown.

    Args:
        risks: written from the request alone, by somebody who did not know the memory.
        intent: what kind of request it is.
        conflict: the texts of the memory's line that speaks against it.
    """

    risks: list[dict[str, Any]]
    intent: str = "act"
    conflict: tuple[str, ...] = ()

    def GoalPlan(self, prompt: str) -> dict[str, Any]:  # noqa: N802
        """An act needs nothing proved; a question is answered by the first fact."""
        act = self.intent == "act"
        risks = [
            {name: one[name] for name in ("claim", "examples")} for one in self.risks
        ]
        plan = {"intent": self.intent, "sure": True, "facts": [] if act else ["f1"]}
        return {**plan, "risks": risks, **self.Consequences(prompt)}

    def Consequences(self, prompt: str) -> dict[str, Any]:  # noqa: N802
        """What really speaks against it, where it is shown."""
        shown = [
            alias
            for alias, text in _FACT.findall(prompt)
            if json.loads(text) in self.conflict
        ]
        return {
            "against": [
                {"fact": alias, "why": "It speaks against it."} for alias in shown[:1]
            ]
        }


# --- tool calls
# ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shown:
    """What one prompt shows."""

    sources: dict[str, list[str]]
    """Texts by name; `f0` is the request."""

    @classmethod
    def of(cls, prompt: str) -> "Shown":
        """Read the prompt."""
        lines = [
            (name, _LABELS.sub("", rest)) for name, rest in _SOURCE.findall(prompt)
        ]
        quotes = {name: _QUOTE.findall(rest) for name, rest in lines}
        return cls(
            {name: [json.loads(one) for one in own] for name, own in quotes.items()}
        )

    def telling(self, texts: Sequence[str]) -> list[str]:
        """Names of the sources that show one of these texts, which may be cut."""
        return [
            name
            for name, own in self.sources.items()
            if any(text.startswith(shown) for shown in own for text in texts if shown)
        ]


class FillAnswers:
    """Answers for one task of the acting set."""

    def __init__(
        self, task: Mapping[str, Any], lines: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self._task, self._lines = task, lines
        self.shown = Shown({})
        self.found: set[str] = set()
        """Slots whose value stands in the words of a right source that was shown."""

    def ToolFill(self, prompt: str) -> dict[str, Any]:  # noqa: N802  # the schema's name
        """Every slot from where it is shown."""
        self.shown = Shown.of(prompt)
        arguments: dict[str, Any] = {}
        sources = []
        for slot, gold in self._task["gold"].items():
            if gold["type"] != "default" and (cited := self._cited(slot, gold)):
                self.found.add(slot)
                _set(arguments, slot, gold["value"])
                sources += cited
        return {
            "arguments": arguments,
            "sources": sources,
            "missing": self._task["absent"],
        }

    def _cited(self, slot: str, gold: Mapping[str, Any]) -> list[dict[str, str]]:
        """The sources of a slot; none where one of its items is not shown."""
        right = self._right_sources(gold)
        if gold["type"] == "inferred" or _is_concluded(gold["value"]):
            names = dict.fromkeys([*right, "f0"]) if right else {}
            return [_taken(slot, name, self.shown.sources[name][-1]) for name in names]
        parts = {slot: surface(gold)}
        if isinstance(gold["value"], list):
            parts = {f"{slot}.{n}": str(one) for n, one in enumerate(gold["value"])}
        cited = [self._quoted(path, words, right) for path, words in parts.items()]
        return [one for one in cited if one] if all(cited) else []

    def _right_sources(self, gold: Mapping[str, Any]) -> list[str]:
        lines = [self._lines[one] for one in gold["sources"]]
        texts = [
            text for line in lines for text in (line["message"], line["record"]) if text
        ]
        return self.shown.telling(texts) if lines else ["f0"]

    def _quoted(
        self, path: str, words: str, right: Sequence[str]
    ) -> dict[str, str] | None:
        for source in right:
            # a record's own text is not quoted
            if words in self.shown.sources[source][-1]:
                return _taken(path, source, words)
        return None


def surface(gold: Mapping[str, Any]) -> str:
    """The words that stand for the value."""
    return str(gold.get("surface", gold["value"]))


def _set(arguments: dict[str, Any], slot: str, value: Any) -> None:
    *outer, last = slot.split(".")
    for name in outer:
        arguments = arguments.setdefault(name, {})
    arguments[last] = value


def _taken(path: str, fact: str, quote: str) -> dict[str, str]:
    return {"path": path, "fact": fact, "quote": quote}


def _is_concluded(value: Any) -> bool:
    """Objects, lists of them, and booleans, which are said in words of all kinds."""
    parts = value if isinstance(value, list) else [value]
    return any(isinstance(part, dict | list | bool) for part in parts)


class Liar(FillAnswers):
    """Makes every value up: words that nobody said, real quotes, facts that were never
    shown.
    """

    def ToolFill(self, prompt: str) -> dict[str, Any]:  # noqa: N802
        """Every slot, those without gold too."""
        self.shown = Shown.of(prompt)
        names = list(self._task["tool"]["parameters"]["properties"])
        made_up = {name: f"invented {name} 4711" for name in names}
        request = self.shown.sources["f0"][0]
        cited = [("f0", request), ("f1", self.shown.sources.get("f1", [request])[0])]
        sources = [_taken(name, fact, quote) for name in names for fact, quote in cited]
        lies = [_taken(name, "f998", made_up[name]) for name in names]
        return {"arguments": made_up, "sources": [*sources, *lies]}
