"""Messages become records with their sources."""

from typing import Any

import pytest

from langmem_graph.llm.answer_schemas import Extraction, Reconciliation
from tests.support.models import AnswersBySchema
from tests.support.writing import echo, line_aliases, memories, turn


def test_a_turn_becomes_a_record_with_its_source(open_memory: Any) -> None:
    home = {
        "text": "The user lives in Porto since 2021.",
        "sources": ["m1"],
        "attribute": "home",
        "facet": "persona",
        "entities": ["Porto"],
    }
    model = AnswersBySchema(Extraction=memories(home))
    ana = open_memory(model).user("ana")
    ana.add(turn("I live in Porto since 2021."), session_id="s")
    report = ana.flush()
    assert (report.status, report.read, report.stored, report.pending) == ("ok", 2, 1, 0)
    assert [step for step, _ in model.asked] == ["Extraction", "TopicRound"]
    assert report.llm_calls == 2
    (hit,) = ana.search_records("Where does the user live? Porto")
    assert hit.text == "The user lives in Porto since 2021."
    assert hit.message_ids == ["u0-I live in Porto since 2021."]
    (record,) = ana.get_records(hit.record_id)
    assert (record.kind, record.facet, record.attribute) == ("fact", "persona", "home")
    assert record.confirmation == "confirmed"
    assert [v["raw"] for v in record.values] == ["2021"]
    assert ana.flush().read == 0


def test_the_schedule_obeys_its_rules(open_memory: Any) -> None:
    planned = {"facet": "schedule", "kind": "event", "sources": ["m1"]}
    rows = [
        {**planned, "text": "Visit the dentist.", "when": "2099-05-01T09:00"},
        {**planned, "text": "Water the plants.", "when": "2025-01-06", "recurrence": "FREQ=WEEKLY"},
        {**planned, "text": "Call Eva some time."},
        {**planned, "text": "Met Jo.", "when": "2020-01-01T10:00"},
    ]
    ana = open_memory(AnswersBySchema(Extraction=memories(*rows))).user("ana")
    ana.add(turn("Dentist, plants, Eva, Jo."), session_id="s")
    ana.flush()
    found = {r["text"]: r.get("facet", "none") for r in ana.export_records()}
    assert found == {
        "Visit the dentist.": "schedule",
        "Water the plants.": "schedule",
        "Call Eva some time.": "none",
        "Met Jo.": "none",
    }


def test_only_what_people_and_the_assistant_say_is_read(open_memory: Any) -> None:
    model = AnswersBySchema(Extraction=memories())
    ana = open_memory(model).user("ana")
    system = {"role": "system", "content": "be a pirate", "id": "s1"}
    tool = {"role": "tool", "content": "tool result", "id": "t1", "tool_call_id": "c"}
    ana.add([system, *turn("hello"), tool], session_id="s")
    ana.flush()
    ((_, question),) = model.asked
    assert "pirate" not in question
    assert "tool result" not in question


def test_a_bare_yes_may_cite_the_proposal_before_it(open_memory: Any) -> None:
    def extract(question: str) -> dict[str, Any]:
        if "Yes, do it" not in question.split("New messages")[1]:
            return memories()
        aliases = line_aliases(question.replace("(earlier) ", ""))
        assert "Shall I book the night train?" in aliases["m0"]
        row = {"text": "The user takes the night train.", "sources": ["m0", "m1"]}
        only_old = {"text": "The assistant proposed a train.", "sources": ["m0"]}
        return memories(row, only_old)

    ana = open_memory(AnswersBySchema(Extraction=extract)).user("ana")
    ana.add(turn("How do I get there?", "Shall I book the night train?"), session_id="s")
    ana.flush()
    ana.add(turn("Yes, do it", number=2), session_id="s")
    assert ana.flush().stored == 1
    (record,) = ana.get_records([h.record_id for h in ana.search_records("night train")])
    assert record.message_ids == ["a0-How do I get there?", "u2-Yes, do it"]


def test_numbers_that_nobody_said_make_a_record_inferred(open_memory: Any) -> None:
    said = {"text": "The ticket costs 42.50 EUR.", "sources": ["m1"]}
    made_up = {"text": "The ticket costs 52.50 EUR.", "sources": ["m1"]}
    draft = {"text": "The user may buy a ticket.", "sources": ["m1"], "draft": True}
    ana = open_memory(AnswersBySchema(Extraction=memories(said, made_up, draft))).user("ana")
    ana.add(turn("The ticket costs 42.50 EUR."), session_id="s")
    ana.flush()
    found = {h.text: h.confirmation for h in ana.search_records("ticket", k=9)}
    assert found == {
        "The ticket costs 42.50 EUR.": "confirmed",
        "The ticket costs 52.50 EUR.": "inferred",
        "The user may buy a ticket.": "draft",
    }


def test_replaying_a_conversation_adds_no_records(open_memory: Any) -> None:
    ana = open_memory(AnswersBySchema(Extraction=echo)).user("ana")
    for copy in range(2):
        for number in range(6):
            talk = [
                {**m, "id": f"{copy}-{m['id']}"}
                for m in turn(f"I own a boat {number}", number=number)
            ]
            ana.add(talk, session_id=f"s{copy}")
        report = ana.flush()
    assert report.stored == 0
    assert report.known == 6
    assert len(ana.search_records("boat", k=50)) == 6


def test_model_calls_per_flush(open_memory: Any) -> None:
    """Two for a plain flush, at most five at a session's end; topics and profile apart."""
    pairs = {"pairs": [{"cause": "r1", "effect": "r2"}]}
    model = AnswersBySchema(Extraction=echo, Reconciliation={"decisions": []}, CausalPairs=pairs)
    ana = open_memory(
        model, extraction__neighbour_floor=0.0, extraction__cluster_max_distance=1.5
    ).user("ana")
    ana.add(turn("I own a boat."), session_id="s")
    ana.drain(10)
    for number in range(2, 8):
        model.asked.clear()
        ana.add(turn(f"I own boat {number}.", number=number), session_id="s")
        ana.drain(10)
        assert [step for step, _ in model.asked] in ([], ["Extraction", "Reconciliation"])
    ana.add(turn("The last boat.", number=9), session_id="s")
    model.asked.clear()
    ana.flush()
    steps = [step for step, _ in model.asked if step not in ("TopicRound", "ProfileText")]
    assert len(steps) <= 5
    assert steps[:3] == ["Extraction", "Reconciliation", "CausalPairs"]


def test_a_monologue_is_read_in_parts(open_memory: Any) -> None:
    model = AnswersBySchema(Extraction=memories())
    ana = open_memory(model).user("ana")
    long = [{"role": "user", "content": f"{n} " + "word " * 300, "id": str(n)} for n in range(100)]
    ana.add(long, session_id="s")
    assert ana.flush().read == 100
    sizes = [len(question) for step, question in model.asked if step == "Extraction"]
    assert len(sizes) > 2
    assert max(sizes) < 60_000


@pytest.mark.long
def test_the_prompts_stay_small(open_memory: Any) -> None:
    """Tokens beyond the turns' own words, schemas included, over 200 turns."""
    from langmem_graph.llm.structured_calls import prompt_tokens
    from langmem_graph.tokens import TokenCounter, estimate

    model = AnswersBySchema(Extraction=echo, Reconciliation={"decisions": []})
    ana = open_memory(model, extraction__neighbour_floor=0.2).user("ana")
    own = 0
    counter = TokenCounter(estimate, exact=False)
    for number in range(200):
        text = f"Today number {number} I walked with my dog around lake {number % 17} and met Eva."
        ana.add(turn(text, "That sounds like a fine walk.", number), session_id=f"s{number // 20}")
        own += counter.count(text) + counter.count("That sounds like a fine walk.")
        ana.drain(20)
    ana.flush()
    schemas = {"Extraction": Extraction, "Reconciliation": Reconciliation}
    total = sum(
        prompt_tokens(counter, schemas[name], request[:2])
        for (name, _), request in zip(model.asked, model.requests, strict=True)
        if name in schemas
    )
    per_turn = (total - own) / 200
    assert per_turn <= 900
