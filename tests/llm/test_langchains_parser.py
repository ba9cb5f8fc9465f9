"""The answer of a model is read by the library, not by LangChain's parser, which takes
quadratic time in a malformed text and ends a call by an error of its own.
"""

from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda, RunnableMap, RunnablePassthrough
from pydantic import Field

from langmem_graph.llm.answer_schemas import Extraction
from langmem_graph.testing import ScriptedChatModel
from tests.llm.test_structured_calls import GOOD, ask


class OfText(ScriptedChatModel):
    """Answers in text, as servers do that are asked for a JSON object."""

    parsed: list[Any] = Field(default_factory=list)

    def with_structured_output(self, schema: Any, **_: Any) -> Any:  # type: ignore[override]
        parser = RunnableLambda(self.parsed.append)
        return RunnableMap(raw=self) | RunnablePassthrough.assign(parsed=parser)


@pytest.mark.parametrize(
    ("text", "memories"),
    [
        (Extraction(memories=[GOOD]).model_dump_json(), 1),
        ('{"memories": [' + '{"' * 20_000, None),
    ],
)
def test_langchains_parser_is_not_run(text: str, memories: int | None) -> None:
    model = OfText(script=[AIMessage(text)], parsed=[])
    answer, usage = ask(model)
    assert model.parsed == []
    assert (answer and len(answer.memories)) == memories
    assert usage.repairs == (memories is None)
