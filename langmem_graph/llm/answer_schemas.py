"""The schemas of the model's answers; every text and list has a maximum length.

Without one, small models may repeat themselves up to the token limit, and the repeated
text would be stored.
"""

import json
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    create_model,
    model_validator,
)

from langmem_graph.llm.forgiving_answers import NEVER_CUT, Answer, normal_alias
from langmem_graph.results import Relation
from langmem_graph.schemas import ChangeRelation


def _one_line(text: str) -> str:
    """Join the lines: in later prompts, a separate line could be mistaken for a quoted
    fact.
    """
    return " ".join(text.split())


_OneLine = AfterValidator(_one_line)


Alias = Annotated[
    str, Field(max_length=8), BeforeValidator(normal_alias), NEVER_CUT, _OneLine
]
"""A short alias of an id, valid in one call: m3 is a message, r1 a record, a2 an
attribute.
"""
Name = Annotated[str, Field(max_length=80), _OneLine]
Time = Annotated[str, Field(max_length=40), _OneLine]
Sentence = Annotated[str, Field(max_length=400), _OneLine]
Statement = Annotated[str, Field(max_length=200), _OneLine]
Quote = Annotated[str, Field(max_length=300), _OneLine]
MOST_MEMORIES = 160  # of one answer; with so many, the batch is halved and read again
VariableName = Annotated[str, Field(max_length=32), NEVER_CUT, _OneLine]


def _brief(schema: dict[str, Any]) -> None:
    """Leave out of the schema what costs tokens and tells a model nothing."""
    for part in schema.get("properties", {}).values():
        for name in ("title", "default", "maxLength", "maxItems"):
            part.pop(name, None)
        if isinstance(part.get("items"), dict):
            part["items"].pop("maxLength", None)


class _Brief(Answer):
    model_config = ConfigDict(json_schema_extra=_brief)


def _as_json(value: object) -> object:
    """Text for an object: models give either."""
    if not isinstance(value, dict):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


class StatedValue(_Brief):
    """A number, date, time, code or amount in text."""

    raw: Annotated[
        str, Field(max_length=200, description="words of the message"), NEVER_CUT
    ]
    value: Annotated[str, Field(max_length=200, description="as in text"), NEVER_CUT]


class NewMemory(_Brief):
    """A statement worth remembering."""

    text: Annotated[Sentence, Field(description="one sentence that stands alone")]
    kind: Literal["fact", "event", "instruction", "preference"] = "fact"
    facet: Literal["none", "persona", "project_state", "schedule"] = "none"
    subject: Annotated[Name, Field(description="user, a name, or: user's aunt")] = (
        "user"
    )
    attribute: Annotated[
        Name, Field(description="2-3 English words: home, dentist visit")
    ] = ""
    sources: Annotated[list[Alias], Field(max_length=8, description="messages")]
    values: Annotated[list[StatedValue], Field(max_length=12)] = []
    when: Annotated[Time, Field(description="ISO, of a routine its next time")] = ""
    until: Annotated[Time, Field(description="end of that one time")] = ""
    recurrence: Annotated[
        str, Field(max_length=120, description="RRULE"), NEVER_CUT
    ] = ""
    draft: Annotated[bool, Field(description="considered, or conditional")] = False
    verbatim: Annotated[
        str, Field(max_length=2_000, description="text to be kept word for word")
    ] = ""
    project: Annotated[Name, Field(description="plan it belongs to")] = ""


class FormedMemory(NewMemory):
    """A statement worth remembering."""

    form: Annotated[Name, Field(description="name of the form it fills")] = ""
    data: Annotated[str, BeforeValidator(_as_json), NEVER_CUT] = Field(
        "", max_length=8_000, description="that form, as one JSON object"
    )


class ProposedChange(_Brief):
    """What a message does to a record."""

    record: Annotated[Alias, Field(description="n…, or index of a memory")] = ""
    relation: Literal[ChangeRelation, "forget"]
    by: Annotated[
        int | None, Field(description="index of the memory that holds instead, if any")
    ] = None
    since: Annotated[
        Time, Field(description="ISO day or month, if said; may lie ahead")
    ] = ""
    message: Annotated[Alias, Field(description="m… that makes the change")]
    quote: Annotated[Quote, Field(description="its exact words, two or more")]
    agreed_message: Alias = Field(
        "", description="if quote is the assistant's: the user's yes"
    )
    agreed_quote: Quote = Field("", description="words of that yes")


class Extraction(_Brief):
    """What new messages add and change."""

    memories: Annotated[list[NewMemory], Field(max_length=MOST_MEMORIES)]
    changes: Annotated[list[ProposedChange], Field(max_length=MOST_MEMORIES)] = []
    look_for: list[Sentence] = Field(
        [],
        max_length=4,
        description="what records that were not shown may say and the messages change",
    )


FormedExtraction: type[Extraction] = create_model(
    "Extraction",
    __base__=Extraction,
    __doc__=Extraction.__doc__,
    memories=(Annotated[list[FormedMemory], Field(max_length=MOST_MEMORIES)], ...),
)
"""The same where the application has forms of its own."""


class Reconciliation(_Brief):
    """What new memories change in further records."""

    memories: Annotated[list[NewMemory], Field(max_length=MOST_MEMORIES)] = []
    changes: Annotated[list[ProposedChange], Field(max_length=MOST_MEMORIES)] = []


class RemovedWords(_Brief):
    """Words that tell what shall be forgotten."""

    text: Annotated[Alias, Field(description="m…, n… or a memory's index")]
    words: Annotated[
        str, Field(max_length=4_000, description="exactly as they stand"), NEVER_CUT
    ]


class Removal(_Brief):
    """All words of the texts that tell what shall be forgotten."""

    remove: Annotated[list[RemovedWords], Field(max_length=MOST_MEMORIES)] = []
    names: list[Annotated[str, Field(max_length=80), NEVER_CUT]] = Field(
        [],
        max_length=8,
        description="the value or name itself, bare, in each form it has",
    )


class CausalPair(_Brief):
    """One record may have brought about another."""

    cause: Annotated[
        Alias, Field(description='the record that brought it about, as "r1"')
    ]
    effect: Annotated[Alias, Field(description="the record of what came of it")]
    mechanism: Annotated[str, Field(max_length=160), _OneLine] = Field(
        "", description="how it did so, in a few words"
    )
    sure: Literal["yes", "maybe", "no"] = Field(
        "maybe", description="yes: without the cause, hardly the effect"
    )


class CausalPairs(_Brief):
    """Possible causes among the records shown; none is a good answer."""

    pairs: Annotated[list[CausalPair], Field(max_length=24, description="at most 24")]


class NewSubgoal(_Brief):
    """One statement to be proved, and how to look for it."""

    atom: Annotated[Statement, NEVER_CUT] = Field(
        description='a variable for each unknown: "(w:person) liked (g:gift)"'
    )
    query: Statement = Field(description="words to look for")
    relation: Relation = Field(
        "semantic", description="entity: exact names or numbers; else semantic"
    )


class FactAgainst(_Brief):
    """A fact that speaks against doing what is asked."""

    fact: Alias
    why: Annotated[Statement, Field(description="one short sentence")]


class NewRow(_Brief):
    """One of several things that are asked for."""

    item: Annotated[str, Field(max_length=120), _OneLine]
    facts: Annotated[list[Alias], Field(max_length=8)]


class NewRisk(_Brief):
    """What else could speak against it."""

    claim: Statement
    examples: list[Statement] = Field(
        [],
        max_length=3,
        description="3 sentences the user may once have said in passing",
    )


class GoalPlan(_Brief):
    """What a request is, what memory has to show for it, and what speaks against it."""

    intent: Literal["lookup", "act", "vague", "chat"] = "lookup"
    facts: Annotated[
        list[Alias], Field(max_length=40, description="all the answer needs")
    ] = []
    rows: Annotated[
        list[NewRow], Field(max_length=40, description="if several are asked for")
    ] = []
    look_for: list[Statement] = Field(
        [], max_length=6, description="of a list: sentences that tell of a further item"
    )
    sure: Annotated[bool, Field(description="no link or value is missing")] = False
    start: Annotated[Time, Field(description="ISO; of how long: the first day")] = ""
    end: Annotated[Time, Field(description="ISO; of how long: the last day")] = ""
    recurrence: Annotated[
        str, Field(max_length=120, description="RRULE"), NEVER_CUT
    ] = ""
    against: list[FactAgainst] = Field([], max_length=8)
    risks: list[NewRisk] = Field([], max_length=5)
    subgoals: Annotated[
        list[NewSubgoal], Field(max_length=6, description="if not sure")
    ] = []
    answer: list[VariableName] = Field(
        [], max_length=6, description="variables asked for"
    )
    central: Annotated[list[Name], Field(max_length=8)] = []


class DroppedRow(_Brief):
    """A row that does not belong."""

    row: int
    why: Annotated[Statement, Field(description="one short sentence")]


class FurtherItems(_Brief):
    """What further facts add to a list, and what does not belong to it."""

    rows: Annotated[list[NewRow], Field(max_length=40, description="new ones")] = []
    drop: list[DroppedRow] = Field([], max_length=12)
    facts: Annotated[list[Alias], Field(max_length=40)] = []
    sure: bool = False
    look_for: list[Statement] = Field([], max_length=4)


class ProposedBinding(_Brief):
    """A variable, what it stands for, and the facts that say so."""

    variable: VariableName
    entity: Annotated[str, Field(max_length=120), _OneLine]
    facts: Annotated[list[Alias], Field(max_length=6)]
    row: Annotated[int, Field(description="if several: 1, 2, …; else 0")] = 0


class ProposedProof(_Brief):
    """A statement that facts entail."""

    subgoal: Alias
    facts: Annotated[list[Alias], Field(max_length=6)]


class RefinedSubgoal(NewSubgoal):
    """A statement that would help to prove an open one."""

    for_subgoal: Annotated[Alias, Field(description="the open statement")]


class Unification(_Brief):
    """What the facts, taken together, prove, and what to look for next."""

    bindings: Annotated[list[ProposedBinding], Field(max_length=24)] = []
    grounded: Annotated[list[ProposedProof], Field(max_length=12)] = []
    disagree: Annotated[list[VariableName], Field(max_length=6)] = []
    drop: list[DroppedRow] = Field([], max_length=12)
    keep: list[Alias] = Field(
        [], max_length=12, description="other facts that may be a link"
    )
    look_for: list[RefinedSubgoal] = Field([], max_length=8)


class Consequences(_Brief):
    """Which of the facts really speak against doing what is asked."""

    against: list[FactAgainst] = Field([], max_length=8)


class GroundedAnswer(Answer):
    """An answer from facts that were shown."""

    known: bool
    answer: Annotated[str, Field(max_length=1_200)] = ""
    facts: Annotated[list[Alias], Field(max_length=12)] = []


class TrackEdit(_Brief):
    """What changes in a topic track, or a new one."""

    name: Name = Field(description="the track's name; of a new one words-with-hyphens")
    title: Name = Field("", description="a few words; empty: as before")
    summary: Sentence = Field("", description="one sentence: where things stand now")
    append: str = Field(
        "", max_length=4_000, description="sentences to add at the narrative's end"
    )
    narrative: str = Field(
        "",
        max_length=4_000,
        description="the whole story, at most 2,000 characters; only of a new track "
        "or one"
        " whose narrative is shown; empty: as before",
    )
    evidence: list[Alias] = Field(
        [], max_length=40, description='records it rests on, as ["r1"]'
    )
    absorbs: list[Name] = Field(
        [], max_length=4, description="names of tracks that end in it"
    )


class TopicRound(_Brief):
    """The tracks that change; tracks that are not named stay as they are."""

    tracks: Annotated[list[TrackEdit], Field(max_length=20)]


class ProfileText(_Brief):
    """The whole profile."""

    text: Annotated[str, NEVER_CUT] = Field(
        max_length=2_000, description="Markdown, at most 2,000 characters"
    )
    topics: list[Name] = Field(
        [], max_length=20, description="names of the tracks that it rests on"
    )


class Taken(_Brief):
    """Where one single value, or a part of it, was taken from."""

    path: Annotated[
        str, Field(max_length=400, description="seat, guest.email, lines.0.amount")
    ]
    fact: Annotated[Alias, Field(description="f0 is the request")]
    quote: Annotated[str, NEVER_CUT] = Field(
        max_length=1_000, description="the exact words of that fact"
    )


class Gap(_Brief):
    """An argument that is needed and that nothing says."""

    path: Annotated[str, Field(max_length=400, description="seat, guest.email")]
    said: list[Annotated[str, Field(max_length=300)]] = Field(
        [],
        max_length=3,
        description="sentences in which the user may have said it, with the names "
        "that are known by now",
    )

    @model_validator(mode="before")
    @classmethod
    def _of_path(cls, given: Any) -> Any:
        """A path alone is enough."""
        return {"path": given} if isinstance(given, str) else given


class ToolFill(_Brief):
    """The arguments of a tool call, each with where it comes from."""

    arguments: Annotated[str, BeforeValidator(_as_json), NEVER_CUT] = Field(
        max_length=20_000,
        description="one JSON object, in the form of the tool's schema",
    )
    sources: list[Taken] = Field(
        [], max_length=400, description="for every single value"
    )
    missing: list[Gap] = Field(
        [],
        max_length=400,
        description="what is needed and unsaid, or what facts dispute",
    )


class ToolChoice(Answer):
    """The tool that the request needs."""

    tool: Alias
