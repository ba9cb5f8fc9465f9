"""All settings, in groups, each with its default, its unit and the origin of its
number.
"""

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from langmem_graph.errors import InvalidInputError, explain

EVENT_MINUTES = 60
RankingMethod = Literal["hybrid", "rrf", "dense", "words"]
"""`hybrid`: fitted linear score. `rrf`: weight-free fusion. `dense`, `words`: one
signal alone.
"""


class Options(BaseModel):
    """Base of what an application sets; the errors show the class's example, if it has
    one.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True
    )
    example: ClassVar[str] = ""

    if not TYPE_CHECKING:  # type checkers know the fields

        def __init__(self, **given: Any) -> None:
            try:
                super().__init__(**given)
            except ValidationError as error:
                shown = f". As in {self.example}" if self.example else ""
                raise InvalidInputError(
                    f"{type(self).__name__}: {explain(error)}{shown}"
                ) from None


class _Group(Options):
    """A group of settings."""


class RankingSettings(_Group):
    """How searches find and rank."""

    method: RankingMethod = "hybrid"
    """How searches rank; the weights' origin is in docs/ranking.md."""
    dense_candidates: int = Field(200, ge=1)
    """Nearest vectors taken before ranking; measured, docs/ranking.md."""
    word_candidates: int = Field(400, ge=1)
    """Best word matches taken before ranking; measured."""
    session_age_weight: float = -0.15
    """How much `by='session'` prefers recent sessions. Fits RealMem's ongoing projects;
    0 suits questions that look far back.
    """
    rrf_k: int = Field(60, ge=1)
    """Constant of reciprocal rank fusion (NapMem, 5.3)."""


class ContextSettings(_Group):
    """What a recall considers, and how long its context may be."""

    k: int = Field(20, ge=1)
    """Messages a recall considers (ActMem, 1.3)."""
    max_tokens: int = Field(1_500, ge=100)
    """Budget of `Recall.context`; ours."""
    excerpt_tokens: int = Field(220, ge=20)
    """Longest quote of one message in a context; about one piece."""
    others_share: float = Field(0.8, ge=0, le=1)
    """Of the budget, what words of others than the user may take, the assistant
    included; ours.
    """
    foreign_share: float = Field(0.5, ge=0, le=1)
    """Of the budget, and of the messages considered, what tools and imports may take;
    ours.
    """


class ExtractionSettings(_Group):
    """How a model reads messages, and how records are linked."""

    max_calls: int = Field(8, ge=1)
    """Model calls of one batch; ours."""
    max_tokens: int = Field(60_000, ge=1_000)
    """Tokens of those calls together."""
    call_seconds: float = Field(180.0, gt=0)
    """Time limit of one model call; of a full batch, an answer has 8,000 tokens."""
    message_chars: int = Field(8_000, ge=200)
    """Of a longer message the model is shown the beginning and the end."""
    records_shown: int = Field(30, ge=0)
    """Older records shown while extracting, so that they can change, for each 2,000
    tokens of messages; ours.
    """
    records_reconciled: int = Field(40, ge=1)
    """Further records shown in the second call of a batch; ours."""
    cluster_max_distance: float | None = None
    """Cosine distance to a cluster's centroid within which a record joins it. None is
    calibrated on the user's own records, as ActMem's 0.2 belongs to another embedder.
    """
    semantic_floor: float | None = None
    """Cosine of two records from which they get an edge; ActMem's is 0.3. None is
    calibrated on the user's own records.
    """
    causal_floor: float | None = None
    """What a causal score must exceed; None is the scorer's own default."""
    daily_tokens: int | None = Field(None, ge=0)
    """Tokens of a user's model calls on one day (UTC), recall included, after which no
    message is read until the next day; None is no limit.
    """
    debounce_seconds: float = Field(1.0, ge=0)
    """The background worker waits this long for more turns to come."""


class ReasoningSettings(_Group):
    """The goal loop, the counterfactual step, and what they may cost."""

    subgoals: int = Field(4, ge=1, le=6)
    """Subgoals a request is split into; ours."""
    depth: int = Field(2, ge=0)
    """Rounds of refinement (Goal-Mem's D_max, value unknown); ours."""
    breadth: int = Field(1, ge=1)
    """Ways to split a request that are tried (Goal-Mem's B_max: 1 is enough)."""
    subgoal_facts: int = Field(6, ge=1)
    """Facts looked up for one subgoal; ours."""
    plan_facts: int = Field(80, ge=1)
    """Best facts shown to the planning call; measured, docs/reasoning.md."""
    plan_tokens: int = Field(4_000, ge=200)
    """Tokens of these facts together; ours."""
    round_facts: int = Field(40, ge=1)
    """Facts shown to the model in one round; ours."""
    refinements: int = Field(2, ge=1)
    """Refinements of one open subgoal in one round; ours."""
    same_goal: float = 0.92
    """Likeness from which a refinement repeats an earlier one; ours."""
    risks: int = Field(5, ge=1, le=5)
    """Risks looked for per request (ActMem)."""
    risk_facts: int = Field(10, ge=1)
    """Facts looked up for them (ActMem 1.3)."""
    risk_floor: float = 0.3
    """Cosine from which a fact found for a risk is examined; for MiniLM, ours."""
    graph_facts: int = Field(8, ge=0)
    """Facts added along the graph's edges; ActMem measured 5.21 a query."""
    use_goals: bool = True
    """False: reasoning without the goal loop."""
    use_counterfactual: bool = True
    """False: without the counterfactual step."""
    use_causal_edges: bool = True
    """False: causal edges are not followed."""
    use_semantic_edges: bool = True
    """False: semantic edges are not followed."""
    semantic_edge_floor: float = -1.0
    """Semantic edges with a lower cosine are not followed; ActMem compares 0.3, 0.5 and
    0.7.
    """
    use_profile: bool = True
    """False: the context leaves the profile out."""
    max_calls: int = Field(10, ge=1)
    """Model calls of one recall at most, with repairs; mostly 1 to 5 are made."""
    max_tokens: int = Field(40_000, ge=1_000)
    """Tokens of those calls together."""
    seconds: float = Field(60.0, gt=0)
    """After this long a recall comes back with what it has."""
    call_seconds: float = Field(20.0, gt=0)
    """Time limit of one model call."""


class StorageSettings(_Group):
    """Sizes, batches and time limits of the ledger and the index."""

    embed_batch: int = Field(64, ge=1)
    """Texts given to the embedder at once; ours."""
    index_batch: int = Field(512, ge=1, le=5_461)
    """Messages whose vectors wait, exactly searched, before Chroma gets them in one
    write.
    """
    max_message_chars: int = Field(2_000_000, ge=1)
    """Longer messages are refused."""
    max_record_chars: int = Field(4_000, ge=1)
    """Longer records are refused; ours."""
    max_pieces: int = Field(64, ge=1)
    """Pieces of one message that get vectors; its words are all indexed."""
    max_open_users: int = Field(64, ge=1)
    """User folders open at once; ours."""
    busy_timeout_seconds: float = Field(30.0, gt=0)
    """Wait for a locked ledger."""
    lease_seconds: float = Field(120.0, gt=0)
    """After this long another process may redo claimed embedding work."""
    closing_seconds: float = Field(10.0, ge=0)
    """How long `close` works on what is due, and with `erase` waits for calls."""


class KeepDays(_Group):
    """How long memory keeps; None is for ever. See docs/scopes.md."""

    example = "messages=365, records=180"

    messages: int | None = Field(None, ge=1, strict=True)
    """Days after which a message expires, from when it was said."""
    records: int | None = Field(None, ge=1, strict=True)
    """Days after which a record expires, from when a message last said it; at most as
    long as messages, since a record goes with the last message that says it.
    """

    @model_validator(mode="after")
    def _fit(self) -> Self:
        if self.records and self.messages and self.records > self.messages:
            raise ValueError("a record rests on messages: keep these at least as long")
        return self


class Settings(_Group):
    """Settings of a `Memory`. Frozen; unknown names are refused.

    Examples:
        ```python
        settings = Settings(context=ContextSettings(k=10), time_zone="Europe/Madrid")
        memory = Memory("./memory", settings=settings)
        ```
    """

    ranking: RankingSettings = RankingSettings()
    context: ContextSettings = ContextSettings()
    extraction: ExtractionSettings = ExtractionSettings()
    reasoning: ReasoningSettings = ReasoningSettings()
    storage: StorageSettings = StorageSettings()
    keep_days: KeepDays = KeepDays()
    """For users who have no `keep_days` of their own."""

    embed_seconds: float = Field(20.0, gt=0)
    """Time limit of one call of the embedder; then words alone find."""
    authorize_seconds: float = Field(5.0, gt=0)
    """Time limit of `authorize`, which says who may use a shared room; then the answer
    is no.
    """
    encoding: str = "o200k_base"
    """tiktoken encoding that counts tokens."""
    structured_method: (
        Literal["json_schema", "function_calling", "json_mode"] | None
    ) = None
    """How the model is asked for structured answers; None is its own default."""
    event_minutes: int = Field(EVENT_MINUTES, ge=1)
    """Length of an appointment whose end nobody named; ours."""
    time_zone: str | None = None
    """IANA time zone of the users, such as Europe/Madrid: times that are said without a
    zone are in it. None is UTC.
    """

    @field_validator("time_zone")
    @classmethod
    def _known_zone(cls, name: str | None) -> str | None:
        try:
            if name is not None:
                ZoneInfo(name)
        except (KeyError, ValueError, OSError) as error:  # unknown, a path, a folder
            raise ValueError(
                f"{name!r} is no time zone; give a name like Europe/Madrid"
            ) from error
        return name
