"""What goes into a navigation and what comes out of it."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Layer = Literal["messages", "records", "topics", "profile"]
"""The pyramid's layers, from exact to broad."""
Finish = Literal["answered", "over_budget", "no_answer", "token_limit", "model_error", "unfinished"]
"""`over_budget`: asked memory again after its last turn. `no_answer`: then said nothing usable.
`token_limit`, `model_error`: the model was not, or could not be, called again. `unfinished`: the
episode still runs, or was left."""
Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class QuestionItem(_Model):
    """A question about one user, and what is known of its answer."""

    user_id: Text
    question: Text
    id: str = ""
    answers: list[str] = Field(default_factory=list)
    """Any of them is right."""
    evidence: list[str] = Field(default_factory=list)
    """Ids of the messages, and where known the records, that hold the answer."""
    needs_memory: bool = True
    """False where the question can be answered without this user's memory."""


class ToolUse(_Model):
    """One call of a memory tool, and what it showed."""

    name: str
    arguments: dict[str, Any]
    turn: int
    layer: Layer | None = None
    """None where the call failed."""
    message_ids: list[str] = Field(default_factory=list)
    """Messages that were quoted, and messages named as a record's source."""
    record_ids: list[str] = Field(default_factory=list)
    error: str | None = None


class Navigation(_Model):
    """A question, the way through memory, and the answer."""

    user_id: str
    question: str
    answer: str = ""
    reason: str = ""
    well_formed: bool = False
    """The answer came as the JSON object that was asked for."""
    finish: Finish = "unfinished"
    tool_calls: list[ToolUse] = Field(default_factory=list)
    turns: int = 0
    """The model's messages that were no answer."""
    input_tokens: int = 0
    output_tokens: int = 0
    tokens_exact: bool = True
    """False where the server counts no tokens and they were estimated."""
    milliseconds: float = 0.0
    problems: list[str] = Field(default_factory=list)
    messages: list[dict[str, Any]] = Field(default_factory=list)
    """The whole conversation in OpenAI's format."""

    @property
    def shown(self) -> frozenset[str]:
        """Ids of all messages and records that were shown."""
        ids = (one for use in self.tool_calls for one in (*use.message_ids, *use.record_ids))
        return frozenset(ids)
