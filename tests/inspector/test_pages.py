"""What the inspector's pages show, and that it is what the memory's methods say."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from langmem_graph import Memory
from langmem_graph.inspector import rendering
from langmem_graph.reasoning.proof import proof_tree
from langmem_graph.storage import graph_neighbours
from langmem_graph.storage.record_writes import add_link
from langmem_graph.testing import ScriptedChatModel
from tests.conftest import let_go
from tests.support import goals
from tests.support.inspected import (
    ANA,
    BERLIN,
    DAYS,
    HOSTILE,
    PORTO,
    client,
    filled,
    record_of,
)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    with filled(tmp_path_factory.mktemp("seen") / "memory") as memory:
        yield memory


@pytest.fixture
def visitor(seen: Memory) -> TestClient:
    return client(seen)


def page(visitor: TestClient, name: str, status: int = 200, **query: object) -> str:
    answer = visitor.get(f"/{name}", params={"user": ANA, **query})
    assert answer.status_code == status, answer.text
    return answer.text


def words(html: str) -> str:
    """What a reader sees."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def links(html: str) -> list[str]:
    return [unescape(link) for link in re.findall(r'href="([^"]*)"', html)]


def test_people_are_listed_with_sizes_due_work_and_cost(
    seen: Memory, visitor: TestClient
) -> None:
    told = words(visitor.get("/").text)
    held = seen.user(ANA).overview()
    assert held in seen.users()
    assert held.to_read == 5
    cost = seen.user(ANA).usage()
    assert re.search(
        rf"{re.escape(ANA)} 8 3 9 5 0 \d+ \w+ {cost.calls} {cost.tokens}", told
    )


def test_without_a_model_nothing_is_said_to_wait_for_one(tmp_path: Path) -> None:
    with Memory(tmp_path / "memory", embeddings="hash") as memory:
        memory.user(ANA).add([("user", "I live in Porto.")], session_id="s")
        visitor = client(memory)
        assert f"{ANA} 1 1 0 no model 0 – 0 0" in words(visitor.get("/").text)
        told = words(page(visitor, "person"))
        assert "to read – no model so far: nothing is read to embed" in told


def test_a_conversation_shows_what_was_made_of_each_message(
    visitor: TestClient,
) -> None:
    told = words(page(visitor, "conversation", session="new"))
    assert "I moved to Berlin last week." in told
    assert BERLIN in told
    assert "replaces" in told
    assert "I moved to Berlin” " not in told  # quotes are marked up, not typed
    assert "not read yet" in words(
        page(visitor, "conversation", session="<b>hostile</b>")
    )


def test_four_columns_follow_what_is_selected(
    seen: Memory, visitor: TestClient
) -> None:
    everything = page(visitor, "layers")
    assert "Lives in Berlin." in words(everything)
    assert "Home" in words(everything)
    berlin = record_of(seen, BERLIN)
    of_record = page(visitor, "layers", record=berlin)
    assert "I moved to Berlin last week." in words(of_record)
    assert "I have a cat." not in words(of_record)
    assert 'data-key="r0" aria-current="true" data-on="m0 "' in of_record
    of_topic = words(page(visitor, "layers", topic="home"))
    assert BERLIN in of_topic
    assert "dentist" not in of_topic
    of_message = words(page(visitor, "layers", message="p"))
    assert PORTO in of_message
    assert BERLIN not in of_message


def test_records_as_of_a_date_are_those_of_the_api(
    seen: Memory, visitor: TestClient
) -> None:
    for at in ("2026-01-15", "2026-02-15"):
        held = {row["text"] for row in seen.user(ANA).export_records(as_of=at)}
        told = page(visitor, "layers", as_of=at)
        shown = re.findall(r'data-key="r\d+".*?<bdi>(.*?)</bdi>', told, re.DOTALL)
        assert {unescape(text) for text in shown} == held
    chain = words(
        page(visitor, "record", id=record_of(seen, BERLIN), as_of="2026-01-15")
    )
    assert f"{PORTO} superseded until 2026-02-01 held on 2026-01-15" in chain
    assert f"{BERLIN} active did not hold then" in chain


def test_a_record_shows_its_sources_chain_and_history(
    seen: Memory, visitor: TestClient
) -> None:
    html = page(visitor, "record", id=record_of(seen, PORTO))
    told = words(html)
    assert "I live in Porto." in told
    assert f"was replaced on 2026-02-01 ; now: {BERLIN}" in told.replace("01;", "01 ;")
    assert "I moved to Berlin" in told
    history = seen.user(ANA).history(record_of(seen, PORTO))
    assert len(re.findall(r"<tr><td>", html)) == len(history)
    assert f"record?user={rendering.urlencode({'u': ANA})[2:]}&id=" in "".join(
        links(html)
    )


def test_from_a_recalled_quote_one_click_leads_on(
    seen: Memory, visitor: TestClient
) -> None:
    html = page(visitor, "ask", q="Where in Berlin do I live?")
    record = record_of(seen, BERLIN)
    for target in (
        rendering.link("message", user=ANA, id="b"),
        rendering.link("record", user=ANA, id=record),
        rendering.link("record", user=ANA, id=record) + "#history",
    ):
        assert target in links(html)
        assert visitor.get(f"/{target}").status_code == 200
    context = re.search(r'<pre class="context".*?</pre>', html, re.DOTALL)[0]
    asked = seen.user(ANA).recall("Where in Berlin do I live?", k=10)
    assert unescape(re.sub(r"<[^>]*>", "", context)) == asked.context
    assert rendering.link("message", user=ANA, id="b") in links(context)


def test_signals_and_near_misses_are_those_of_the_search(
    seen: Memory, visitor: TestClient
) -> None:
    html = page(visitor, "ask", q="cat")
    hits = seen.user(ANA).search_conversation("cat", 10, explain=True)
    first = re.search(r'<table class="bars">.*?</table>', html, re.DOTALL)[0]
    shown = dict(
        re.findall(r'row">(.*?)</th>.*?<td class="n">(.*?)</td>', first, re.DOTALL)
    )
    assert shown["dense"] == f"{hits[0].signals['dense']:.2f}"
    assert f"score {hits[0].score:.2f}" in words(first)
    assert words(html).count("near miss:") == sum(bool(hit.missed) for hit in hits)


def test_a_proof_is_drawn_as_explain_has_it(tmp_path: Any) -> None:
    answers = {"GoalPlan": goals.PLAN, "Unification": goals.unify}
    model = ScriptedChatModel(answers=answers)
    memory = Memory(tmp_path / "m", embeddings="hash", model=model)
    told = [("user", text) for text in goals.MEMORY]
    memory.user(ANA).add(told, session_id="s")
    visitor = client(memory)
    asked = page(visitor, "ask", q=goals.ASKED)
    csrf = re.search(r'name="csrf" value="(\w+)"', asked)[1]
    form = {"csrf": csrf, "user": ANA, "q": goals.ASKED}
    assert visitor.post("/reason", data=form | {"csrf": "no"}).status_code == 403
    shown = words(visitor.post("/reason", data=form).text)
    found = memory.user(ANA).recall(goals.ASKED, mode="reason", k=10)
    tree = proof_tree(found)
    assert len(tree) == 2
    for goal in tree:
        assert f"proved {goal.atom}" in shown
        for name, entity in goal.bindings.items():
            assert f"{name} = {entity}" in shown
    let_go(memory)


def test_what_speaks_against_an_act_stands_beside_it(visitor: TestClient) -> None:
    asked = page(visitor, "ask", q="Send it to Porto.")
    csrf = re.search(r'name="csrf" value="(\w+)"', asked)[1]
    form = {"csrf": csrf, "user": ANA, "q": "Send it to Porto."}
    shown = words(visitor.post("/reason", data=form).text)
    assert "What speaks against it Ana has moved." in shown


def test_the_schedule_is_an_agenda_with_clashes(
    seen: Memory, visitor: TestClient
) -> None:
    told = words(
        visitor.get(f"/schedule?{rendering.urlencode({'user': ANA})}&{DAYS}").text
    )
    dentist = "2026-03-05 10:00–11:00 Ana sees the dentist."
    assert dentist in told
    assert "at the same time: Ana has the cat vaccinated." in told
    found = seen.user(ANA).schedule("2026-03-01", "2026-03-31")
    assert [one.clashes for one in found] == [["e1"], ["e0"]]
    later = page(visitor, "schedule", since="2026-04-01", until="2026-05-01")
    assert "Nothing is on the schedule" in words(later)


def test_two_dates_stand_side_by_side(seen: Memory, visitor: TestClient) -> None:
    told = words(page(visitor, "compare", first="2026-01-15", second="2026-02-15"))
    ended, added = told.split("Added by")
    assert PORTO in ended
    assert BERLIN in added
    sides = [
        seen.user(ANA).export_records(as_of=at) for at in ("2026-01-15", "2026-02-15")
    ]
    before, after = ({row["record_id"] for row in rows} for rows in sides)
    found = seen.user(ANA).compare("2026-01-15", "2026-02-15")
    assert {one.record_id for one in found.added} == after - before
    assert {one.record_id for one in found.ended} == before - after
    assert found.kept_count == len(before & after)
    page(visitor, "compare", 400, first="2026-02-15", second="2026-01-15")


def test_calls_show_cost_and_what_was_refused(
    seen: Memory, visitor: TestClient
) -> None:
    told = words(page(visitor, "calls", doctor="1"))
    calls = seen.user(ANA).calls()
    refused = [why for call in calls for why in call.refused]
    assert refused
    for why in refused:
        assert " ".join(why.split()) in told
    assert "Nothing needs doing." in told


def test_what_is_near_a_record_is_drawn(memory: Memory) -> None:
    ana = memory.user(ANA)
    ana.add([{"role": "user", "content": "words", "id": "m"}], session_id="s")
    rows = [
        {"text": f"<b>{n}</b>", "source_message_ids": ["m"], "record_id": f"r{n}"}
        for n in range(90)
    ]
    ana.add_records(rows)
    assert "No edge leads from here." in words(page(client(memory), "graph", id="r0"))
    with (
        memory._services.room(ana.id) as room,
        room.database.write_transaction() as connection,
    ):
        graph_neighbours.link_semantically(
            connection, 1, [(n, 1 / n) for n in range(2, 41)], "test"
        )
        graph_neighbours.link_semantically(
            connection, 2, [(n, 0.5) for n in range(41, 91)], "test"
        )
        add_link(
            connection,
            1,
            3,
            graph_neighbours.CAUSAL,
            weight=0.7,
            scorer="",
            origin="test",
        )
    around = ana.neighbours("r0")
    assert len(around.records) == 60
    assert [one.record_id for one in around.records[:3]] == [
        "r0",
        "r2",
        "r1",
    ]  # the strongest edge first
    html = page(client(memory), "graph", id="r0")
    assert html.count("<circle") == 60
    assert html.count('<line class="causal"') == 1
    assert html.count("<line") == len(around.edges)
    assert "<b>" not in html
    assert rendering.link("record", user=ANA, id="r2") in links(html)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_shown_as_text(
    seen: Memory, visitor: TestClient, name: str
) -> None:
    text = HOSTILE[name]
    own = {"user": ANA, "id": name}
    record = record_of(seen, text)
    shown = [
        page(visitor, "message", id=name),
        page(visitor, "conversation", session="<b>hostile</b>"),
        page(visitor, "layers"),
        page(visitor, "record", id=record),
        page(visitor, "ask", q=text),
        page(visitor, "person"),
        page(visitor, "compare", first="2025-01-01"),
        page(visitor, "message", 404, id=text),
        visitor.get("/person", params={"user": text}).text,
    ]
    for html in shown:
        assert "<script>" not in html
        assert "<img" not in html
        assert "<b>" not in html
        assert "pwned</h1>" not in html
        assert "{{ 7" not in html or "{{ 7 * 7 }}" in unescape(html)
        assert not [link for link in links(html) if link.startswith("javascript")]
    assert text in unescape(shown[0])
    plain = visitor.get("/text", params=own)
    assert plain.headers["content-type"] == "text/plain; charset=utf-8"
    assert plain.text == text


def test_every_link_of_every_page_leads_somewhere(
    seen: Memory, visitor: TestClient
) -> None:
    places, todo = set[str](), ["./"]
    while todo:
        place = todo.pop()
        answer = visitor.get(f"/{place.partition('#')[0]}")
        assert answer.status_code == 200, (place, words(answer.text))
        places.add(place)
        if not place.startswith(("static", "schedule")):  # each month leads to another
            found = {link for link in links(answer.text) if not link.startswith("#")}
            todo += sorted(found - places - set(todo))
    assert len(places) > 60


@pytest.mark.parametrize(
    ("place", "status"),
    [
        ("person?user=nobody", 404),
        ("person", 400),
        ("record?user={}&id=none", 404),
        ("message?user={}&id=none", 404),
        ("conversation?user={}&session=none", 404),
        ("compare?user={}&first=once", 400),
        ("nowhere", 404),
        ("text?user={}&id=none", 404),
        ("schedule?user={}&since=9999-12-31", 400),
        (f"person?user={{}}&start={'9' * 5_000}", 200),
    ],
)
def test_what_is_not_there_is_said_so(
    visitor: TestClient, place: str, status: int
) -> None:
    answer = visitor.get("/" + place.format(rendering.urlencode({"u": ANA})[2:]))
    assert answer.status_code == status
    assert "Traceback" not in answer.text


def test_nothing_was_created_for_a_user_who_was_only_looked_for(seen: Memory) -> None:
    client(seen).get("/person?user=nobody")
    assert seen._services.directory.users() == [ANA]


def test_a_very_long_text_is_cut_with_a_link_to_the_whole(memory: Memory) -> None:
    text = "word " * 200_000
    memory.user(ANA).add(
        [{"role": "user", "content": text, "id": "long"}], session_id="s"
    )
    visitor = client(memory)
    html = page(visitor, "conversation", session="s")
    assert len(html) < 20_000
    whole = rendering.link("text", user=ANA, id="long")
    assert whole in links(html)
    assert visitor.get(f"/{whole}").text == text


def test_long_conversations_come_in_pages(memory: Memory) -> None:
    told = [
        {"role": "user", "content": f"number {n}.", "id": str(n)} for n in range(120)
    ]
    memory.user(ANA).add(told, session_id="s")
    place = rendering.link("conversation", user=ANA, session="s")
    shown = "".join(pages_of(client(memory), place))
    assert re.findall(r"number \d+\.", shown) == [row["content"] for row in told]


def pages_of(visitor: TestClient, place: str) -> Iterator[str]:
    """The page of this address, and those that follow it."""
    while place:
        yield (html := visitor.get(f"/{place}").text)
        later = re.findall(r'href="([^"]*start=[^"]*)" rel="next"', html)
        place = unescape(later[0]) if later else ""


def entries_of(html: str) -> list[str]:
    return re.findall(r'<li[ >].*?id=(e\d+)"', html, re.DOTALL)


def test_a_full_schedule_comes_in_pages_with_every_clash(memory: Memory) -> None:
    ana = memory.user(ANA)
    ana.add([{"role": "user", "content": "words", "id": "m"}], session_id="s")
    timed = {"facet": "schedule", "kind": "event", "source_message_ids": ["m"]}
    rows = [
        {**timed, "record_id": f"e{n}", "text": f"Ana meets <{n}>. " + "ö" * 290}
        | {"event_time": {"start": f"2026-03-0{1 + n // 100}", "granularity": "day"}}
        for n in range(500)
    ]
    assert not ana.add_records(rows).rejected
    visitor, names = client(memory), [row["record_id"] for row in rows]
    place = rendering.link("schedule", user=ANA, since="2026-03-01", until="2026-03-31")
    shown = list(pages_of(visitor, place))
    assert max(len(html.encode()) for html in shown) < 300_000
    assert sorted(entries_of("".join(shown))) == sorted(names)
    assert "and 95 more" in words(shown[0])
    around = next(link for link in links(shown[0]) if "clashes_of=e0" in link)
    beside = entries_of("".join(pages_of(visitor, around)))
    assert sorted(beside) == sorted(names[:100])
