"""Facts in a prompt: under short aliases, dated, quoted as data."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from langmem_graph.models import Fact
from langmem_graph.recall.quotes import as_data

LONGEST_REQUEST = 4_000
"""Characters of a request that the model is shown."""


@dataclass(frozen=True)
class FactAliases:
    """Facts by the aliases that are valid in one call: f1, f2 and so on."""

    facts: dict[str, Fact]

    @classmethod
    def of(cls, facts: Iterable[Fact]) -> "FactAliases":
        """Number the facts in the order of the list."""
        return cls({f"f{place}": fact for place, fact in enumerate(facts, 1)})

    def lines(self) -> list[str]:
        """One line for each fact."""
        return [f"{alias}: {line_of(fact)}" for alias, fact in self.facts.items()] or ["none"]

    def resolve(self, aliases: Sequence[str]) -> list[Fact]:
        """The facts of the aliases, each once; unknown aliases are dropped."""
        return [self.facts[one] for one in dict.fromkeys(aliases) if one in self.facts]


def line_of(fact: Fact) -> str:
    """Date, speaker of a message, status, and the words as a JSON string."""
    said = f"{fact.at:%Y-%m-%d} " if fact.at else ""
    speaker = f"{as_data(fact.speaker[:80])} said " if fact.speaker else ""
    notes = [word for word in (fact.confirmation,) if word in ("draft", "inferred")]
    notes += ["no longer true"] if fact.outdated else []
    note = f"({', '.join(notes)}) " if notes else ""
    return f"{said}{note}{speaker}{as_data(fact.text)}"


def request_line(request: str) -> str:
    """What the user asks for, on one line; of a very long one the beginning."""
    return f"Request: {' '.join(request.split())[:LONGEST_REQUEST]}"
