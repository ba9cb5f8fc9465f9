"""Values that a careless model misreads from true words: what is sent is called `read`.

Code does not know what words mean. What it promises is that no misreading is called a
copy, that its words stand beside it, and that none is sent with `read="omit"`.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from langmem_graph.memory import Memory
from langmem_graph.testing import ScriptedChatModel
from tests.conftest import let_go
from tests.support.flights import filling

NUMBER = {"type": "number"}
WHOLE = {"type": "integer"}
TEXT = {"type": "string"}
DAY = {"type": "string", "format": "date"}
MOMENT = {"type": "string", "format": "date-time"}
CODE = {"type": "string", "pattern": "^[A-Z]{2,3}$"}
SIZE = {"type": "string", "enum": ["S", "M", "L"]}
MONEY = {"type": "string", "enum": ["CAD", "BRL", "BAM", "MAD"]}

MISREAD: list[tuple[dict[str, Any], str, Any]] = [
    *((NUMBER, said, 2) for said in ("€2m", "2m euros", "USD 2m", "2 million", "2k")),
    (NUMBER, "$1.5m", 1.5),
    (WHOLE, "+44 7700 900156", 44),
    (WHOLE, "4111 1111 1111 1234", 1234),
    (WHOLE, "IBAN DE89 3704 0044", 3704),
    *((NUMBER, said, 20) for said in ("20 %", "20 per cent", "20 percent")),
    (NUMBER, "5 ‰", 5),
    *((WHOLE, said, 35) for said in ("35 euros", "$35", "EUR 35")),
    (NUMBER, "150 lbs", 150),
    (NUMBER, "70 °F", 70),
    (NUMBER, "5 miles", 5),
    (NUMBER, "2 hours", 2),
    (NUMBER, "18 months", 18),
    *((NUMBER, said, 5) for said in ("minus 5 degrees", "–5", "5 below zero")),
    *((TEXT, said, "07:30") for said in ("7:30 in the evening", "half past seven")),
    *((TEXT, said, "08:00") for said in ("8 Uhr abends", "tonight at 8")),
    (TEXT, "12:30 am", "12:30"),
    *((NUMBER, said, 1) for said in ("1·5 kg", "1٫5", "1⁄2", "1´000", "1`000")),
    (NUMBER, "1\u2009500", 500),
    *((NUMBER, said, 5) for said in ("5 Komma 5", "5 point 5")),
    (NUMBER, "zwei einhalb", 2),
    *((NUMBER, said, 3) for said in ("drei viertel Liter", "three fifths")),
    (NUMBER, "treinta y cinco", 5),
    (NUMBER, "cuarenta y dos euros", 2),
    (NUMBER, "deux cents", 2),
    (NUMBER, "quatre vingts", 4),
    *(
        (DAY, said, "2026-05-08")
        for said in (
            "the day before Friday",
            "the day after Friday",
            "a week from Friday",
            "a week tomorrow",
            "the first Friday in June",
            "Friday the 13th",
            "my 21st birthday",
            "the 5th floor",
        )
    ),
    *(
        (DAY, said, "2026-05-07")
        for said in (
            "7 May next year",
            "7 May '27",
            "3 days before 7 May",
            "3 days after 7 May",
            "in the last 3 days",
        )
    ),
    (MOMENT, "Thursday at 17:00 or Friday at 9:00", "2026-05-08T17:00:00+00:00"),
    (CODE, "Northern Ireland", "IE"),
    (CODE, "North Korea", "KR"),
    (CODE, "South Sudan", "SD"),
    (CODE, "Papua New Guinea", "GN"),
    (CODE, "DR Congo", "CG"),
    (CODE, "New Mexico", "MX"),
    (CODE, "Paris, Texas", "FR"),
    (CODE, "London, Ontario", "GB"),
    (CODE, "Sex: Male", "MV"),
    (CODE, "Nice weather", "FR"),
    (CODE, "Of course", "TR"),
    (CODE, "Chad Smith", "TD"),
    (CODE, "Van Morrison", "TR"),
    (MONEY, "US$500 in Toronto", "CAD"),
    (MONEY, "a real problem", "BRL"),
    (MONEY, "Mark called", "BAM"),
    (MONEY, "I am mad", "MAD"),
    (SIZE, "I'm after a shirt", "M"),
    (SIZE, "it's fine", "S"),
    (NUMBER, "seat 12, row 2", 14),
]
UNSAID: list[tuple[dict[str, Any], str, Any]] = [
    (TEXT, "Northern Ireland", "Ireland, Republic of"),
    (TEXT, "my seat", "99Z"),
    (TEXT, "born in North Korea", "KR"),
    (TEXT, "4111 1111 1111 1234", "1234 1234"),
    (TEXT, "call my wife", "Maria"),
    (TEXT, "the usual hotel", "Hotel Central"),
    ({**TEXT, "format": "email"}, "write to ana at example", "ana@example.com"),
    ({**TEXT, "format": "uri"}, "their page at example", "https://example.com"),
    ({**TEXT, "format": "uuid"}, "order nine", "9" * 8 + "-0000-4000-8000-" + "0" * 12),
]


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    place = tmp_path_factory.mktemp("misreadings") / "m"
    opened = Memory(place, model=ScriptedChatModel(), embeddings="hash")
    yield opened
    let_go(opened)


def filled(
    memory: Memory, schema: dict[str, Any], said: str, lie: Any, read: Any
) -> Any:
    model: Any = memory._pipelines.model  # type: ignore[union-attr]
    model.answers["ToolFill"] = filling(("x", lie, "f0", said))
    tool = {
        "title": "act",
        "type": "object",
        "properties": {"x": schema},
        "required": ["x"],
    }
    return memory.user("ana").ground(tool, f"Do it: {said}, please.", read=read)


@pytest.mark.parametrize(("schema", "said", "lie"), MISREAD)
def test_a_misreading_is_never_called_a_copy(
    memory: Memory, schema: dict[str, Any], said: str, lie: Any
) -> None:
    sent = filled(memory, schema, said, lie, "send")
    if sent.arguments:
        assert sent.grounding["x"].type == "read"
        assert sent.grounding["x"].text == said
    asked = filled(memory, schema, said, lie, "ask")
    assert asked.arguments == {}
    assert all(offered.text == said for offered in asked.offered.values())
    omitted = filled(memory, schema, said, lie, "omit")
    assert (omitted.arguments, omitted.offered) == ({}, {})
    assert [slot.name for slot in omitted.missing] == ["x"]


@pytest.mark.parametrize(("schema", "said", "lie"), UNSAID)
def test_a_text_that_nobody_said_is_not_sent(
    memory: Memory, schema: dict[str, Any], said: str, lie: Any
) -> None:
    call = filled(memory, schema, said, lie, "send")
    assert (call.arguments, call.offered) == ({}, {})


def test_figures_that_say_another_number_refute_it(memory: Memory) -> None:
    for said, lie in (("3 nights", 5), ("€40", 45), ("20 %", 21)):
        call = filled(memory, NUMBER, said, lie, "send")
        assert call.arguments == {}
        assert said in call.missing[0].reason
