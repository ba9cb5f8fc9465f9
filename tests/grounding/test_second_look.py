"""What is missing is searched for once more, with sentences of the model's."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from langmem_graph.graphs.grounding_graph import create_grounding_graph
from langmem_graph.memory import Memory
from tests.conftest import let_go, said
from tests.support.flights import alias, filling
from tests.support.models import AnswersBySchema

ASKED = "Invite the skipper to the concert."
INVITE = {
    "title": "invite",
    "type": "object",
    "properties": {
        "guest": {"type": "string"},
        "phone": {"type": "string"},
        "seats": {"type": "integer"},
    },
    "required": ["guest", "phone"],
}
NUMBER = "nymark picks up at 0704 118 220 after work"
SENTENCES = ["nymark picks up at 0704", "after work nymark picks up"]
GAP = {"path": "phone", "said": SENTENCES}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    opened = Memory(tmp_path / "m", model=AnswersBySchema(), embeddings="hash")
    ana = opened.user("ana")
    ana.add(said("the skipper is called ingvar nymark", id="name"), session_id="s1")
    # so many that the number is not among what is shown at first
    talk = [
        said(f"invite the guest {n} to the concert, phone and seats {n}", id=f"m{n}")
        for n in range(600)
    ]
    ana.add(talk, session_id="t")
    ana.add(said(NUMBER, id="number"), session_id="s2")
    yield opened
    let_go(opened)


class Fill:
    """Answers the first question and the second one."""

    def __init__(self, first: Any, second: Any) -> None:
        self.answers = [first, second]
        self.prompts = list[str]()

    def __call__(self, prompt: str) -> Any:
        self.prompts.append(prompt)
        answer = self.answers[len(self.prompts) - 1]
        return answer(prompt) if callable(answer) else answer


def first(*, gap: Any = GAP) -> Any:
    def fill(prompt: str) -> Any:
        source = alias(prompt, "the skipper is called ingvar nymark")
        return filling(
            ("guest", "ingvar nymark", source, "ingvar nymark"), missing=[gap]
        )

    return fill


def second(prompt: str) -> Any:
    source = alias(prompt, NUMBER)
    return filling(("phone", "0704 118 220", source, "0704 118 220"))


def filled(memory: Memory, fill: Fill) -> Any:
    model: Any = memory._pipelines.model  # type: ignore[union-attr]
    model.answers["ToolFill"] = fill
    return memory.user("ana").ground(INVITE, ASKED)


def test_what_is_missing_is_found_by_the_names_that_are_known_by_now(
    memory: Memory,
) -> None:
    fill = Fill(first(), second)
    call = filled(memory, fill)
    assert NUMBER not in fill.prompts[0]
    assert 'Fill only: "phone"' in fill.prompts[1]
    # of what was shown before only what the first answer rests on is shown again
    assert "the skipper is called ingvar nymark" in fill.prompts[1]
    shown_before = [
        line for line in fill.prompts[0].splitlines() if "invite the" in line
    ]
    assert shown_before
    assert not set(shown_before) & set(fill.prompts[1].splitlines())
    assert call.arguments == {"guest": "ingvar nymark", "phone": "0704 118 220"}
    assert call.grounding["phone"].message_ids == ["number"]
    assert (call.missing, call.llm_calls) == ([], 2)


def test_it_is_made_once_at_most(memory: Memory) -> None:
    again = {"arguments": {}, "sources": [], "missing": [GAP]}
    call = filled(memory, Fill(first(), again))
    assert [one.name for one in call.missing] == ["phone"]
    assert call.llm_calls == 2
    assert call.arguments == {"guest": "ingvar nymark"}


@pytest.mark.parametrize(
    "gap", ["phone", {"path": "phone"}, {"path": "phone", "said": []}]
)
def test_without_sentences_there_is_none(memory: Memory, gap: Any) -> None:
    call = filled(memory, Fill(first(gap=gap), None))
    assert [one.name for one in call.missing] == ["phone"]
    assert call.llm_calls == 1


def test_where_nothing_new_is_found_no_call_is_made(memory: Memory) -> None:
    shown = {"path": "phone", "said": ["the skipper is called ingvar nymark"]}
    ana = memory.user("ana")
    for row in ana.export():
        if row["id"] != "name":
            ana.forget(message=row["id"])
    call = filled(memory, Fill(first(gap=shown), None))
    assert [one.name for one in call.missing] == ["phone"]
    assert call.llm_calls == 1


def test_an_unusable_second_answer_leaves_the_first(memory: Memory) -> None:
    call = filled(memory, Fill(first(), "no JSON"))
    assert call.arguments == {"guest": "ingvar nymark"}
    assert [one.name for one in call.missing] == ["phone"]


def test_a_first_value_is_not_changed_by_the_second(memory: Memory) -> None:
    def other(prompt: str) -> Any:
        source = alias(prompt, NUMBER)
        both = ("guest", "nymark", source, "nymark")
        return filling(both, ("phone", "0704 118 220", source, "0704 118 220"))

    call = filled(memory, Fill(first(), other))
    assert call.arguments["guest"] == "ingvar nymark"
    assert call.arguments["phone"] == "0704 118 220"


def test_the_graph_looks_again_too(memory: Memory) -> None:
    model: Any = memory._pipelines.model  # type: ignore[union-attr]
    model.answers["ToolFill"] = Fill(first(), second)
    graph = create_grounding_graph(memory, tools=INVITE, user_id="ana")
    call = graph.invoke({"request": ASKED})["call"]
    assert call["arguments"]["phone"] == "0704 118 220"
