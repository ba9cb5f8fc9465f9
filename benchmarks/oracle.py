"""A stand-in for a perfect reader: it reasons by rule, and only from what its prompt shows.

With it, what is measured is the loop and the retrieval, not a model.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_FACT = re.compile(r'^(f\d+): .*?("(?:[^"\\]|\\.)*")$', re.MULTILINE)
_STATEMENT = re.compile(r"^(s\d+): (.+)$", re.MULTILINE)
_VARIABLE = re.compile(r"\((\w+):[^()]+\)")


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
    return dict(tuple(pair.split(" = ", 1)) for pair in pairs)  # type: ignore[misc]


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
