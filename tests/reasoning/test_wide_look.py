"""One planning call over a wide look: what it sees, what it may name, and what that costs."""

from datetime import datetime
from typing import Any

import pytest

from langmem_graph.results import Fact
from langmem_graph.retrieval.quoted_context import best_in_order
from langmem_graph.tokens import TokenCounter, estimate
from tests.support.goals import alias
from tests.support.reasoning import calls
from tests.support.recalled import SAID, good

NOW = "2025-03-10T09:00"
COUNTER = TokenCounter(estimate, exact=False)


def _fact(number: int, text: str, day: int = 1) -> Fact:
    return Fact(
        id=f"i{number}", text=text, at=datetime.fromisoformat(f"2025-03-0{day}T09:00Z")
    )


def test_the_best_facts_are_shown_once_each_in_order_of_time() -> None:
    facts = [
        _fact(1, "late", 5),
        _fact(2, "Tea again"),
        _fact(3, "tea  again"),
        _fact(4, "mid", 3),
    ]
    facts += [_fact(5, "tea again", 4), _fact(6, "one too many", 2)]
    shown = best_in_order(facts[:5], COUNTER, 4_000)
    assert [fact.id for fact in shown] == ["i2", "i4", "i5", "i1"]


def test_what_is_shown_keeps_within_its_tokens() -> None:
    facts = [_fact(n, "word " * 60) for n in range(40)] + [_fact(99, "short")]
    facts = [
        fact.model_copy(update={"text": f"{fact.id} {fact.text}"}) for fact in facts
    ]
    shown = best_in_order(facts, COUNTER, 400)
    assert 2 <= len(shown) < 10
    assert "i99" in {fact.id for fact in shown}


def test_lines_have_weekdays_and_the_day_they_are_about(open_memory: Any) -> None:
    model = good(GoalPlan={"intent": "chat", "sure": True})
    ana = open_memory(model).user("ana")
    row = {"text": "The wedding.", "source_message_ids": ["m3"], "facet": "schedule"}
    ana.add_records(
        [{**row, "event_time": {"start": "2025-03-28", "granularity": "day"}}]
    )
    ana.recall("What about the wedding?", mode="auto", at="2025-03-06T09:00")
    (prompt,) = (text for name, text in model.asked if name == "GoalPlan")
    assert "Now: 2025-03-06T09:00+00:00 (Thursday)" in prompt
    assert 'Mon 2025-03-03 (for Fri 2025-03-28) "The wedding."' in prompt


def test_where_the_plan_is_sure_the_context_holds_what_it_named(
    open_memory: Any,
) -> None:
    def plan(prompt: str) -> dict[str, Any]:
        return {"facts": [alias(prompt, SAID["m4"])], "sure": True}

    model = good(GoalPlan=plan)
    found = open_memory(model).user("ana").recall("What did Lena like?", mode="auto")
    assert [fact.text for fact in found.facts] == [SAID["m4"]]
    assert (found.reasoning.status, found.reasoning.complete) == ("grounded", True)
    assert calls(model) == ["GoalPlan"]


@pytest.mark.parametrize("sure", [True, False])
def test_rows_are_given_whole_and_counted_by_code(open_memory: Any, sure: bool) -> None:
    def plan(prompt: str) -> dict[str, Any]:
        rows = [
            {"item": name, "facts": [alias(prompt, SAID[own])]}
            for name, own in ITEMS.items()
        ]
        return {"rows": [*rows, {"item": "Mia", "facts": ["f99"]}], "sure": sure}

    found = (
        open_memory(good(GoalPlan=plan, Unification={}))
        .user("ana")
        .recall("Whom of my family do you know?", mode="auto")
    )
    rows = found.reasoning.rows
    assert [row.values["item"] for row in rows] == list(ITEMS)
    assert [row.facts for row in rows] == [[f"message:{own}"] for own in ITEMS.values()]
    assert found.reasoning.complete == (True if sure else "unknown")
    more = "" if sure else "; there may be more"
    assert (
        f'Facts for the request (2 found{more}):\n- "Tom"\n  - 2025-03-02'
        in found.context
    )
    assert (SAID["m5"] in found.context) is not sure  # otherwise the best quotes too


ITEMS = {"Tom": "m2", "Lena": "m3"}


@pytest.mark.parametrize(
    ("start", "end", "span"),
    [
        (
            "2025-01-31",
            "2025-03-02",
            "2025-01-31 to 2025-03-02: 30 days (1 months 2 days)",
        ),
        ("2025-03-02", "2024-03-02", "2024-03-02 to 2025-03-02: 365 days (1 years)"),
        ("some day", "2025-03-02", None),
    ],
)
def test_code_computes_how_long_it_was(
    open_memory: Any, start: str, end: str, span: str | None
) -> None:
    plan = {"facts": ["f1", "f2"], "sure": True, "start": start, "end": end}
    found = (
        open_memory(good(GoalPlan=plan))
        .user("ana")
        .recall("How long was it?", mode="auto")
    )
    assert found.reasoning.spans == ([span] if span else [])
    assert found.reasoning.overlaps == []  # it is no proposal
    assert span is None or f"- {span}" in found.context


def test_nobody_said_it_ends_as_unknown_after_two_calls(open_memory: Any) -> None:
    plan = {
        "subgoals": [
            {"atom": "the user's blood type is (b:type)", "query": "blood type"}
        ],
        "answer": ["b"],
    }
    model = good(GoalPlan=plan, Unification={})
    found = open_memory(model).user("ana").recall("What is my blood type?", mode="auto")
    assert (found.reasoning.status, found.reasoning.complete) == (
        "exhausted",
        "unknown",
    )
    assert found.reasoning.unresolved == ["(b:type)"]
    assert calls(model) == ["GoalPlan", "Unification"]


def test_a_malformed_statement_is_repaired_and_never_proved(open_memory: Any) -> None:
    bad = {
        "subgoals": [{"atom": "(w x:person) is kind", "query": "kind"}],
        "answer": ["w"],
    }
    mended = {
        "subgoals": [{"atom": "(w:person) is kind", "query": "kind"}],
        "answer": ["w"],
    }
    plans = [bad, mended, bad, bad]
    model = good(GoalPlan=lambda _: plans.pop(0), Unification={"grounded": [_PROOF]})
    user = open_memory(model).user("ana")
    found = user.recall("Who is kind?", mode="auto")
    assert calls(model) == ["GoalPlan", "GoalPlan", "Unification"]
    assert found.report.repairs == 1
    assert found.reasoning.unresolved == ["(w:person)"]
    # not mended: the request itself is left
    found = user.recall("Who is kind?", mode="auto")
    (statement,) = (one for one in found.trace if one["event"] == "memory_subgoal")
    assert statement["atom"] == "Who is kind?"


_PROOF = {"subgoal": "s1", "facts": ["f1"]}
_VISITED = {
    "subgoals": [{"atom": "the user visited (c:city)", "query": "visited by train"}],
    "answer": ["c"],
}
_NARROW = {"reasoning__plan_facts": 1, "context__k": 1, "reasoning__subgoal_facts": 2}


def test_several_values_are_looked_for_page_by_page(open_memory: Any) -> None:
    cities = ("Lisbon", "Ghent", "Krakow", "Turin", "Oslo")

    def prove(prompt: str) -> dict[str, Any]:
        shown = [
            (city, alias(prompt, f"I visited {city} by train.")) for city in cities
        ]
        new = [(c, f) for c, f in shown if f and f"c = {c}" not in prompt]
        rows = [{"variable": "c", "entity": c, "facts": [f]} for c, f in new]
        return {"bindings": rows, "grounded": [{"subgoal": "s1", "facts": ["f1"]}]}

    model = good(GoalPlan=_VISITED, Unification=prove)
    user = open_memory(model, **_NARROW).user("ana")
    told = [
        {"role": "user", "content": f"I visited {city} by train."} for city in cities
    ]
    user.add(told, session_id="trips")
    found = user.recall("Which cities have I visited?", mode="auto")
    assert found.reasoning.status == "grounded"
    assert {row.values["c"] for row in found.reasoning.rows} == set(cities)
    assert found.reasoning.complete is True
    assert calls(model) == ["GoalPlan", *["Unification"] * 3]


def test_a_proved_list_may_ask_for_further_items_in_the_same_answer(
    open_memory: Any,
) -> None:
    said = {
        "Lisbon": "I visited Lisbon by train.",
        "Ghent": "Ghent: the hostel had no heating.",
    }
    said |= {"Turin": "I visited Turin by train."}

    # its rows are counted anew in every answer
    def prove(prompt: str) -> dict[str, Any]:
        shown = [(city, alias(prompt, text)) for city, text in said.items()]
        shown = [one for one in shown if one[1]]
        rows = [
            {"variable": "c", "entity": city, "facts": [fact], "row": n}
            for n, (city, fact) in enumerate(shown, 1)
        ]
        asked = {
            "for_subgoal": "s1",
            "atom": "(p:person) slept in (c:city)",
            "query": "hostel heating",
        }
        return {
            "bindings": rows,
            "grounded": [{"subgoal": "s1", "facts": ["f1"]}],
            "look_for": [asked],
        }

    model = good(GoalPlan=_VISITED, Unification=prove)
    user = open_memory(model, **_NARROW).user("ana")
    filler = [
        f"I visited the {shop} shop by train."
        for shop in ("cheese", "wine", "tea", "hat")
    ]
    told = [{"role": "user", "content": text} for text in (*said.values(), *filler)]
    user.add(told, session_id="trips")
    found = user.recall("Which cities have I visited?", mode="auto")
    assert found.reasoning.status == "grounded"
    assert sorted(row.values["c"] for row in found.reasoning.rows) == sorted(said)
    assert found.reasoning.unresolved == []
    assert len(calls(model)) <= 1 + 3


# --- lists ---

TRIPS = {
    "Lisbon": "I visited Lisbon by train.",
    "Ghent": "I visited Ghent by train, twice.",
    "Turin": "The hostel in Turin had no heating.",
    "Oslo": "Oslo was called off.",
}


def _list_plan(prompt: str) -> dict[str, Any]:
    """The one item in view, and how another may have been told."""
    rows = [{"item": "Lisbon", "facts": [alias(prompt, TRIPS["Lisbon"])]}]
    return {"rows": rows, "sure": True, "look_for": ["A hostel without heating."]}


def _items(prompt: str) -> dict[str, Any]:
    """A row for each trip that was made and has none."""
    rows = [line for line in prompt.splitlines() if line.startswith("Row ")]
    shown = {
        city: alias(prompt, text) for city, text in TRIPS.items() if city != "Oslo"
    }
    new = [
        (c, fact)
        for c, fact in shown.items()
        if fact and not any(c in row for row in rows)
    ]
    return {"rows": [{"item": c, "facts": [fact]} for c, fact in new], "sure": True}


def _trips(open_memory: Any, model: Any, facts: int = 2, **settings: Any) -> Any:
    narrow = {
        "reasoning__plan_facts": facts,
        "context__k": 1,
        "ranking__method": "words",
    }
    user = open_memory(model, **{**narrow, **settings}).user("ana")
    user.add(
        [{"role": "user", "content": text} for text in TRIPS.values()],
        session_id="trips",
    )
    return user.recall(
        "Which cities have I visited by train, as to Lisbon?", mode="auto"
    )


def test_a_list_is_looked_for_in_what_no_model_has_seen_until_nothing_is_new(
    open_memory: Any,
) -> None:
    model = good(GoalPlan=_list_plan, FurtherItems=_items)
    found = _trips(open_memory, model)
    assert [row.values["item"] for row in found.reasoning.rows] == ["Lisbon", "Turin"]
    assert calls(model) == ["GoalPlan", "FurtherItems", "FurtherItems"]
    first, *pages = (text for _, text in model.asked)
    assert TRIPS["Turin"] not in first
    # what was named stays in view
    assert all('Row 1: "Lisbon" (f' in page for page in pages)
    assert TRIPS["Turin"] in pages[0]  # found by the example
    told = [event for event in found.trace if event["event"] == "memory_list"]
    assert [len(event["facts"]) <= 2 for event in told] == [True] * len(pages)


def test_a_list_is_complete_where_the_last_page_adds_nothing(open_memory: Any) -> None:
    nothing = good(GoalPlan=_list_plan, FurtherItems={"sure": True})
    found = _trips(open_memory, nothing)
    assert (found.reasoning.status, found.reasoning.complete) == ("grounded", True)
    assert calls(nothing) == ["GoalPlan", "FurtherItems"]
    # all of memory was in view: nothing is left to look at
    whole = good(GoalPlan=_list_plan)
    assert (
        _trips(
            open_memory, whole, facts=80, ranking__method="hybrid"
        ).reasoning.complete
        is True
    )
    assert calls(whole) == ["GoalPlan"]
    cases: list[tuple[Any, dict[str, Any]]] = [
        ({"sure": False}, {}),  # something points to an item that is not told
        (ConnectionError("gone"), {}),
        ({"sure": True}, {"reasoning__max_calls": 1}),
    ]
    for answer, settings in cases:
        unsure = good(GoalPlan=_list_plan, FurtherItems=answer)
        found = _trips(open_memory, unsure, **settings)
        assert found.reasoning.complete == "unknown"
        assert [row.values for row in found.reasoning.rows] == [{"item": "Lisbon"}]


def test_a_row_that_does_not_belong_is_taken_out_with_its_fact(
    open_memory: Any,
) -> None:
    def plan(prompt: str) -> dict[str, Any]:
        rows = [
            {"item": c, "facts": [alias(prompt, TRIPS[c])]} for c in ("Lisbon", "Oslo")
        ]
        return {"rows": [row for row in rows if row["facts"][0]], "sure": True}

    drop = [
        {"row": 2, "why": "It was called off."},
        {"row": 9, "why": "There is none."},
    ]
    model = good(GoalPlan=plan, FurtherItems={"drop": drop, "sure": True})
    found = _trips(open_memory, model, facts=9)
    assert [row.values for row in found.reasoning.rows] == [{"item": "Lisbon"}]
    assert TRIPS["Oslo"] not in found.context
    (event,) = (one for one in found.trace if one["event"] == "memory_list")
    assert event["dropped"] == ["Oslo: It was called off."]


# --- clashes of dates ---

BOOKED = {"intent": "act", "sure": True, "start": "2025-03-28"}


@pytest.mark.parametrize(
    ("text", "clashes"),
    [
        ("On the last Friday of this month I run the fair.", True),
        ("I promised Devi to be in from 27/3 until 2/4.", True),
        ("We marry on 28 March!", True),
        ("In three weeks I am in Rome, on Friday.", False),
        ("I sing in the choir every Friday.", True),
        ("Is the pool open on 28 March?", False),
        ("On 28 April I am away.", False),
        ("Last Friday I was ill.", False),
    ],
)
def test_what_was_told_of_a_day_in_words_is_shown_with_it(
    open_memory: Any, text: str, clashes: bool
) -> None:
    model = good(GoalPlan=BOOKED)
    user = open_memory(model).user("ana")
    said = {"role": "user", "content": text, "id": "w", "at": "2025-03-05T18:00Z"}
    user.add(
        [said, {"role": "assistant", "content": "On 28 March it rains."}],
        session_id="w",
    )
    found = user.recall("Book the spa for 28 March", mode="auto", at="2025-03-10T09:00")
    (prompt,) = (asked for name, asked in model.asked if name == "GoalPlan")
    dated = [line for line in prompt.splitlines() if "(for Fri 2025-03-28)" in line]
    assert [text in line for line in dated] == [True] * clashes
    # whether it speaks against it, the model says
    assert found.reasoning.overlaps == []
    assert found.reasoning.risks == []


@pytest.mark.parametrize("named", [True, False])
def test_what_was_told_of_the_day_that_the_plan_reads_is_asked_about(
    open_memory: Any, named: bool
) -> None:
    """The request names the day in words that only a model reads, and the plan saw too little."""

    def judged(prompt: str) -> dict[str, Any]:
        return {"against": [{"fact": alias(prompt, fair), "why": "The fair."}] * named}

    fair = "On the last Friday of this month I run the fair."
    model = good(GoalPlan=BOOKED, Consequences=judged)
    user = open_memory(model, reasoning__plan_facts=1).user("ana")
    user.add(
        [{"role": "user", "content": fair, "id": "w", "at": "2025-03-05T18:00Z"}],
        session_id="w",
    )
    found = user.recall("Book a ceramic class", k=1, mode="auto", at="2025-03-10T09:00")
    assert calls(model) == ["GoalPlan", "Consequences"]
    assert [risk.facts for risk in found.reasoning.risks] == [["message:w"]] * named
    assert (fair in found.context) is named


def test_what_may_be_planned_for_a_day_is_shown_in_whatever_words(
    open_memory: Any,
) -> None:
    """Nothing in these words names the day, and the request has none of them."""
    hut = "We have booked something for the long weekend, there I am away on the lake."
    model = good(GoalPlan={"intent": "act", "sure": True})
    user = open_memory(model, reasoning__plan_facts=1).user("ana")
    user.add(
        [{"role": "user", "content": hut, "id": "w", "at": "2025-03-05T18:00Z"}],
        session_id="w",
    )
    for asked, shown in (
        ("Accept the ceramic lamp", False),
        ("Accept it for 28 March", True),
    ):
        model.asked.clear()
        user.recall(
            f"{asked}, the ceramic lamp that Lena liked", k=1, mode="auto", at=NOW
        )
        (prompt,) = (text for name, text in model.asked if name == "GoalPlan")
        assert (hut in prompt) is shown


def test_another_time_of_that_day_is_not_shown_with_it(open_memory: Any) -> None:
    model = good(GoalPlan={"intent": "act", "sure": True})
    user = open_memory(model).user("ana")
    for own, clock in (("w1", "10:00"), ("w2", "15:30")):
        said = {
            "role": "user",
            "content": f"The tax office, 28 March 2025 {clock}.",
            "id": own,
        }
        user.add([{**said, "at": "2025-03-05T18:00Z"}], session_id=own)
    user.recall("Book the spa for 2025-03-28 15:00", mode="auto", at="2025-03-10T09:00")
    (prompt,) = (asked for name, asked in model.asked if name == "GoalPlan")
    dated = [line for line in prompt.splitlines() if "(for Fri 2025-03-28)" in line]
    assert ["15:30" in line for line in dated] == [True]


def test_dated_records_of_every_kind_are_compared(open_memory: Any) -> None:
    user = open_memory(good(GoalPlan=BOOKED)).user("ana")
    row = {"text": "Lea's wedding.", "source_message_ids": ["m3"], "kind": "event"}
    user.add_records(
        [{**row, "event_time": {"start": "2025-03-28", "granularity": "day"}}]
    )
    found = user.recall("Book the spa", mode="auto", at="2025-03-10T09:00")
    assert found.reasoning.overlaps == ["Fri 2025-03-28, all day: Lea's wedding."]
