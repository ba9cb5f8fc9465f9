"""What the goal loop proves: subgoals, what their variables are bound to, and the
proof.

`proof_tree` shows people the proof of a finished recall, made from its trace.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from langmem_graph.reasoning.nl_logic import Atom
from langmem_graph.results import (
    Conflict,
    Fact,
    GoalStatus,
    Recall,
    Relation,
    Risk,
    Row,
)
from langmem_graph.retrieval.vague_turns import Intent
from langmem_graph.schemas import FrozenModel

# the name of what is asked for, in rows that no statement has a variable for
ITEM = "item"


class Subgoal(BaseModel):
    """One statement to be proved."""

    id: str
    atom: str
    query: str
    relation: Relation = "semantic"
    parent: str | None = None
    depth: int = 0
    grounded: bool = False
    facts: list[str] = []  # ids of the facts that prove it
    # what to search for in this round, where that is not `query` alone
    queries: list[str] = []
    # the entities of its variables with which it was searched for
    searched: list[str] = []
    # how many times `Settings.reasoning.subgoal_facts` its next search looks for
    page: int = 1
    # the atom is the user's own text: what looks like a variable in it is none
    plain: bool = False

    def parsed(self) -> Atom:
        """The statement with its variables."""
        return Atom(self.atom, plain=True) if self.plain else Atom.parse(self.atom)

    def shown(self) -> dict[str, Any]:
        """The subgoal as the trace shows it."""
        return self.model_dump(
            include={"id", "atom", "query", "relation", "parent", "depth"}
        )


class Bound(BaseModel):
    """The entity that a variable is bound to, and the ids of the facts that say so."""

    entity: str
    facts: list[str] = []

    def add(self, facts: Iterable[str]) -> None:
        """Add facts that say so too."""
        self.facts = once([*self.facts, *facts])


Bindings = dict[str, Bound]


class PossibleRisk(BaseModel):
    """What could speak against the request, and examples of how it may have
    been said.
    """

    claim: str
    examples: list[str] = []


@dataclass(frozen=True)
class ProposedTime:
    """When the request would take place, as the model read it; all three are texts.

    For a question of how long something was, `start` and `end` are its two days.
    """

    start: str = ""
    end: str = ""
    recurrence: str = ""


class Proof(BaseModel):
    """What is to be proved, what is proved so far, and how the loop goes on."""

    intent: Intent | None = None  # as the model sees the request
    # the facts that the planning call named are all that the request needs
    sure: bool = False
    unusable: bool = False  # the model's last answer could not be used
    unplanned: bool = False  # that answer was the plan
    listing: bool = False  # further facts are to be looked at for items of a list
    pages: int = 0  # how often that was done
    look_for: list[str] = []  # examples of how the user may have told of a further item
    named: list[str] = []  # facts that the planning call named for the request
    sufficient: list[str] = []  # the same, where they are sure to answer the request
    against: list[Risk] = []  # facts in its view that speak against the request
    risks: list[PossibleRisk] = []
    proposed: ProposedTime = ProposedTime()
    central: list[str] = []
    answer: list[str] = []  # names of the variables that are asked for
    subgoals: list[Subgoal] = []
    due: list[str] = []  # subgoals to be searched for in this round
    more: list[str] = []  # subgoals of which a further page of facts is to be looked at
    # refinements that the last round asked for, not yet checked
    wanted: list[Subgoal] = []
    bindings: Bindings = {}  # variables that have one value
    # of variables that have several, the values that belong together
    rows: list[Bindings] = []
    conflicts: list[Conflict] = []
    facts: list[Fact] = []  # every fact shown or retrieved so far, each once
    kept: list[str] = []  # facts that stay in view, as they may be part of the answer
    dropped: list[str] = []  # what of the model's last answer was not taken, and why
    tried: list[list[str]] = []  # earlier decompositions of the request
    counted: int = 0  # subgoals of earlier decompositions, whose ids are not used again
    best: "Proof | None" = None  # the earlier decomposition that proved most
    depth: int = 0  # rounds of refinement since the request was last decomposed
    round: int = 0  # rounds of retrieval since the beginning
    status: GoalStatus | None = None
    complete: bool = False  # nothing that is asked for was seen to be missing
    ended: bool = False

    def drop(self, reasons: dict[int, str]) -> list[str]:
        """Take out rows by number, and the facts of no other; returns them with the
        reasons.
        """
        gone = {n: row for n, row in enumerate(self.rows, 1) if n in reasons}
        self.rows = [row for n, row in enumerate(self.rows, 1) if n not in gone]
        kept = {
            fact for row in self.rows for bound in row.values() for fact in bound.facts
        }
        own = {
            fact
            for row in gone.values()
            for bound in row.values()
            for fact in bound.facts
        }
        self.named = [fact for fact in self.named if fact in kept or fact not in own]
        return [
            f"{', '.join(bound.entity for bound in row.values())}: {reasons[n]}"
            for n, row in gone.items()
        ]

    def joined(self) -> list[Bindings]:
        """The rows, each with the variables that have one value."""
        if not self.rows:
            return [self.bindings] if self.bindings else []
        return [self.bindings | row for row in self.rows]

    def first_row(self) -> dict[str, str]:
        """The entities of the first row, by variable; empty where nothing is bound."""
        return {
            name: bound.entity
            for row in self.joined()[:1]
            for name, bound in row.items()
        }

    def found_rows(self) -> list[Row]:
        """The rows where there are several values, with all facts that state them."""
        return [
            Row(
                values={name: bound.entity for name, bound in row.items()},
                facts=once(fact for bound in row.values() for fact in bound.facts),
            )
            for row in (self.joined() if self.rows else [])
        ]

    def entities(self) -> dict[str, str]:
        """The entity of each variable that has one value, by the variable's name."""
        return {name: self.bindings[name].entity for name in sorted(self.bindings)}

    def bound(self) -> set[str]:
        """Names of the variables that have a value, or several."""
        return {name for row in (self.bindings, *self.rows) for name in row}

    def resolved(self, goal: Subgoal) -> Atom:
        """The subgoal's statement with entities in the place of bound variables."""
        return goal.parsed().apply(self.entities())

    def open(self) -> list[Subgoal]:
        """Subgoals that are not proved yet."""
        return [goal for goal in self.subgoals if not goal.grounded]

    def initial(self) -> list[Subgoal]:
        """The subgoals that the request was decomposed into."""
        return [goal for goal in self.subgoals if goal.parent is None]

    def types(self) -> dict[str, str]:
        """Each variable's type, as it was first given."""
        types: dict[str, str] = {}
        for goal in self.subgoals:
            for variable in goal.parsed().variables:
                types.setdefault(variable.name, variable.type)
        return types

    def unresolved(self) -> list[str]:
        """Variables without an entity, as `(name:type)`; not of what served a proved
        statement.
        """
        proved = {goal.id for goal in self.subgoals if goal.grounded}
        goals = (goal.parsed() for goal in self.subgoals if goal.parent not in proved)
        names = {
            variable.name for goal in goals for variable in goal.variables
        } - self.bound()
        return [
            f"({name}:{kind})" for name, kind in self.types().items() if name in names
        ]

    def cited(self) -> list[str]:
        """Ids of the facts that prove something, in the order in which they did."""
        ids = [
            *self.sufficient,
            *(fact for goal in self.subgoals for fact in goal.facts),
        ]
        every = [value for row in (self.bindings, *self.rows) for value in row.values()]
        return once([*ids, *(fact for value in every for fact in value.facts)])

    def outcome(self) -> GoalStatus:
        """The status where not everything was proved."""
        return "partial" if self.cited() else "exhausted"

    def take_best(self) -> None:
        """Return to an earlier decomposition, if that proved more."""
        if self.best is None or len(self.best.cited()) <= len(self.cited()):
            return
        for name in ("subgoals", "bindings", "rows", "answer", "status"):
            setattr(self, name, getattr(self.best, name))

    def without(self, gone: set[str]) -> "Proof":
        """What is still proved without these facts."""
        left = self.model_copy(deep=True)
        for goal in left.subgoals:
            goal.grounded = goal.grounded and gone.isdisjoint(goal.facts)
            goal.facts = [fact for fact in goal.facts if fact not in gone]
        left.bindings = _rest(gone, self.bindings)
        left.rows = [row for row in (_rest(gone, row) for row in self.rows) if row]
        left.against = [risk for risk in self.against if not gone & set(risk.facts)]
        left.sufficient = [fact for fact in self.sufficient if fact not in gone]
        conflicts = (_conflict_without(gone, conflict) for conflict in self.conflicts)
        left.conflicts = [conflict for conflict in conflicts if conflict]
        disputed = {
            fact
            for c in self.conflicts
            for facts in c.values.values()
            for fact in facts
        }
        if gone & {*self.cited(), *disputed}:
            left.status = "conflict" if left.conflicts else left.outcome()
            left.complete = False
        return left


def once(ids: Iterable[str]) -> list[str]:
    """The ids without repetitions."""
    return list(dict.fromkeys(ids))


def _rest(gone: set[str], row: Bindings) -> Bindings:
    """The values that none of these facts stated."""
    return {name: bound for name, bound in row.items() if not gone & set(bound.facts)}


def _conflict_without(gone: set[str], conflict: Conflict) -> Conflict | None:
    """The conflict without these facts; None where only one value is left."""
    left = {
        value: [i for i in ids if i not in gone]
        for value, ids in conflict.values.items()
    }
    values = {value: ids for value, ids in left.items() if ids}
    return (
        Conflict(variable=conflict.variable, values=values) if len(values) > 1 else None
    )


class ProofGoal(FrozenModel):
    """One statement that had to be proved."""

    atom: str
    grounded: bool
    bindings: dict[str, str]
    """Its variables for which an entity was found."""
    facts: list[str]
    """Ids of the facts that prove it."""
    parts: list["ProofGoal"]
    """The goals that it was split or refined into."""


def named_facts(found: Recall) -> list[str]:
    """Ids of the facts that one look was enough to name."""
    looks = [event for event in found.trace if event["event"] == "memory_goal"]
    return [name for event in looks for name in event["sufficient"]]


def proof_tree(found: Recall) -> list[ProofGoal]:
    """The goals that the question was split into; of several ways, the one that
    counts.
    """
    proved: dict[str, dict[str, Any]] = {}
    children: dict[str | None, list[dict[str, Any]]] = defaultdict(list)
    for event in found.trace:
        taken = event["event"] == "memory_subgoal" and not event.get("again")
        if taken or (event["event"] == "memory_refinement" and event["accepted"]):
            children[event.get("parent")].append(event)
        if event["event"] == "memory_proof":
            proved = {goal["id"]: goal for goal in event["subgoals"]}
    entities = found.reasoning.bindings if found.reasoning else {}

    def below(parent: str | None) -> list[ProofGoal]:
        goals = [g for g in children.get(parent, []) if not proved or g["id"] in proved]
        return [made(goal) for goal in goals]

    def made(goal: dict[str, Any]) -> ProofGoal:
        proof = proved.get(goal["id"], {})
        return ProofGoal(
            atom=goal["atom"],
            grounded=bool(proof.get("grounded")),
            bindings={n: e for n, e in entities.items() if f"({n}:" in goal["atom"]},
            facts=proof.get("facts", []),
            parts=below(goal["id"]),
        )

    return below(None)
