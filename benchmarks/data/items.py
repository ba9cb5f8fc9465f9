"""What every data set is read into: sessions, questions, and the conversations they
belong to.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchmarks.metrics.tool_calls import GoldSlot
from langmem_graph.errors import LangMemGraphError
from langmem_graph.results import SearchBy

Task = Literal["judged", "scale", "choice", "tool"]
"""How answers are scored: right or wrong by a judge, 0 to 3 by a judge, by letter, slot
by slot.
"""


class BenchDataError(LangMemGraphError):
    """A data set is not where it was looked for, or not in its layout."""


@dataclass(frozen=True)
class Session:
    """Messages as `user.add` takes them, and the data set's own records of them."""

    session_id: str
    messages: list[dict[str, Any]]
    records: list[dict[str, Any]] = field(default_factory=list)
    """As `user.add_records` takes them."""


@dataclass(frozen=True)
class ToolGoal:
    """The call that a request should lead to."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON schema of an object."""
    slots: tuple[GoldSlot, ...]
    absent: tuple[str, ...] = ()
    """Slots that should get no value."""

    def as_function(self) -> dict[str, Any]:
        """The tool as an OpenAI function."""
        about = {"name": self.name, "description": self.description}
        return {
            "type": "function",
            "function": {**about, "parameters": dict(self.parameters)},
        }


@dataclass(frozen=True)
class Question:
    """What is asked, and what a right answer is.

    Attributes:
        id: unique in its conversation.
        text: as the user says it.
        gold: ids of the messages or sessions that answer it; empty where the data set
            has none.
        category: the data set's own.
        kind: another label of the data set's, such as RealMem's `single` or `multi`.
        before: only the sessions before this place are in memory when it is asked; None
            is all.
        at: when it is asked.
        answer: the right answer, or a rubric.
        rule: what the judge is told of this kind of question, see `judges.RULES`.
        memories: texts of the gold memories (RealMem).
        options: to choose from; the right one is `answer`.
        goal: the tool call to make.
        offered: other tools that are offered beside the right one.
        distractors: the set's other tools by kind, the first ones to be offered first.
    """

    id: str
    text: str
    gold: frozenset[str] = frozenset()
    category: str = ""
    kind: str = ""
    before: int | None = None
    at: str | None = None
    answer: str = ""
    rule: str = "answer"
    memories: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    goal: ToolGoal | None = None
    offered: tuple[ToolGoal, ...] = ()
    distractors: Mapping[str, tuple[ToolGoal, ...]] = field(default_factory=dict)

    @property
    def tools(self) -> list[ToolGoal]:
        """The tools to choose from, in an order that tells nothing; empty without a
        goal.
        """
        every = [*([self.goal] if self.goal else []), *self.offered]
        random.Random(self.id).shuffle(every)  # no secret
        return every


@dataclass(frozen=True)
class Conversation:
    """One memory's life: its sessions in order and the questions asked of it."""

    name: str
    sessions: list[Session]
    questions: list[Question]

    def steps(self) -> Iterator[tuple[list[Question], Session | None]]:
        """In order: the questions asked at this point, then the session to add, None at
        the end.
        """
        for place, session in enumerate(self.sessions):
            yield [q for q in self.questions if q.before == place], session
        yield [q for q in self.questions if q.before is None], None


@dataclass(frozen=True)
class DataSet:
    """A benchmark, read.

    Attributes:
        name: as the command takes it.
        title: as reports show it.
        by: whether its gold are messages or sessions.
        cuts: of recall.
        task: how its answers are scored.
        conversations: with their questions.
        files: what it was read from.
        notes: what a reader of the figures should know.
    """

    name: str
    title: str
    by: SearchBy
    cuts: tuple[int, ...]
    task: Task
    conversations: list[Conversation]
    files: list[Path]
    notes: tuple[str, ...] = ()
