"""The second round of searches: what is newer than the best facts, and the people they name."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from langmem_graph.grounding.select_tool_and_sources import MOST_NAMED, NEWER, followed
from langmem_graph.results import Fact


def fact(name: str, day: int, text: str) -> Fact:
    at = datetime(2026, 3, day, tzinfo=UTC)
    return Fact(id=name, kind="message", text=text, message_ids=[name], at=at)


async def test_newer_facts_and_people_are_searched_for() -> None:
    old, new = (
        fact("a", 1, "We met Eilidh on Monday in March."),
        fact("b", 2, "Not then."),
    )
    surname, asked = fact("c", 1, "Eilidh MacRae"), list[tuple[str, str]]()

    async def search(query: str, k: int, relation: str, run: Any) -> list[Fact]:
        asked.append((query, relation))
        assert k > NEWER or query != old.text  # it finds itself too
        return [old, new] if query == old.text else [surname]

    deps: Any = SimpleNamespace(search=search)
    found = await followed(deps, run=None, best={"a": old})  # type: ignore[arg-type]
    assert found == [[new], [surname], [surname]]
    assert [relation for _, relation in asked] == ["semantic", "semantic", "entity"]
    assert "Eilidh" in asked[1][0]
    assert "Monday" not in " ".join(query for query, _ in asked[1:])


async def test_people_named_as_often_are_searched_for_in_the_order_of_the_text() -> (
    None
):
    names = [f"N{letter}" for letter in "qwertyuiopasdf"]
    asked = list[str]()

    async def search(query: str, k: int, relation: str, run: Any) -> list[Fact]:
        if relation == "entity":
            asked.append(query)
        return []

    text = f"With us were {', '.join(names)}."
    deps: Any = SimpleNamespace(search=search)
    await followed(deps, run=None, best={"a": fact("a", 1, text)})  # type: ignore[arg-type]
    assert asked == names[:MOST_NAMED]
