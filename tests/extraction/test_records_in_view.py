"""Which records the first call shows: what a batch may change."""

from typing import Any

from langmem_graph.extraction import records_in_view
from tests.support.models import AnswersBySchema
from tests.support.writing import memories, turn

CELLO = {"text": "The user rents a cello from Harcourt's.", "sources": ["m1"]}
FORMAL = {
    "text": "The assistant shall be formal.",
    "sources": ["m1"],
    "kind": "instruction",
}


def shown(open_memory: Any, record: dict[str, Any], text: str) -> str:
    """The records that a call shows with this message; many others share its words."""
    others = [
        {
            "text": f"The corner near wall {n} has carpet, and the lamp is lit.",
            "sources": ["m1"],
        }
        for n in range(20)
    ]
    model = AnswersBySchema(Extraction=memories(record, *others))
    ana = open_memory(model, extraction__records_shown=12).user("ana")
    ana.add(turn("A first talk."), session_id="s1")
    ana.flush()
    model.answers["Extraction"] = memories()
    ana.add(turn(text, number=2), session_id="s2")
    ana.flush()
    question = [asked for name, asked in model.asked if name == "Extraction"][-1]
    return question.split("New messages:")[0]


SEVERAL = "The carpet in the corner has dents. Harcourt's van took the cello. The lamp near it is lit."


def test_each_sentence_is_looked_up(open_memory: Any, monkeypatch: Any) -> None:
    assert CELLO["text"] in shown(open_memory, CELLO, SEVERAL)
    sentences = records_in_view._sentences(SEVERAL)
    assert sentences[1] == "Harcourt's van took the cello."
    assert len(sentences) == 3


def test_a_single_sentence_is_looked_up_once() -> None:
    assert records_in_view._sentences("Only one sentence stands in here.") == []
    assert records_in_view._sentences(
        "今日は雨が降っています。明日は晴れるでしょう。そうだといいですね。散歩に行きたいと思っています。"
    )


def test_instructions_are_always_shown(open_memory: Any) -> None:
    assert FORMAL["text"] in shown(open_memory, FORMAL, "The lamp near wall 3 is lit.")
