"""State of the reasoning graph and of its goal loop, and the dependencies of their
steps.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol

from typing_extensions import TypedDict

from langmem_graph.llm.structured_calls import ModelRunner, RunUsage
from langmem_graph.reasoning.proof import Proof, Subgoal, once
from langmem_graph.results import Fact, Recall, RecallMode, Relation, Risk
from langmem_graph.retrieval.schedule_lookup import Overlap
from langmem_graph.retrieval.vague_turns import Intent
from langmem_graph.runtime import Event, StateForm, StepRun
from langmem_graph.settings import Settings
from langmem_graph.storage.memory_services import Services

MOST_PAGES = 3  # pages of facts for a list; ours
LEAST_SECONDS = 0.05  # that a search gets where the time is nearly up


class Lookup(Protocol):
    """Where the goal loop looks things up: a memory, or any other retriever."""

    async def search(
        self, query: str, k: int, relation: Relation, run: StepRun
    ) -> list[Fact]:
        """The best facts for a query."""

    async def near(
        self, sentences: Sequence[str], k: int, run: StepRun
    ) -> list[list[Fact]]:
        """For each sentence the `k` facts nearest to it."""

    async def likeness(self, text: str, others: Sequence[str], run: StepRun) -> float:
        """Greatest similarity of a text to any of the others, from 0 to 1."""


@dataclass(frozen=True)
class Retrieved:
    """Result of one retrieval."""

    round: int
    facts: list[Fact]
    # its event, which joins the trace when all retrievals of the round are done
    event: Event


def _collected(
    old: list[Retrieved] | None, new: list[Retrieved] | None
) -> list[Retrieved]:
    """Reducer; None clears the list, which on a thread is still that of the last
    question.
    """
    return [] if new is None else [*(old or []), *new]


def _joined(old: list[str], new: list[str]) -> list[str]:
    """Reducer: what the parallel retrievals went on without, each text once."""
    return once([*old, *new])


class GoalQuestion(TypedDict, total=False):
    """Input of a loop that is a graph of its own, as JSON."""

    query: str
    now: str  # ISO time of the request
    recalled: list[dict[str, Any]]  # facts found already


class GoalInput(TypedDict, total=False):
    """Input of the loop within a recall."""

    query: str
    now: str  # ISO time of the request
    recalled: list[Fact]  # facts of the first look-up
    started: float  # when the recall began, in seconds since 1970
    usage: RunUsage
    trace: list[Event]
    warnings: Annotated[list[str], _joined]


class GoalOutput(TypedDict, total=False):
    """Output of the loop."""

    proof: Proof
    usage: RunUsage
    trace: list[Event]


class LoopOutput(GoalOutput, total=False):
    """Output of the loop within a recall."""

    warnings: Annotated[list[str], _joined]


class GoalState(GoalInput, LoopOutput, total=False):
    """State of the loop, which is private but for the output."""

    # results of the parallel retrievals
    found: Annotated[list[Retrieved] | None, _collected]


@dataclass(frozen=True)
class GoalDependencies:
    """Dependencies of the goal loop's steps."""

    runner: ModelRunner
    settings: Settings
    lookup: Lookup
    alone: bool = False  # the loop is a graph of its own and has a budget of its own

    def left(self, started: float) -> float:
        """Seconds that are left of a recall; below zero where time is up."""
        return self.settings.reasoning.seconds - (time.time() - started)


class GoalStep:
    """What a step of the loop works on: copies of proof and usage that it may
    change.
    """

    def __init__(self, deps: GoalDependencies, state: GoalState, run: StepRun) -> None:
        self.deps = deps
        self.state = state
        self.run = run
        self.options = deps.settings.reasoning
        self.proof = state.get("proof", Proof()).model_copy(deep=True)
        self.usage = state.get("usage", RunUsage()).copy()
        self.recorder = run.recorder(state.get("trace") or [])

    @property
    def left(self) -> float:
        """Seconds that are left; below zero where time is up."""
        return self.deps.left(self.state["started"])

    def is_over(self) -> bool:
        """True when calls, tokens or time are used up."""
        return self.left < 0 or self.deps.runner.is_spent(self.usage)

    def update(self) -> GoalState:
        """What of the state changes."""
        return {"proof": self.proof, "usage": self.usage, "trace": self.recorder.trace}


@dataclass(frozen=True)
class FoundRisks:
    """Outcome of the counterfactual step."""

    risks: list[Risk] = field(default_factory=list)
    # beyond those that the planning call saw
    facts: list[Fact] = field(default_factory=list)


class ReasoningState(TypedDict, total=False):
    """State between the steps. The first step sets every key but `recall`."""

    query: str
    mode: RecallMode
    k: int | None
    max_tokens: int | None
    in_view: Sequence[str]  # ids and texts of messages that the model sees anyway
    now: str  # ISO time of the request, on the user's clock
    started: float  # when the recall began, in seconds since 1970
    intent: Intent | None
    """Small talk or a vague turn by rules, which count where no model says what
    it is.
    """
    recalled: list[Fact]  # facts of the first look-up
    proof: Proof  # outcome of the goal loop
    consequences: FoundRisks
    overlaps: list[Overlap]  # scheduled items at the time of the request
    usage: RunUsage
    trace: list[Event]
    warnings: list[str]
    milliseconds: dict[str, float]  # duration of each step
    recall: Recall  # outcome of the graph


@dataclass(frozen=True)
class ReasoningDependencies:
    """Dependencies of the reasoning graph's steps."""

    services: Services
    runner: ModelRunner
    goals: GoalDependencies
    # raise when the first look-up fails; else the recall says so
    fail_closed: bool = True


JSON = StateForm.json(
    recalled=list[Fact],
    proof=Proof,
    subgoal=Subgoal,
    found=list[Retrieved],
    consequences=FoundRisks,
    overlaps=list[Overlap],
    usage=RunUsage,
    recall=Recall,
)
"""State of both graphs as JSON, for graphs that a checkpointer may save."""
