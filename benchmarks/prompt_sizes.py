"""The command `python -m benchmarks prompts`: tokens of what each call of a model sends
each time.

Rules are the system text, and the schema is what the model must answer in; both go with
every call.
"""

import argparse
import json
from collections.abc import Sequence

from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel

from benchmarks.common import console
from langmem_graph.extraction.extract_records import extract_prompt
from langmem_graph.llm.answer_schemas import (
    CausalPairs,
    Extraction,
    ProfileText,
    Reconciliation,
    TopicRound,
)
from langmem_graph.llm.structured_calls import load_prompt
from langmem_graph.tokens import token_counter

WRITING: tuple[tuple[type[BaseModel], str], ...] = (
    (Extraction, extract_prompt("extract")),
    (Reconciliation, extract_prompt("reconcile")),
    (CausalPairs, load_prompt("causal")),
    (TopicRound, load_prompt("topics")),
    (ProfileText, load_prompt("profile")),
)
"""The calls of the write path."""


def main(words: Sequence[str]) -> None:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks prompts", description=__doc__
    )
    made.add_argument(
        "--encoding", default="o200k_base", help="tiktoken's name of an encoding"
    )
    counter = token_counter(made.parse_args(words).encoding)
    console.print("| call | rules | schema | together |\n| --- | ---: | ---: | ---: |")
    for schema, rules in WRITING:
        shape = json.dumps(
            convert_to_openai_tool(schema), ensure_ascii=False, separators=(",", ":")
        )
        sizes = counter.count(rules), counter.count(shape)
        console.print(f"| {schema.__name__} | {sizes[0]} | {sizes[1]} | {sum(sizes)} |")
    console.print(
        "exact" if counter.exact else "estimated, on the high side: no table of tokens"
    )
