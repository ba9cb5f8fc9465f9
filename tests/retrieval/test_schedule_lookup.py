"""What collides with a proposal, and when: written cases, made ones, and how it is named.

Each written case has its expected answer. A second answer comes from
`tests/support/schedule_oracle.py`, which shares no code with the product. All three must agree.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_graph.memory import Memory
from langmem_graph.reasoning.lookups import proposal
from langmem_graph.reasoning.proof import ProposedTime
from langmem_graph.retrieval import schedule_lookup
from langmem_graph.retrieval.schedule_lookup import (
    AHEAD,
    MOST,
    PlannedItem,
    overlapping,
    overlaps_at,
)
from langmem_graph.schedule.times import EventTime
from langmem_graph.settings import Settings, StorageSettings
from langmem_graph.storage.reading import EVERYTHING
from tests.support.examples import examples
from tests.support.schedule_cases import (
    AUCKLAND,
    CASES,
    KATHMANDU,
    LORD_HOWE,
    MADRID,
    NEW_YORK,
    NOTHING,
    TOKYO,
    Case,
    at,
    day,
    item,
)
from tests.support.schedule_oracle import Timed, collisions


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    path: Path = tmp_path_factory.mktemp("overlaps")
    with Memory(
        path,
        embeddings="hash",
        settings=Settings(storage=StorageSettings(index_batch=5_000)),
    ) as opened:
        yield opened


def fields_of(time: Timed) -> dict[str, Any]:
    fields = {
        "time_zone": time.zone,
        "start": time.start,
        "end": time.end,
        "granularity": time.unit,
        "recurrence": time.rule,
    }
    return {name: value for name, value in fields.items() if value is not None}


def product(memory: Memory, case: Case) -> dict[str, str]:
    """What the product finds over a real ledger."""
    ana = memory.user(f"user of {case.name}")
    ana.add([{"role": "user", "content": "words", "id": "m"}], session_id="s")
    rows = []
    for one in case.items:
        row = {
            "facet": "schedule",
            "text": one.text,
            "source_message_ids": ["m"],
            **one.record,
        }
        rows.append(
            row
            | ({"event_time": fields_of(one.time)} if one.time else {"facet": "none"})
        )
    assert len(ana.add_records(rows).stored) == len(rows)
    asked = ProposedTime(case.asked.start, case.asked.end or "", case.asked.rule or "")
    event = proposal(asked, case.asked.zone)
    assert event is not None
    with (
        memory._services.room(ana.id) as room,
        room.database.read_transaction(EVERYTHING) as connection,
    ):
        found = overlaps_at(connection, event, Settings())
    return {one.fact.text: _span(*one.span) for one in found}


def _span(start: datetime, end: datetime) -> str:
    moments = (moment.astimezone(UTC) for moment in (start, end))
    return "/".join(f"{moment:%Y-%m-%d %H:%M}" for moment in moments)


def oracle(case: Case) -> dict[str, str]:
    asked = case.meant or case.asked
    found = {}
    for one in case.items:
        own = collisions(one.time, asked, AHEAD) if one.time and one.counts else []
        if own:
            found[one.text] = _span(*min(own))
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_product_oracle_and_the_written_answer_agree(
    memory: Memory, case: Case
) -> None:
    assert oracle(case) == case.expected
    assert product(memory, case) == case.expected


def test_a_month_is_no_time_that_can_be_taken() -> None:
    assert proposal(ProposedTime("2025-06", "", ""), "UTC") is None


def test_the_cases_are_many_and_both_kinds_are_among_them() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 60
    assert sum(bool(case.expected) for case in CASES) >= 30
    assert sum(not case.expected for case in CASES) >= 30


# --- made cases, against the same oracle ---


ZONES = [None, MADRID, NEW_YORK, LORD_HOWE, KATHMANDU, AUCKLAND]

RULES = [
    None,
    "FREQ=DAILY",
    "FREQ=DAILY;INTERVAL=3;COUNT=9",
    "FREQ=WEEKLY;INTERVAL=2",
    "FREQ=WEEKLY;BYDAY=MO,TH;UNTIL=20250901",
    "FREQ=MONTHLY;BYDAY=-1FR",
    "FREQ=MONTHLY;BYMONTHDAY=31",
    "FREQ=YEARLY",
]


# From 4 o'clock on no clock of these zones is set; what begins in a gap is a case of its own.
moments = st.datetimes(datetime(2025, 1, 1), datetime(2025, 12, 31)).map(
    lambda moment: moment.replace(hour=4 + moment.hour % 20, second=0, microsecond=0)
)


@st.composite
def times(draw: st.DrawFn, rules: list[str | None], units: list[str]) -> Timed:
    start, unit = draw(moments), draw(st.sampled_from(units))
    length = draw(
        st.none() | st.integers(1, 3 * 24 * 4).map(lambda n: timedelta(minutes=15 * n))
    )
    form = "%Y-%m-%dT%H:%M" if unit == "minute" else "%Y-%m-%d"
    end = None if length is None else f"{start + length:{form}}"
    zone = draw(st.sampled_from(ZONES))
    return Timed(f"{start:{form}}", end, zone, unit, draw(st.sampled_from(rules)))


UNITS = ["minute", "minute", "day", "week", "month"]


@settings(max_examples=examples(400), deadline=None)
@given(times(RULES, UNITS), times([None], ["minute", "day"]))
def test_made_cases_agree_with_the_oracle(one: Timed, asked: Timed) -> None:
    try:
        event, other = EventTime(**fields_of(one)), EventTime(**fields_of(asked))
    # a rule that never happens, an end in a repeated hour
    except ValueError as refused:
        assert "never happens" in str(refused) or "before the start" in str(refused)
        return
    found = [span for _, span, _ in overlapping(other, [PlannedItem(1, event)], 60)]
    assert found == sorted(collisions(one, asked, AHEAD))[:1]


# --- what is named, and how ---


def test_at_most_five_are_named_first_what_happens_once(memory: Memory) -> None:
    rows = [
        item(f"lunch {n}", at("2025-01-01T12:00", rule="FREQ=DAILY")) for n in range(6)
    ]
    once = item("dentist", at("2025-06-03T12:30"))
    case = Case("many", [*rows, once], at("2025-06-03T12:15"), NOTHING)
    found = product(memory, case)
    assert len(found) == MOST
    assert next(iter(found)) == "dentist"


@pytest.mark.parametrize(
    ("time", "asked", "line"),
    [
        (
            at("2025-06-03T15:00"),
            "2025-06-03T15:30",
            "Tue 2025-06-03 15:00 to 16:00 UTC [m]",
        ),
        (
            at("2025-06-03T22:00", "2025-06-04T02:00", MADRID),
            "2025-06-03T21:00",
            "Tue 2025-06-03 22:00 to Wed 2025-06-04 02:00 Europe/Madrid [m]",
        ),
        (
            at("2025-06-02T15:00", zone=MADRID, rule="FREQ=DAILY"),
            "2025-06-03T13:30",
            "Tue 2025-06-03 15:00 to 16:00 Europe/Madrid, recurring [m]",
        ),
        (
            day("2025-06-03", zone=TOKYO),
            "2025-06-03T10:00",
            "Tue 2025-06-03, all day [m]",
        ),
        (
            day("2025-06-03", "2025-06-05"),
            "2025-06-04T10:00",
            "Tue 2025-06-03 to Thu 2025-06-05, all day [m]",
        ),
    ],
)
def test_the_line_says_when_on_the_items_own_clock(
    memory: Memory, time: Timed, asked: str, line: str
) -> None:
    ana = memory.user(f"line {line}")
    ana.add([{"role": "user", "content": "words", "id": "m"}], session_id="s")
    row = {
        "text": "x",
        "source_message_ids": ["m"],
        "facet": "schedule",
        "subject": "The user",
    }
    ana.add_records([{**row, "event_time": fields_of(time)}])
    event = proposal(ProposedTime(asked), None)
    assert event is not None
    with (
        memory._services.room(ana.id) as room,
        room.database.read_transaction(EVERYTHING) as connection,
    ):
        (found,) = overlaps_at(connection, event, Settings())
    assert found.line == f"The schedule has something at that time: {line}"


def test_whose_it_is_stands_beside_it(memory: Memory) -> None:
    ana = memory.user("whose")
    ana.add([{"role": "user", "content": "words", "id": "m"}], session_id="s")
    row = {
        "text": "Sees the dentist.",
        "source_message_ids": ["m"],
        "facet": "schedule",
    }
    ana.add_records(
        [{**row, "subject": 'Tom "x"', "event_time": {"start": "2025-06-03T15:00"}}]
    )
    event = proposal(ProposedTime("2025-06-03T15:00"), None)
    assert event is not None
    with (
        memory._services.room(ana.id) as room,
        room.database.read_transaction(EVERYTHING) as connection,
    ):
        (found,) = overlaps_at(connection, event, Settings())
    assert found.line.endswith(' [m], about "tom \\"x\\""')


@pytest.mark.parametrize("minutes", [15, 240])
def test_the_usual_length_is_a_setting(memory: Memory, minutes: int) -> None:
    event, asked = (EventTime(start=f"2025-06-03T{hour}:30") for hour in (15, 17))
    assert bool(list(overlapping(asked, [PlannedItem(1, event)], minutes))) is (
        minutes == 240
    )


@pytest.mark.parametrize("text", ["", "soon", "2025", "25:00", "Tuesday", "2025-13-01"])
def test_what_is_no_time_proposes_nothing(text: str) -> None:
    assert proposal(ProposedTime(text, "2025-06-03T15:00"), None) is None


def test_an_unusable_time_is_reported_and_kept(memory: Memory) -> None:
    ana = memory.user("unusable")
    ana.add([{"role": "user", "content": "words", "id": "m"}], session_id="s")
    row = {
        "text": "Review.",
        "source_message_ids": ["m"],
        "facet": "schedule",
        "record_id": "r1",
    }
    times = {"start": "2025-06-03T15:00", "end": "2025-06-03T14:00"}
    report = ana.add_records([{**row, "event_time": times}])
    assert report.stored == ["r1"]
    (warning,) = report.warnings
    assert warning.startswith("r1 collides with nothing: ")
    assert "is before the start" in warning


def test_what_recurs_is_compared_fast_enough() -> None:
    events = [
        EventTime(start=f"2003-01-01T{n % 24:02d}:00", recurrence="FREQ=DAILY")
        for n in range(100)
    ]
    asked = EventTime(start="2025-06-01T10:30")
    begun = process_time()
    items = [PlannedItem(n, event) for n, event in enumerate(events)]
    assert len(list(overlapping(asked, items, 60))) == 8  # those of 10 and 11 o'clock
    assert process_time() - begun < 1


def test_the_cases_have_zones_on_both_sides() -> None:
    pairs = {
        (one.time.zone, case.asked.zone)
        for case in CASES
        for one in case.items
        if one.time
    }
    assert len({pair for pair in pairs if pair[0] != pair[1]}) >= 8


def test_occurrences_of_many_items_are_compared_up_to_a_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(schedule_lookup, "_OCCURRENCES_COMPARED", 100)
    start = datetime(2026, 5, 4, 9, tzinfo=UTC)
    limits = list[int]()

    def occurrences(_: PlannedItem, *given: Any) -> list[Any]:
        limits.append(given[2])
        far = start - timedelta(days=900)
        return [(far, far)] * min(60, given[2])

    monkeypatch.setattr(PlannedItem, "occurrences", occurrences)
    daily = EventTime(
        start=start, granularity="minute", time_zone="UTC", recurrence="FREQ=DAILY"
    )
    assert not list(overlapping(daily, [PlannedItem(n, daily) for n in range(4)], 60))
    assert limits == [100, 40, 1, 1]
