"""Other tools beside the right one, by chance and by likeness (Mem2ActBench 5.4)."""

import random
from dataclasses import replace

import numpy as np
from langchain_core.embeddings import Embeddings

from benchmarks.data.items import DataSet, Question, ToolGoal
from langmem_graph.errors import InvalidInputError

RANDOM, HARD = "random", "hard"


def with_distractors(data: DataSet, embeddings: Embeddings, most: int) -> DataSet:
    """The data set with other tools of its own at every request, at least so many.

    Args:
        data: its requests name the tools.
        embeddings: tell which tools are alike, by name, description and parameters.
        most: the largest number that will be offered.

    Raises:
        InvalidInputError: no requests for tools, or too few tools.
    """
    every = [question for talk in data.conversations for question in talk.questions]
    library = {question.goal.name: question.goal for question in every if question.goal}
    if len(library) <= most:
        raise InvalidInputError(
            f"{data.title} has {len(library)} tools, too few for {most} beside the "
            "right one."
        )
    tools = list(library.values())
    vectors = np.asarray(embeddings.embed_documents([_described(one) for one in tools]))
    vectors = vectors / np.maximum(
        np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12
    )
    alike = dict(zip(library, vectors @ vectors.T, strict=True))
    talks = [
        replace(talk, questions=[_beside(one, tools, alike) for one in talk.questions])
        for talk in data.conversations
    ]
    return replace(data, conversations=talks)


def _described(tool: ToolGoal) -> str:
    parameters = tool.parameters.get("properties") or {}
    about = [
        f"{name} {one.get('description', '')}".strip()
        for name, one in parameters.items()
    ]
    return f"{tool.name}: {tool.description} ({', '.join(about)})"


def _beside(
    question: Question, tools: list[ToolGoal], alike: dict[str, np.ndarray]
) -> Question:
    """Both kinds in the order in which they are offered: shuffled, and the most alike
    first.
    """
    if question.goal is None:
        return question
    near = np.argsort(-alike[question.goal.name], kind="stable").tolist()
    hard = [tools[place] for place in near if tools[place].name != question.goal.name]
    shuffled = sorted(hard, key=lambda tool: tool.name)
    random.Random(f"distractors of {question.id}").shuffle(shuffled)  # no secret
    return replace(question, distractors={RANDOM: tuple(shuffled), HARD: tuple(hard)})
