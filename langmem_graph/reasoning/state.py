"""State of the reasoning graph and of its goal loop, and the dependencies of their steps.

The module has three parts: the proof that the goal loop works on, the loop's own state, and the
state of the graph around it. `JSON` is the form of both for graphs that an application serves.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from langmem_graph.llm.answer_schemas import Relation
from langmem_graph.llm.structured_calls import ModelRunner, Usage
from langmem_graph.reasoning.nl_logic import Atom
from langmem_graph.retrieval.facts import Search
from langmem_graph.retrieval.request_intent import Intent
from langmem_graph.retrieval.schedule_lookup import ScheduleConflict
from langmem_graph.runtime import Event, StateForm, StepRun
from langmem_graph.schemas import Conflict, Fact, GoalStatus, Recall, RecallMode, Risk
from langmem_graph.settings import Settings
from langmem_graph.storage.memory_services import Services

Likeness = Callable[[str, Sequence[str], StepRun], Awaitable[float]]
"""Greatest similarity of a text to any of the others, from 0 to 1."""


class Subgoal(BaseModel):
    """One statement to be proved."""

    id: str
    atom: str
    query: str
    relation: Relation = "semantic"
    parent: str | None = None
    depth: int = 0
    grounded: bool = False
    facts: list[str] = Field(default_factory=list)
    """Ids of the facts that prove it."""
    searched: str = ""
    """The atom as it was when it was last searched for."""
    plain: bool = False
    """The atom is the user's own text: what looks like a variable in it is none."""

    def parsed(self) -> Atom:
        """The statement with its variables."""
        return Atom((self.atom,)) if self.plain else Atom.parse(self.atom)


class Bound(BaseModel):
    """The entity that a variable is bound to, and the ids of the facts that say so."""

    entity: str
    facts: list[str] = Field(default_factory=list)


class Proof(BaseModel):
    """What is to be proved, what is proved so far, and how the loop goes on."""

    intent: Intent = "lookup"
    risky: bool = False
    central: list[str] = Field(default_factory=list)
    answer: list[str] = Field(default_factory=list)
    """Names of the variables that are asked for."""
    subgoals: list[Subgoal] = Field(default_factory=list)
    due: list[str] = Field(default_factory=list)
    """Subgoals to be searched for in this round."""
    bindings: dict[str, Bound] = Field(default_factory=dict)
    conflicts: list[Conflict] = Field(default_factory=list)
    facts: list[Fact] = Field(default_factory=list)
    """Every fact retrieved so far, each once, in the order of retrieval."""
    sufficient: list[str] = Field(default_factory=list)
    """Facts of the first look-up that already answer the request."""
    tried: list[list[str]] = Field(default_factory=list)
    """Earlier decompositions of the request."""
    counted: int = 0
    """Subgoals of earlier decompositions, whose ids are not used again."""
    best: "Proof | None" = None
    """The earlier decomposition that proved most."""
    depth: int = 0
    """Rounds of refinement since the request was last decomposed."""
    round: int = 0
    """Rounds of retrieval since the beginning."""
    status: GoalStatus | None = None
    ended: bool = False

    def entities(self) -> dict[str, str]:
        """The entity of each bound variable, by the variable's name."""
        return {name: self.bindings[name].entity for name in sorted(self.bindings)}

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
        """Variables without an entity, as `(name:type)`."""
        return [f"({n}:{kind})" for n, kind in self.types().items() if n not in self.bindings]

    def cited(self) -> list[str]:
        """Ids of the facts that prove something, in the order in which they did."""
        ids = [*self.sufficient, *(fact for goal in self.subgoals for fact in goal.facts)]
        ids += [fact for bound in self.bindings.values() for fact in bound.facts]
        return list(dict.fromkeys(ids))

    def known_line(self) -> str:
        """The bindings so far, as a line of a prompt."""
        known = [f"{name} = {bound.entity}" for name, bound in self.bindings.items()]
        return f"Known: {'; '.join(known) or 'nothing yet'}"

    def open_lines(self) -> list[str]:
        """The open statements, as lines of a prompt."""
        return [f"{goal.id}: {self.resolved(goal)}" for goal in self.open()]

    def take_best(self) -> None:
        """Return to an earlier decomposition, if that proved more."""
        if self.best is None or len(self.best.cited()) <= len(self.cited()):
            return
        for name in ("subgoals", "bindings", "answer", "status"):
            setattr(self, name, getattr(self.best, name))

    def without(self, gone: set[str]) -> "Proof":
        """What is still proved without these facts."""
        left = self.model_copy(deep=True)
        for goal in left.subgoals:
            goal.grounded = goal.grounded and not gone & set(goal.facts)
            goal.facts = [fact for fact in goal.facts if fact not in gone]
        left.bindings = {n: b for n, b in self.bindings.items() if not gone & set(b.facts)}
        left.sufficient = [fact for fact in self.sufficient if fact not in gone]
        conflicts = (_conflict_without(gone, conflict) for conflict in self.conflicts)
        left.conflicts = [conflict for conflict in conflicts if conflict]
        disputed = {fact for c in self.conflicts for facts in c.values.values() for fact in facts}
        if gone & {*self.cited(), *disputed}:
            proved: GoalStatus = "partial" if left.cited() else "exhausted"
            left.status = "conflict" if left.conflicts else proved
        return left


def _conflict_without(gone: set[str], conflict: Conflict) -> Conflict | None:
    """The conflict without these facts; None where only one value is left."""
    left = {value: [i for i in ids if i not in gone] for value, ids in conflict.values.items()}
    values = {value: ids for value, ids in left.items() if ids}
    return Conflict(variable=conflict.variable, values=values) if len(values) > 1 else None


@dataclass(frozen=True)
class Retrieved:
    """Result of one retrieval."""

    round: int
    facts: list[Fact]
    event: Event
    """Its event, which joins the trace when all retrievals of the round are done."""


def _collected(old: list[Retrieved] | None, new: list[Retrieved] | None) -> list[Retrieved]:
    """Reducer; None clears the list, which on a thread is still that of the last question."""
    return [] if new is None else [*(old or []), *new]


class GoalQuestion(TypedDict, total=False):
    """Input of a loop that is a graph of its own, as JSON."""

    query: str
    now: str
    """ISO time of the request."""
    recalled: list[dict[str, Any]]
    """Facts found already."""


class GoalInput(TypedDict, total=False):
    """Input of the loop within a recall."""

    query: str
    now: str
    """ISO time of the request."""
    recalled: list[Fact]
    """Facts of the first look-up."""
    started: float
    """When the recall began, in seconds since 1970."""
    usage: Usage
    trace: list[Event]


class GoalOutput(TypedDict, total=False):
    """Output of the loop."""

    proof: Proof
    usage: Usage
    trace: list[Event]


class GoalState(GoalInput, GoalOutput, total=False):
    """State of the loop, which is private but for the output."""

    found: Annotated[list[Retrieved] | None, _collected]
    """Results of the parallel retrievals."""


@dataclass(frozen=True)
class GoalDependencies:
    """Dependencies of the goal loop's steps."""

    runner: ModelRunner
    settings: Settings
    search: Search
    likeness: Likeness
    alone: bool = False
    """The loop is a graph of its own and has a budget of its own."""

    def left(self, state: GoalInput) -> float:
        """Seconds that are left, at least a moment."""
        return max(self.settings.reasoning.seconds - _passed(state), 0.05)

    def is_over(self, state: GoalInput, usage: Usage) -> bool:
        """True when calls, tokens or time are used up."""
        return _passed(state) > self.settings.reasoning.seconds or self.runner.is_spent(usage)


def _passed(state: GoalInput) -> float:
    return time.time() - state.get("started", time.time())


def working_copies(state: GoalState) -> tuple[Proof, Usage]:
    """Copies of proof and usage that a step may change."""
    return state.get("proof", Proof()).model_copy(deep=True), state.get("usage", Usage()).copy()


@dataclass(frozen=True)
class FoundRisks:
    """Outcome of the counterfactual step."""

    risks: list[Risk] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    """Facts found for the risks, beyond those of the first look-up."""


@dataclass(frozen=True)
class ProposedTime:
    """When the request would take place, as the model read it; all three are texts."""

    start: str = ""
    end: str = ""
    recurrence: str = ""


class ReasoningState(TypedDict, total=False):
    """State between the steps. The first step sets every key but `recall`."""

    query: str
    mode: RecallMode
    k: int | None
    max_tokens: int | None
    in_view: Sequence[str]
    """Ids and texts of messages that the model sees anyway."""
    now: str
    """ISO time of the request, on the user's clock."""
    started: float
    """When the recall began, in seconds since 1970."""
    intent: Intent | None
    """Intent of the request by rules; None where they do not decide."""
    recalled: list[Fact]
    """Facts of the first look-up."""
    proof: Proof
    """Outcome of the goal loop."""
    consequences: FoundRisks
    proposed: ProposedTime
    conflicts: list[ScheduleConflict]
    """Scheduled items at the time of the request."""
    usage: Usage
    trace: list[Event]
    warnings: list[str]
    milliseconds: dict[str, float]
    """Duration of each step."""
    recall: Recall
    """Outcome of the graph."""


@dataclass(frozen=True)
class ReasoningDependencies:
    """Dependencies of the reasoning graph's steps.

    Attributes:
        fail_closed: raise when the first look-up fails; else the recall is empty and says so.
    """

    services: Services
    runner: ModelRunner
    goals: GoalDependencies
    fail_closed: bool = True


JSON = StateForm.json(
    recalled=list[Fact],
    proof=Proof,
    subgoal=Subgoal,
    found=list[Retrieved],
    consequences=FoundRisks,
    proposed=ProposedTime,
    conflicts=list[ScheduleConflict],
    usage=Usage,
    recall=Recall,
)
"""State of both graphs as JSON, for graphs that a checkpointer may save."""
