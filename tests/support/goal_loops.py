"""Runs of the goal loop over a small list of texts."""

from typing import Any

from langmem_graph.graphs.goal_graph import create_goal_graph
from tests.support.goals import ASKED, search
from tests.support.models import AnswersBySchema
from tests.support.settings import nested


def prove(
    model: AnswersBySchema, find: Any = search, query: str = ASKED, **options: Any
) -> dict[str, Any]:
    settings = nested(**{"reasoning__subgoal_facts": 2, **options})
    graph = create_goal_graph(find, model=model, settings=settings)
    return graph.invoke({"query": query})


def steps(model: AnswersBySchema) -> list[str]:
    return [name for name, _ in model.asked]
