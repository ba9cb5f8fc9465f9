"""Rules: a statement holds when others do. They explain a proof; they are never facts."""

from dataclasses import dataclass
from typing import Literal

from langmem_graph.logic.atoms import Atom

Origin = Literal["decomposition", "common sense"]


@dataclass(frozen=True)
class Rule:
    """`head` follows from all atoms of `body`.

    `decomposition` is how a request was split; `common sense` is what a refinement supposes.
    """

    head: Atom
    body: tuple[Atom, ...]
    origin: Origin

    def renamed_apart(self, suffix: str) -> "Rule":
        """With a suffix on every variable, so that it shares none with another rule."""
        atoms = (self.head, *self.body)
        names = {v.name: f"{v.name}{suffix}" for atom in atoms for v in atom.variables}
        return Rule(
            self.head.renamed(names), tuple(atom.renamed(names) for atom in self.body), self.origin
        )

    def __str__(self) -> str:
        return f"{self.head} ← {' ∧ '.join(map(str, self.body))}"
