"""Builds a context: titled sections of quoted facts, within a budget of tokens."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from langmem_graph.models import Fact
from langmem_graph.recall.quotes import LONGEST_NAME, as_data, plain_id
from langmem_graph.tokens import TokenCounter


@dataclass
class ContextBuilder:
    """Collects the lines of a context while the token budget lasts; a fact is quoted once."""

    counter: TokenCounter
    left: int
    lines: list[str] = field(default_factory=list)
    quoted: dict[str, Fact] = field(default_factory=dict)

    def add(self, title: str, items: Sequence[tuple[str, Sequence[Fact]]]) -> None:
        """A section: each item is a sentence, if any, and the facts quoted below it."""
        begun = len(self.lines)
        for sentence, facts in items:
            fresh = [fact for fact in facts if fact.id not in self.quoted]
            if not sentence and not fresh:
                continue
            head = [title] if len(self.lines) == begun else []
            head += [f"- {sentence}"] if sentence else []
            indent = "  " if sentence else ""
            if not fresh:
                self._write(head)
            for fact in fresh:  # as many as there is room for
                if self._write([*head, indent + fact_line(fact)]):
                    self.quoted[fact.id], head = fact, []

    def _write(self, lines: Sequence[str]) -> bool:
        """Write these lines, where all of them fit."""
        cost = sum(self.counter.count(line) + 1 for line in lines)
        if cost > self.left:
            return False
        self.left -= cost
        self.lines += lines
        return True


def fact_line(fact: Fact) -> str:
    """Date, speaker, ids and words, which are quoted as data."""
    when = f"{fact.at:%Y-%m-%d %H:%M} " if fact.at else ""
    who = f"{plain_id(fact.speaker[:LONGEST_NAME])} " if fact.speaker else ""
    ids = ", ".join(map(plain_id, fact.message_ids or [fact.id]))
    note = " (no longer true)" if fact.outdated else ""
    note += f" ({fact.confirmation})" if fact.confirmation in ("draft", "inferred") else ""
    return f"- {when}{who}[{ids}]{note}: {as_data(fact.text)}"
