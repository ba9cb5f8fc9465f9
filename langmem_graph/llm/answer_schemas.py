"""The schemas of the model's answers; every text and list has a maximum length.

Without one, small models may repeat themselves up to the token limit, and the repeated text would
be stored.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field


def _one_line(text: str) -> str:
    """Join the lines: in later prompts, a separate line could be mistaken for a quoted fact."""
    return " ".join(text.split())


_OneLine = AfterValidator(_one_line)


def _first(most: int) -> BeforeValidator:
    """Cut a list that is too long, where rejecting the answer would lose its good beginning."""
    return BeforeValidator(lambda items: items[:most] if isinstance(items, list) else items)


Alias = Annotated[str, Field(max_length=8), _OneLine]
"""A short alias of an id, valid in one call: m3 is a message, r1 a record, a2 an attribute."""
Name = Annotated[str, Field(max_length=80), _OneLine]
Time = Annotated[str, Field(max_length=40), _OneLine]
Sentence = Annotated[str, Field(max_length=400), _OneLine]
Statement = Annotated[str, Field(max_length=200), _OneLine]
VariableName = Annotated[str, Field(max_length=32), _OneLine]
Relation = Literal["semantic", "temporal", "causal", "entity"]
"""How to search (Goal-Mem 2.2): by similarity, date, causal edges, or exact words."""


class NewMemory(BaseModel):
    """One thing worth remembering."""

    text: Sentence
    kind: Literal["fact", "event", "instruction", "preference"] = "fact"
    facet: Literal["none", "persona", "project_state", "schedule"] = "none"
    subject: Name = "user"
    attribute: Name = ""
    sources: Annotated[list[Alias], Field(max_length=8)]
    draft: bool = False
    project: Name = ""
    entities: Annotated[list[Name], Field(max_length=6)] = []
    when: Time = ""
    until: Time = ""
    recurrence: Annotated[str, Field(max_length=120)] = ""


class Extraction(BaseModel):
    """What a stretch of conversation adds."""

    scene: Name = ""
    memories: Annotated[list[NewMemory], Field(max_length=24)]


class Decision(BaseModel):
    """What becomes of one new record."""

    record: Alias
    action: Literal["store", "skip", "update", "merge"]
    targets: Annotated[list[Alias], Field(max_length=4)] = []
    attribute: Name = ""
    text: Annotated[str, Field(max_length=400)] = ""


class Reconciliation(BaseModel):
    """One decision for each new record."""

    decisions: Annotated[list[Decision], Field(max_length=24)]


class CausalPair(BaseModel):
    """One record may have brought about another."""

    cause: Alias
    effect: Alias


class CausalPairs(BaseModel):
    """Possible causes among the records shown; none is a good answer."""

    pairs: Annotated[list[CausalPair], Field(max_length=12)]


class NewSubgoal(BaseModel):
    """One statement to be proved, and how to look for it."""

    atom: Statement
    query: Statement
    relation: Relation = "semantic"


class GoalPlan(BaseModel):
    """What a request is, and what memory has to show for it."""

    intent: Literal["lookup", "act", "vague", "chat"] = "lookup"
    risky: bool = False
    sufficient: Annotated[list[Alias], Field(max_length=8)] = []
    central: Annotated[list[Name], Field(max_length=8)] = []
    answer: Annotated[list[VariableName], Field(max_length=6)] = []
    subgoals: Annotated[list[NewSubgoal], Field(max_length=6)] = []


class ProposedBinding(BaseModel):
    """A variable, what it stands for, and the facts that say so."""

    variable: VariableName
    entity: Annotated[str, Field(max_length=120), _OneLine]
    facts: Annotated[list[Alias], Field(max_length=6)]


class ProposedProof(BaseModel):
    """A statement that facts entail."""

    subgoal: Alias
    facts: Annotated[list[Alias], Field(max_length=6)]


class Unification(BaseModel):
    """What the facts, taken together, prove."""

    bindings: Annotated[list[ProposedBinding], Field(max_length=16)] = []
    grounded: Annotated[list[ProposedProof], Field(max_length=12)] = []


class RefinedSubgoal(NewSubgoal):
    """A statement that would help to prove an open one."""

    for_subgoal: Alias


class Refinement(BaseModel):
    """What to look for next; stop when nothing would help."""

    stop: bool = False
    subgoals: Annotated[list[RefinedSubgoal], Field(max_length=8)] = []


class NewRisk(BaseModel):
    """What could go wrong, and how the user may have mentioned what makes it go wrong."""

    claim: Statement
    examples: Annotated[list[Statement], Field(max_length=3)] = []
    basis: Literal["memory", "world"] = "world"
    facts: Annotated[list[Alias], Field(max_length=4)] = []


class Consequences(BaseModel):
    """What could go wrong if the user did what is asked, and when it would take place."""

    risks: Annotated[list[NewRisk], Field(max_length=5)] = []
    start: Time = ""
    end: Time = ""
    recurrence: Annotated[str, Field(max_length=120)] = ""


class GroundedAnswer(BaseModel):
    """An answer from facts that were shown."""

    known: bool
    answer: Annotated[str, Field(max_length=1_200)] = ""
    facts: Annotated[list[Alias], Field(max_length=12)] = []


class TrackEdit(BaseModel):
    """A topic track as it shall be from now on."""

    name: Name
    title: Name
    summary: Sentence
    narrative: Annotated[str, Field(max_length=2_000)]
    evidence: Annotated[list[Alias], Field(max_length=40)]
    absorbs: Annotated[list[Name], Field(max_length=4)] = []


class TopicRound(BaseModel):
    """The tracks that change; tracks that are not named stay as they are."""

    tracks: Annotated[list[TrackEdit], Field(max_length=8)]


class ProfileText(BaseModel):
    """The whole profile."""

    text: Annotated[str, Field(max_length=2_000)]
    topics: Annotated[list[Name], Field(max_length=20)]


class SlotFill(BaseModel):
    """Where one argument of a tool call comes from."""

    slot: Annotated[str, Field(max_length=400)]
    how: Literal["copy", "infer", "default", "missing", "conflict"]
    candidate: Alias = ""
    words: Annotated[str, Field(max_length=1_000)] = ""
    value: Annotated[str, Field(max_length=1_000)] = ""
    sources: Annotated[list[Alias], Field(max_length=4)] = []


class ToolFill(BaseModel):
    """Every argument of a tool call, each with where it comes from."""

    slots: Annotated[list[SlotFill], _first(400)]


class Verdict(BaseModel):
    """Whether an inferred value follows from what it cites."""

    number: int
    follows: bool


class Verdicts(BaseModel):
    """One verdict for each inferred value."""

    verdicts: Annotated[list[Verdict], _first(400)]


class ToolChoice(BaseModel):
    """The tool that the request needs."""

    tool: Alias
