"""The input of a rollout (a question) and its result (a navigation)."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from langmem_graph.errors import InvalidInputError, explain

Layer = Literal["messages", "records", "topics", "profile"]
"""The layers of memory, from exact to broad."""
Finish = Literal["answered", "over_budget", "no_answer", "token_limit", "model_error", "unfinished"]
"""`over_budget`: tools were called after the last turn. `no_answer`: the last text was unusable.
`token_limit`: the model was not called again. `model_error`: a call of the model failed.
`unfinished`: the rollout is running or was abandoned."""
Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]


class NavigationModel(BaseModel):
    """Base of the models of this package: frozen, without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class QuestionItem(NavigationModel):
    """A question about one user, with its gold answers and evidence."""

    user_id: Text
    question: Text
    id: str = ""
    answers: list[str] = Field(default_factory=list)
    """Gold answers; each of them is correct."""
    evidence: list[str] = Field(default_factory=list)
    """Ids of the messages, and if known the records, that contain the answer."""
    needs_memory: bool = True
    """False where the question can be answered without this user's memory."""


class ToolUse(NavigationModel):
    """One call of a memory tool, and the ids that its result showed."""

    name: str
    arguments: dict[str, Any]
    turn: int
    layer: Layer | None = None
    """None where the call failed."""
    message_ids: list[str] = Field(default_factory=list)
    """Messages that were quoted, and messages named as a record's source."""
    record_ids: list[str] = Field(default_factory=list)
    error: str | None = None


class Navigation(NavigationModel):
    """The result of one rollout: the question, the tool calls and the answer."""

    user_id: str
    question: str
    answer: str = ""
    reason: str = ""
    well_formed: bool = False
    """The answer was the required JSON object."""
    finish: Finish = "unfinished"
    tool_calls: list[ToolUse] = Field(default_factory=list)
    turns: int = 0
    """The policy's messages that were not an answer."""
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
        calls = self.tool_calls
        return frozenset(shown for use in calls for shown in (*use.message_ids, *use.record_ids))


def read_item(given: QuestionItem | Mapping[str, Any]) -> QuestionItem:
    """The item, or an `InvalidInputError` that names what is wrong with it."""
    try:
        return QuestionItem.model_validate(given)
    except ValidationError as error:
        raise InvalidInputError(f"Not a question item: {explain(error)}.") from error
