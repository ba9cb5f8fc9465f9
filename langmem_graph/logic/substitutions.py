"""Substitutions: which entity stands for which variable, and because of which facts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from langmem_graph.logic.entities import same_entity


class ConflictingBindingsError(ValueError):
    """Two substitutions bind variables to different entities; `variables` names them."""

    def __init__(self, variables: Iterable[str]) -> None:
        self.variables = tuple(variables)
        super().__init__(f"bound to different entities: {', '.join(self.variables)}")


@dataclass(frozen=True)
class Binding:
    """An entity with the ids of the facts it was found in, in the order they were found."""

    entity: str
    facts: tuple[str, ...] = ()

    def agrees(self, other: "Binding") -> bool:
        """True when both mean the same entity."""
        return same_entity(self.entity, other.entity)

    def joined(self, other: "Binding") -> "Binding":
        """The same entity with the facts of both."""
        return Binding(self.entity, tuple(dict.fromkeys((*self.facts, *other.facts))))


@dataclass(frozen=True)
class Substitution:
    """Bindings by variable name; immutable, and equal when they bind the same."""

    bindings: Mapping[str, Binding] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ordered = dict(sorted(self.bindings.items()))
        object.__setattr__(self, "bindings", MappingProxyType(ordered))

    def __hash__(self) -> int:
        return hash(tuple(self.bindings.items()))

    @property
    def entities(self) -> dict[str, str]:
        """Variable name to entity, as `Atom.apply` takes it."""
        return {name: binding.entity for name, binding in self.bindings.items()}

    def conflicts(self, other: "Substitution") -> tuple[str, ...]:
        """Variables that the two bind to different entities."""
        shared = self.bindings.keys() & other.bindings.keys()
        return tuple(sorted(n for n in shared if not self.bindings[n].agrees(other.bindings[n])))

    def merge(self, other: "Substitution") -> "Substitution":
        """Both together; where they agree, the spelling is this one's and the facts are both's.

        Raises:
            ConflictingBindingsError: they bind a variable to different entities.
        """
        if different := self.conflicts(other):
            raise ConflictingBindingsError(different)
        merged = dict(self.bindings)
        for name, binding in other.bindings.items():
            merged[name] = merged[name].joined(binding) if name in merged else binding
        return Substitution(merged)

    def renamed(self, names: Mapping[str, str]) -> "Substitution":
        """With other names for variables (α-renaming).

        Raises:
            ConflictingBindingsError: two variables get one name and have different entities.
        """
        done = Substitution()
        for name, binding in self.bindings.items():
            done = done.merge(Substitution({names.get(name, name): binding}))
        return done
