"""Tool calls filled from a user's own memory and shared rooms together."""

import asyncio
import importlib
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from langmem_graph.graphs import create_grounding_graph
from langmem_graph.memory import Memory
from langmem_graph.rooms import shared_name
from langmem_graph.storage.tables import owner_of
from tests.conftest import let_go, said
from tests.support.flights import alias, answer
from tests.support.models import AnswersBySchema


class Ship(BaseModel):
    """Ships goods."""

    carrier: str
    weight: int


TEAM, OWN = "We always ship with Pelican Freight.", "My parcel weighs 12 kg."


def fill(question: str) -> dict[str, Any]:
    rows = [("weight", alias(question, OWN), "12 kg")]
    if TEAM in question:
        rows.append(("carrier", alias(question, TEAM), "Pelican Freight"))
    return answer({"carrier": "Pelican Freight", "weight": 12}, *rows)


@pytest.mark.parametrize(
    ("writer", "is_async"), [("bob", False), ("bob", True), ("ana", False)]
)
def test_what_others_wrote_is_offered_with_room_and_author(
    tmp_path: Path, writer: str, is_async: bool
) -> None:
    model, asked = AnswersBySchema(ToolFill=fill), list[tuple[str, str, str]]()

    def allowed(*who: str) -> bool:
        asked.append(who)  # type: ignore[arg-type]
        return who[1] == "team"

    memory = Memory(tmp_path, model=model, embeddings="hash", authorize=allowed)
    memory.shared("team", as_user=writer).add(
        said(TEAM, id="m1"), session_id="s", at="2025-01-01"
    )
    ana: Any = memory.user("ana", shared=["team", "shop"])
    # the same id in both rooms
    ana.add(said(OWN, id="m1"), session_id="s", at="2025-01-02")
    asked.clear()
    request = "Ship my parcel as we always do."
    call = (
        asyncio.run(ana.aground(Ship, request))
        if is_async
        else ana.ground(Ship, request)
    )
    assert sorted(asked) == [("ana", "shop", "read"), ("ana", "team", "read")]
    assert call.warnings[0].startswith("the shared room 'shop' was left out")
    assert call.arguments["weight"] == 12
    assert call.grounding["weight"].rooms == {}
    (question,) = [text for name, text in model.asked if name == "ToolFill"]
    (line,) = [line for line in question.splitlines() if TEAM in line]
    if writer == "bob":
        assert "carrier" not in call.arguments
        offered = call.offered["carrier"]
        assert (offered.value, offered.origin) == ("Pelican Freight", "import")
        assert (offered.rooms, offered.message_ids) == ({"team": "bob"}, ["m1"])
        assert "(not the user's words) bob (shared room team)" in line
        trusting = ana.ground(Ship, request, trust=["user", "import"])
        assert trusting.arguments["carrier"] == "Pelican Freight"
    else:
        # her own words, in that room
        assert call.arguments["carrier"] == "Pelican Freight"
        assert call.grounding["carrier"].rooms == {"team": "ana"}
    alone = memory.user("ana").ground(Ship, request)
    assert "Pelican" not in str(alone)
    let_go(memory)


@pytest.mark.parametrize(
    "place", ["select_tool_and_sources._by_attribute", "evidence_sources.stored_facts"]
)
def test_a_room_that_fails_is_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    model = AnswersBySchema(ToolFill=fill)
    memory = Memory(tmp_path, model=model, embeddings="hash", authorize=lambda *_: True)
    memory.shared("team", as_user="bob").add(said(TEAM, id="m1"), session_id="s")
    ana = memory.user("ana", shared=["team"])
    ana.add(said(OWN, id="m1"), session_id="s")
    module, name = place.split(".")
    real = getattr(importlib.import_module(f"langmem_graph.grounding.{module}"), name)

    def fails(connection: Any, *given: Any) -> Any:
        if shared_name(owner_of(connection)) == "team":
            raise OSError("disk")
        return real(connection, *given)

    monkeypatch.setattr(f"langmem_graph.grounding.{place}", fails)
    call = ana.ground(Ship, "Ship my parcel as we always do.")
    assert [one for one in call.warnings if "team" in one] == [
        "the shared room 'team' was left out: disk"
    ]
    assert call.arguments["weight"] == 12
    let_go(memory)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_graph_offers_what_its_user_may_read(tmp_path: Path, is_async: bool) -> None:
    model, members = AnswersBySchema(ToolFill=fill), ["ana"]
    options: Any = {"model": model, "embeddings": "hash"}
    memory = Memory(
        tmp_path, authorize=lambda u, r, _: u in members and r == "team", **options
    )
    members.append("bob")
    memory.shared("team", as_user="bob").add(
        said(TEAM, id="m1"), session_id="s", at="2025-01-01"
    )
    memory.user("ana").add(
        said(OWN, id="m2"), session_id="s", metadata={"project": "zeus"}
    )
    asked: Any = {"request": "Ship my parcel as we always do."}
    config: Any = {"configurable": {"user_id": "ana"}}

    def call(**given: Any) -> dict[str, Any]:
        model.asked.clear()
        graph = create_grounding_graph(memory, tools=Ship, **given)
        found = asyncio.run(graph.ainvoke(asked, config)) if is_async else graph.invoke(
            asked, config
        )  # fmt: skip
        filled: dict[str, Any] = found["call"]
        return filled

    filled = call(shared=["team", "shop"])
    assert filled["offered"]["carrier"]["value"] == "Pelican Freight"
    assert filled["warnings"][0].startswith("the shared room 'shop' was left out")
    assert "weight" in filled["arguments"]
    call(where={"project": "atlas"})
    assert OWN not in str(model.asked)
    members.clear()  # ana has left the team
    assert "Pelican" not in str(call(shared=["team"])["offered"])
    assert TEAM not in str(model.asked)
    let_go(memory)
