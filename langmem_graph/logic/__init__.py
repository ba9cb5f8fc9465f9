"""NL-Logic: sentences with typed variables, what they are bound to, and how goals break down.

First-order logic's bookkeeping with natural language inside (Goal-Mem, section 2.1 of the method).
Nothing here calls a model; whether a fact entails a sentence is asked elsewhere.
"""

from langmem_graph.logic.atoms import Atom, Variable
from langmem_graph.logic.entities import contradicts, same_entity
from langmem_graph.logic.rules import Rule
from langmem_graph.logic.substitutions import Binding, ConflictingBindingsError, Substitution

__all__ = [
    "Atom",
    "Binding",
    "ConflictingBindingsError",
    "Rule",
    "Substitution",
    "Variable",
    "contradicts",
    "same_entity",
]
