"""`create_goal_graph`: Goal-Mem's backward chaining over any retriever, ours or not."""

import asyncio
import hashlib
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langgraph.graph.state import CompiledStateGraph

from langmem_graph.config import Settings
from langmem_graph.errors import InvalidInputError
from langmem_graph.intake import to_utc
from langmem_graph.llm.chat_model import as_chat_model
from langmem_graph.llm.contracts import Relation
from langmem_graph.llm.structured import Asker, Limits
from langmem_graph.models import Fact
from langmem_graph.recall.goals import graph
from langmem_graph.recall.goals.state import GoalTools
from langmem_graph.recall.memory_search import spelling
from langmem_graph.steps import Call

SearchFunction = Callable[[str, int], Sequence[Any] | Awaitable[Sequence[Any]]]
"""Takes a query and how many; gives texts, dicts with `text`, or LangChain documents."""
_DATES = ("at", "date", "timestamp", "created_at")


def create_goal_graph(
    retriever: BaseRetriever | SearchFunction, *, model: Any, settings: Settings | None = None
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The goal loop alone, over a memory that need not be ours: `init, retrieve, unify, refine`.

    Its input is `{"query": "…"}`, and optionally `now` (ISO time) and `recalled` (facts found
    already). Its output has `proof` (subgoals, bindings, facts, conflicts, status), `usage` and
    `trace`. It works under `invoke`, `ainvoke`, `stream` and `astream`.

    Example:
        ```python
        goals = create_goal_graph(retriever, model="openai:gpt-4o-mini")
        proof = goals.invoke({"query": "What gift did my brother's wife like?"})["proof"]
        print(proof["status"], proof["bindings"])
        ```

    Args:
        retriever: any LangChain retriever, or a function of a query and a number, sync or async,
            that gives texts, dicts with `text` (and `id`, `at`), or documents, best first.
        model: a chat model, or a name that `init_chat_model` takes.
        settings: `goal_depth`, `goal_breadth`, `goal_subgoals`, `goal_k` and the budget
            `recall_calls`, `recall_tokens`, `recall_seconds`, among others.

    Raises:
        InvalidInputError: neither a retriever nor a function, or no model.
    """
    if not isinstance(retriever, BaseRetriever) and not callable(retriever):
        raise InvalidInputError(
            "create_goal_graph takes a LangChain retriever or a function search(query, k), not "
            f"{type(retriever).__name__}."
        )
    chosen = settings or Settings()
    limits = Limits(chosen.recall_calls, chosen.recall_tokens, chosen.recall_call_seconds)
    asker = Asker(as_chat_model(model), chosen.structured_method, limits, chosen.encoding)

    async def search(query: str, k: int, relation: Relation, call: Call) -> list[Fact]:
        return [_fact(one) for one in (await _look(retriever, query, k, call))[:k]]

    return graph.build(GoalTools(asker, chosen, search, _likeness), lambda config: "")


async def _likeness(text: str, others: Sequence[str], call: Call) -> float:
    return spelling(text, others)


async def _look(
    retriever: BaseRetriever | SearchFunction, query: str, k: int, call: Call
) -> list[Any]:
    if isinstance(retriever, BaseRetriever):
        return list(await retriever.ainvoke(query, call.config))
    if inspect.iscoroutinefunction(retriever):
        return list(await retriever(query, k))
    found = await asyncio.to_thread(retriever, query, k)
    return list(await found if inspect.isawaitable(found) else found)


def _fact(found: Any) -> Fact:
    """A search's answer as a fact; without an id of its own the text gives it one."""
    if isinstance(found, Fact):
        return found
    if isinstance(found, Document):
        fields = {**found.metadata, "text": found.page_content}
        fields |= {"id": found.id} if found.id else {}
    else:
        fields = dict(found) if isinstance(found, Mapping) else {"text": str(found)}
    text = str(fields.get("text") or fields.get("page_content") or "")
    own = fields.get("id") or hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
    return Fact(id=str(own), text=text, at=_when(fields))


def _when(fields: Mapping[str, Any]) -> Any:
    for name in _DATES:
        if fields.get(name):
            try:
                return to_utc(fields[name])
            except InvalidInputError:  # another store's own form of a date: undated is still a fact
                continue
    return None
