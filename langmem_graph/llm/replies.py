"""What came of one model call: a usable answer, or why there is none.

LangChain parses an answer where it can. Where it cannot, the text that the model wrote may still
hold the JSON object that was asked for.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Self, TypeVar

from pydantic import BaseModel, ValidationError

from langmem_graph.errors import explain
from langmem_graph.llm.forgiving_answers import Answer, read_text

T = TypeVar("T", bound=BaseModel)
LONGEST_ANSWER = 60_000  # characters; a longer answer is a repetition loop, and not sent back
LONGEST_DETAIL = 200


@dataclass(frozen=True)
class Reply(Generic[T]):
    """What came of one call."""

    answer: T | None = None
    problem: str | None = None  # why there is no answer, without any word of it
    detail: str = ""  # beginning of an unusable answer, or the error; for the report alone
    text: str = ""  # all that the model wrote
    refused: list[str] = field(default_factory=list)  # parts left out or cut

    def checked(self, check: Callable[[T], str | None]) -> Self:
        """The reply, without the answer where the step that asked finds a problem in it."""
        problem = check(self.answer) if self.answer is not None else None
        return self if problem is None else replace(self, answer=None, problem=problem)

    def in_full(self) -> str:
        """The problem with its detail."""
        return f"{self.problem}: {self.detail}" if self.detail else str(self.problem)


def read_reply(schema: type[T], answer: dict[str, Any]) -> Reply[T]:
    """Read an answer from what LangChain parsed, or else from the text that the model wrote."""
    text = text_of(answer.get("raw"))
    if len(text) > LONGEST_ANSWER:
        return Reply(problem=f"the answer has {len(text):,} characters; answer briefly")
    parsed, error = answer.get("parsed"), answer.get("parsing_error")
    if isinstance(parsed, dict):
        text = text or json.dumps(parsed, default=str)
        try:
            parsed = schema.model_validate(parsed)
        except ValidationError as problem:
            error = problem
    if not isinstance(parsed, schema):
        parsed = read_text(schema, text)
    if parsed is None:
        why = explain(error) if isinstance(error, ValidationError) else "no such JSON object"
        detail = text[:LONGEST_DETAIL] or "no answer"
        return Reply(problem=f"not in the schema: {why}", detail=detail, text=text)
    dropped = parsed.dropped if isinstance(parsed, Answer) else []
    if isinstance(parsed, Answer) and not parsed.is_usable():
        nothing = f"nothing in it could be used: {'; '.join(dropped)}"
        return Reply(problem=nothing, text=text, refused=dropped)
    return Reply(parsed, text=text, refused=dropped)


def text_of(raw: Any) -> str:
    """All that a message of the model says: the arguments of its tool calls, and its text."""
    calls = [call["args"] for call in getattr(raw, "tool_calls", None) or []]
    calls += [call["args"] or "" for call in getattr(raw, "invalid_tool_calls", None) or []]
    parts = [one if isinstance(one, str) else json.dumps(one, default=str) for one in calls]
    return "\n".join([*parts, str(getattr(raw, "text", ""))]).strip()
