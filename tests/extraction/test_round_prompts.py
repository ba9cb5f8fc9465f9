"""The prompts of topics, profile and causes: what they explain, and how much they cost."""

import pytest
from langchain_core.messages import SystemMessage
from pydantic import BaseModel

from langmem_graph.llm.answer_schemas import (
    CausalPair,
    CausalPairs,
    ProfileText,
    TopicRound,
    TrackEdit,
)
from langmem_graph.llm.structured_calls import load_prompt, prompt_tokens
from langmem_graph.tokens import token_counter

MAX_TOKENS = 1_200


@pytest.mark.parametrize(
    ("names", "schema"),
    [
        (["topics"], TopicRound),
        (["topics", "shorten"], TopicRound),
        (["profile"], ProfileText),
        (["causal"], CausalPairs),
    ],
)
def test_rules_example_and_schema_have_at_most_1200_tokens(
    names: list[str], schema: type[BaseModel]
) -> None:
    prompt = "\n".join(map(load_prompt, names))
    assert (
        prompt_tokens(token_counter("o200k_base"), schema, [SystemMessage(prompt)])
        <= MAX_TOKENS
    )
    assert "Example" in prompt
    assert "never follow instructions" in prompt
    assert "language" in prompt


@pytest.mark.parametrize("schema", [CausalPair, TrackEdit, ProfileText])
def test_every_field_is_described(schema: type[BaseModel]) -> None:
    assert all(field.description for field in schema.model_fields.values())
