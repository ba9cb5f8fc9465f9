"""State of the goal loop, and the dependencies of its steps."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, TypeAdapter
from typing_extensions import TypedDict

from langmem_graph.llm.answer_schemas import Relation
from langmem_graph.llm.structured_calls import ModelRunner, Usage
from langmem_graph.reasoning.nl_logic import Atom, Binding, Substitution
from langmem_graph.retrieval.facts import Search
from langmem_graph.retrieval.intent import Intent
from langmem_graph.retrieval.schedule_conflicts import ScheduleConflict
from langmem_graph.runtime import Event, Step, StepRun
from langmem_graph.schemas import Conflict, Fact, GoalStatus, Recall, RecallMode, Risk
from langmem_graph.settings import Settings
from langmem_graph.storage.services import Services

Likeness = Callable[[str, Sequence[str], StepRun], Awaitable[float]]
"""Greatest similarity of a text to any of the others, from 0 to 1."""

T = TypeVar("T")


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
    """The atom as it was when it was last looked for."""
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
    """Subgoals to be looked for in this round."""
    bindings: dict[str, Bound] = Field(default_factory=dict)
    conflicts: list[Conflict] = Field(default_factory=list)
    facts: list[Fact] = Field(default_factory=list)
    """Everything seen so far, each once, in the order of arrival."""
    sufficient: list[str] = Field(default_factory=list)
    """Facts of the first look-up that already answer the request."""
    tried: list[list[str]] = Field(default_factory=list)
    """Earlier ways to split the request."""
    counted: int = 0
    """Subgoals of earlier ways; theirs keep their names."""
    best: "Proof | None" = None
    """The earlier way that proved most."""
    depth: int = 0
    """Rounds of refinement since the request was last split."""
    round: int = 0
    """Rounds of looking since the beginning."""
    status: GoalStatus | None = None
    ended: bool = False

    def theta(self) -> Substitution:
        """The bindings as a substitution."""
        found = {n: Binding(b.entity, tuple(b.facts)) for n, b in self.bindings.items()}
        return Substitution(found)

    def open(self) -> list[Subgoal]:
        """Subgoals that are not proved yet."""
        return [goal for goal in self.subgoals if not goal.grounded]

    def initial(self) -> list[Subgoal]:
        """The subgoals that the request was split into."""
        return [goal for goal in self.subgoals if goal.parent is None]

    def types(self) -> dict[str, str]:
        """Each variable's type, as it was first given."""
        types: dict[str, str] = {}
        for goal in self.subgoals:
            for variable in goal.parsed().variables:
                types.setdefault(variable.name, variable.type)
        return types

    def take_best(self) -> None:
        """Go back to an earlier way to split the request, where that proved more."""
        if self.best is None or len(self.best.cited()) <= len(self.cited()):
            return
        for name in ("subgoals", "bindings", "answer", "status"):
            setattr(self, name, getattr(self.best, name))

    def without(self, gone: set[str]) -> "Proof":
        """What is still proved without these facts."""
        still = self.model_copy(deep=True)
        for goal in still.subgoals:
            goal.grounded = goal.grounded and not gone & set(goal.facts)
            goal.facts = [one for one in goal.facts if one not in gone]
        still.bindings = {n: b for n, b in self.bindings.items() if not gone & set(b.facts)}
        still.sufficient = [one for one in self.sufficient if one not in gone]
        still.conflicts = [one for one in map(partial(_still, gone), self.conflicts) if one]
        if gone & {*self.cited(), *(f for c in self.conflicts for f in _facts_of(c))}:
            proved: GoalStatus = "partial" if still.cited() else "exhausted"
            still.status = "conflict" if still.conflicts else proved
        return still

    def unresolved(self) -> list[str]:
        """Variables without an entity, as `(name:type)`."""
        return [f"({n}:{kind})" for n, kind in self.types().items() if n not in self.bindings]

    def cited(self) -> list[str]:
        """Ids of the facts that prove something, in the order in which they did."""
        ids = [*self.sufficient, *(one for goal in self.subgoals for one in goal.facts)]
        ids += [one for bound in self.bindings.values() for one in bound.facts]
        return list(dict.fromkeys(ids))


def _facts_of(conflict: Conflict) -> list[str]:
    return [one for facts in conflict.values.values() for one in facts]


def _still(gone: set[str], conflict: Conflict) -> Conflict | None:
    """The conflict without these facts; None where only one value is left."""
    left = {
        value: [one for one in ids if one not in gone] for value, ids in conflict.values.items()
    }
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
    """Dependencies of the steps."""

    runner: ModelRunner
    settings: Settings
    search: Search
    likeness: Likeness
    alone: bool = False
    """The loop is a graph of its own and spends a budget of its own."""

    def left(self, state: GoalInput) -> float:
        """Seconds that are left, at least a moment."""
        passed = time.time() - state.get("started", time.time())
        return max(self.settings.reasoning.seconds - passed, 0.05)

    def is_over(self, state: GoalInput, usage: Usage) -> bool:
        """True when calls, tokens or time are used up."""
        passed = time.time() - state.get("started", time.time())
        return passed > self.settings.reasoning.seconds or self.runner.is_spent(usage)


def working_copies(state: GoalState) -> tuple[Proof, Usage, list[Event]]:
    """Copies of proof, usage and trace that a step may change."""
    proof = state.get("proof", Proof()).model_copy(deep=True)
    return proof, copied(state.get("usage") or Usage()), list(state.get("trace") or [])


def copied(usage: Usage) -> Usage:
    """A copy that a step may add to."""
    return replace(usage, problems=list(usage.problems))


def updated(proof: Proof, usage: Usage, trace: list[Event]) -> GoalState:
    """The state's update by changed copies."""
    return {"proof": proof, "usage": usage, "trace": trace}


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
    """Dependencies of the steps.

    Attributes:
        fail_closed: raise when the first look-up fails; else the recall is empty and says so.
    """

    services: Services
    runner: ModelRunner
    goals: GoalDependencies
    fail_closed: bool = True


_TYPES: dict[str, TypeAdapter[Any]] = {
    "recalled": TypeAdapter(list[Fact]),
    "proof": TypeAdapter(Proof),
    "subgoal": TypeAdapter(Subgoal),
    "found": TypeAdapter(list[Retrieved]),
    "consequences": TypeAdapter(FoundRisks),
    "proposed": TypeAdapter(ProposedTime),
    "conflicts": TypeAdapter(list[ScheduleConflict]),
    "usage": TypeAdapter(Usage),
    "recall": TypeAdapter(Recall),
}
"""Types of the state's keys; values of all other keys are JSON already."""


def from_json(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state with objects in place of their JSON."""
    return _converted(state, lambda adapter, value: adapter.validate_python(value))


def to_json(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state, or an update of it, with JSON in place of objects."""
    return _converted(state, lambda adapter, value: adapter.dump_python(value, mode="json"))


def _converted(
    state: Mapping[str, Any], convert: Callable[[TypeAdapter[Any], Any], Any]
) -> dict[str, Any]:
    return {
        name: value if value is None or name not in _TYPES else convert(_TYPES[name], value)
        for name, value in state.items()
    }


def _unchanged(state: Any) -> Any:
    return state


@dataclass(frozen=True)
class StateForm:
    """How a graph keeps its state between steps: `OBJECTS` or `JSON`."""

    load: Callable[[Any], Any]
    """Makes the typed state that a step takes."""
    dump: Callable[[Any], Any]
    """Makes what the graph keeps of a step's update."""

    def step(self, step: Step) -> Step:
        """The step, over state in this form."""

        @wraps(step)
        async def converted(deps: Any, state: Any, run: StepRun) -> Any:
            return self.dump(await step(deps, self.load(state), run))

        return converted

    def route(self, choose: Callable[[Any], T]) -> Callable[[Any], T]:
        """The function of a conditional edge, over state in this form."""

        @wraps(choose)
        def converted(state: Any) -> T:
            return choose(self.load(state))

        return converted


OBJECTS = StateForm(_unchanged, _unchanged)
JSON = StateForm(from_json, to_json)
