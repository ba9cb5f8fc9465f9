"""`create_goal_graph`: Goal-Mem's backward chaining over any retriever."""

import hashlib
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langgraph.graph.state import CompiledStateGraph

from langmem_graph.errors import InvalidInputError
from langmem_graph.ids_and_times import to_utc
from langmem_graph.llm.chat_models import as_chat_model
from langmem_graph.llm.structured_calls import model_runner
from langmem_graph.reasoning import goal_loop
from langmem_graph.reasoning.state import JSON, GoalDependencies, GoalQuestion
from langmem_graph.results import Fact, Relation
from langmem_graph.retrieval.example_search import spelling
from langmem_graph.retrieval.facts import LONGEST
from langmem_graph.runtime import StepRun
from langmem_graph.settings import Settings
from langmem_graph.threads import in_thread
from langmem_graph.view import own_view

SearchFunction = Callable[[str, int], Sequence[Any] | Awaitable[Sequence[Any]]]
"""Takes a query and how many; gives texts, dicts with `text`, or LangChain
documents.
"""
_log = logging.getLogger(__name__)
_TEXTS = ("text", "page_content", "content")
_DATES = ("at", "date", "timestamp", "created_at")


def create_goal_graph(
    retriever: BaseRetriever | SearchFunction,
    *,
    model: Any,
    settings: Settings | None = None,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The goal loop alone, over any retriever: `plan, further, retrieve, unify,
    refine`.

    Its input is `{"query": "…"}`, and optionally `now` (ISO time) and `recalled` (facts
    found already). Its output has `proof` (subgoals, bindings, facts, conflicts,
    status), `usage` and `trace`. It works under `invoke`, `ainvoke`, `stream` and
    `astream`.

    Examples:
        ```python
        goals = create_goal_graph(retriever, model="openai:gpt-4o-mini")
        result = goals.invoke({"query": "What gift did my brother's wife like?"})
        proof = result["proof"]
        print(proof["status"], proof["bindings"])
        ```

    Args:
        retriever: any LangChain retriever, or a function of a query and a number, sync
            or async, that gives texts, dicts with `text` (and `id`, `at`), or
            documents, best first.
        model: a chat model, or a name that `init_chat_model` takes.
        settings: `Settings.reasoning`: depth, breadth, subgoals, facts and the budget
            `max_calls`, `max_tokens`, `seconds`, among others.

    Raises:
        InvalidInputError: neither a retriever nor a function, or no model.
    """
    if not isinstance(retriever, BaseRetriever) and not callable(retriever):
        raise InvalidInputError(
            "create_goal_graph takes a LangChain retriever or a function "
            "search(query, k), not "
            f"{type(retriever).__name__}."
        )
    if not isinstance(retriever, BaseRetriever):
        _check_arguments(retriever)
    chosen = settings or Settings()
    runner = model_runner(as_chat_model(model), chosen, "recall")

    deps = GoalDependencies(runner, chosen, _Retriever(retriever), alone=True)
    nobody = own_view("")
    return goal_loop.build(
        deps, lambda config: nobody, GoalQuestion, form=JSON, shown=True
    )


def _check_arguments(search: SearchFunction) -> None:
    """Checked here, since the loop takes a search that fails for one that finds
    nothing.
    """
    try:
        inspect.signature(search).bind("query", 1)
    except TypeError as error:
        raise InvalidInputError(
            f"create_goal_graph calls search(query, k), which does not fit: {error}."
        ) from error
    except ValueError:  # built in, without a signature
        return


@dataclass(frozen=True)
class _Retriever:
    """An application's retriever, as the loop looks things up; texts are compared by
    spelling.
    """

    given: BaseRetriever | SearchFunction

    async def search(
        self, query: str, k: int, relation: Relation, run: StepRun
    ) -> list[Fact]:
        results: Any
        if isinstance(self.given, BaseRetriever):
            results = await self.given.ainvoke(query, run.config)
        else:
            results = await in_thread(self.given, query, k)
            results = await results if inspect.isawaitable(results) else results
        is_single = isinstance(results, str | Mapping | Document | Fact)
        return _facts([results] if is_single else list(results or []))[:k]

    async def near(
        self, sentences: Sequence[str], k: int, run: StepRun
    ) -> list[list[Fact]]:
        return [
            await self.search(sentence, k, "semantic", run) for sentence in sentences
        ]

    async def likeness(self, text: str, others: Sequence[str], run: StepRun) -> float:
        return spelling(text, others)


def _facts(results: Sequence[Any]) -> list[Fact]:
    """Search results as facts; those without a text are left out, and equal ids are
    told apart.
    """
    facts: dict[str, Fact] = {}
    for result in results:
        fact = result if isinstance(result, Fact) else _fact(result)
        if not fact.text.strip():
            _log.warning(
                "a search result without a text is left out: %s", type(result).__name__
            )
            continue
        fact_id = fact.id
        if fact_id in facts and facts[fact_id].text != fact.text:
            fact_id = f"{fact_id}#{_hash(fact.text)}"
        facts[fact_id] = fact.model_copy(
            update={"id": fact_id, "text": fact.text[:LONGEST]}
        )
    return list(facts.values())


def _fact(result: Any) -> Fact:
    if isinstance(result, Document):
        fields = {**result.metadata, "text": result.page_content}
        fields |= {"id": result.id} if result.id else {}
    elif isinstance(result, Mapping):
        fields = dict(result)
    else:
        fields = {"text": result if isinstance(result, str) else ""}
    text = next(
        (fields[name] for name in _TEXTS if isinstance(fields.get(name), str)), ""
    )
    return Fact(id=str(fields.get("id") or _hash(text)), text=text, at=_time_of(fields))


def _hash(text: str) -> str:
    """An id for a result that has none."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _time_of(fields: Mapping[str, Any]) -> Any:
    for name in _DATES:
        # another store's own form of a date: go without
        with suppress(InvalidInputError):
            return to_utc(fields.get(name))
    return None
