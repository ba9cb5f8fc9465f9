"""What the papers measure beside the plain run: gold alone, distance, other tools, their modes."""

import json
from dataclasses import replace

import pytest

from benchmarks import command
from benchmarks.command import Options, bench
from benchmarks.data import LOADERS
from benchmarks.data.by_speaker import by_speaker
from benchmarks.data.distractors import HARD, RANDOM, with_distractors
from benchmarks.data.entries import as_entries
from benchmarks.data.items import Conversation, Question, Session
from benchmarks.models import prompt_text
from benchmarks.report.distance import QUARTERS, quarter
from benchmarks.systems import edges
from benchmarks.systems.catalogue import chosen, offering
from langmem_graph.errors import InvalidInputError
from langmem_graph.reasoning import counterfactual
from langmem_graph.results import Fact
from langmem_graph.testing import HashEmbeddings
from tests.benchmarks import tiny
from tests.benchmarks.scripted import Model, job, measured
from tests.support.models import ANSWERS


def said(number):
    return {"id": f"m{number}", "role": "user", "content": f"line {number}"}


def test_the_oracle_reads_the_gold_and_nothing_else(tmp_path):
    model = Model(
        Filled={"name": "book", "arguments": json.dumps({"city": "Rome", "guests": 2})}
    )
    rows, text = measured(
        job(tmp_path, "mem2actbench", model, None, ["oracle", "full-context"])
    )
    (right, lost) = [asked for _, asked in model.asked if "I like tea" not in asked]
    assert "I live in Rome." in right
    assert "(nothing)" in lost  # its sources are not in the session file
    assert "| oracle | 1.000 |" in text
    gold = next(
        row for row in rows if row["system"] == "oracle" and row["question"] == "a1"
    )
    # the source, whole: no slot can be missed
    assert gold["reply"]["shown_ids"] == ["t1:1", "c1"]


def test_evidence_is_put_into_quarters_of_what_was_in_memory_by_its_earliest_place():
    sessions = [Session(f"s{n}", [said(2 * n), said(2 * n + 1)]) for n in range(4)]
    talk = Conversation("t", sessions, [])
    assert quarter(talk, Question("q", "x", frozenset({"m7", "m2"}))) == QUARTERS[1]
    assert quarter(talk, Question("q", "x", frozenset({"s3"}))) == QUARTERS[3]
    assert quarter(talk, Question("q", "x", frozenset({"m2"}), before=2)) == QUARTERS[2]
    assert quarter(talk, Question("q", "x", frozenset({"m7"}), before=2)) == ""
    assert quarter(talk, Question("q", "x")) == ""


def test_tool_calls_and_found_messages_are_reported_by_the_distance_of_their_evidence(
    tmp_path,
):
    model = Model(
        Filled={"name": "book", "arguments": json.dumps({"city": "Rome", "guests": 2})}
    )
    _, text = measured(job(tmp_path, "mem2actbench", model, None, ["bm25"]))
    table = text.split("Where the earliest evidence lies in the history, value F1")[1]
    assert "| (none) | 1 | 1.000 |" in table
    assert "| 0–25% (oldest) | 1 | 1.000 |" in table
    data = tiny.locomo(tmp_path / "found")
    text = bench(
        Options("locomo", data, tmp_path / "runs", embeddings="hash", systems="bm25")
    )
    assert "Where the earliest evidence lies in the history, recall@10" in text
    assert "| 25–50% | 1 |" in text


TOOLS = {
    "book": "Books a hotel room in a city.",
    "reserve": "Books a hotel room in a town.",
    "weather": "Tells how the sky will be.",
    "mail": "Sends somebody a letter.",
}


def tools_file(folder):
    """Four tasks of four tools; two of the tools are alike."""
    tiny.mem2actbench(folder)
    file = folder / "qa_dataset.jsonl"
    task = json.loads(file.read_text().splitlines()[0])
    rows = []
    for number, (name, about) in enumerate(TOOLS.items()):
        call = {**task["tool_call"], "name": name}
        schema = {**task["target_tool_schema"], "name": name, "description": about}
        rows.append(
            {
                **task,
                "qa_id": f"a{number}",
                "tool_call": call,
                "target_tool_schema": schema,
            }
        )
    file.write_text("\n".join(map(json.dumps, rows)))
    return folder


def test_other_tools_are_the_sets_own_by_chance_and_by_likeness(tmp_path):
    data = LOADERS["mem2actbench"](tools_file(tmp_path))
    made = with_distractors(data, HashEmbeddings(), 3).conversations[0].questions
    for question in made:
        for kind in (RANDOM, HARD):
            names = [tool.name for tool in question.distractors[kind]]
            assert sorted([*names, question.goal.name]) == sorted(TOOLS)
    assert made[0].distractors[HARD][0].name == "reserve"
    assert made[1].distractors[HARD][0].name == "book"
    again = with_distractors(data, HashEmbeddings(), 1).conversations[0].questions
    assert again == made  # more of them begin with the same
    assert len({tuple(t.name for t in q.distractors[RANDOM])[:1] for q in made}) > 1
    with pytest.raises(InvalidInputError, match="has 4 tools, too few for 4"):
        with_distractors(data, HashEmbeddings(), 4)


class Chooses(Model):
    """Takes the first tool that is shown."""

    def __init__(self):
        super().__init__(
            Filled=lambda asked: {"name": self.first(asked), "arguments": "{}"},
            Picked=lambda asked: {"name": self.first(asked)},
            Extraction={"memories": []},
            ToolFill={"arguments": {}, "missing": ["city"]},
        )

    @staticmethod
    def first(asked):
        shown = asked[asked.index('{"name"') :]
        return json.loads(shown.splitlines()[0])["name"]


def test_the_model_chooses_among_as_many_tools_as_are_named(tmp_path):
    data = LOADERS["mem2actbench"](tools_file(tmp_path / "tools"))
    data = with_distractors(data, HashEmbeddings(), 3)
    specs = chosen(["bm25", "ours-reason"], answering=True, has_model=True)
    specs += offering(specs, [1, 3])
    model = Chooses()
    made = job(tmp_path / "b", "mem2actbench", model, None, specs=specs)
    rows, text = measured(replace(made, data=data))
    by = {}
    for row in rows:
        by.setdefault(row["system"], []).append(row["reply"])
    assert set(by) == {
        f"{name}{more}"
        for name in ("bm25", "ours-reason")
        for more in ("", " +1 random", " +3 random", " +1 hard", " +3 hard")
    }
    assert [reply["tool"] for reply in by["bm25"]] == list(TOOLS)
    right = [
        reply["tool"] == name
        for reply, name in zip(by["bm25 +3 hard"], TOOLS, strict=True)
    ]
    assert not all(right)  # the right tool does not always stand first
    lines = [asked.splitlines() for name, asked in model.asked if name == "Filled"]
    assert {sum('"parameters"' in line for line in one) for one in lines} == {1, 2, 4}
    assert (
        by["ours-reason"][0]["spent"]["calls"]
        < by["ours-reason +1 hard"][0]["spent"]["calls"]
    )
    assert "tool_accuracy" in text


def entries_file(folder):
    """The small person, whose replies were made from entries that the sessions have."""
    file = tiny.realmem(folder) / "realmem" / "Some_One.json"
    person = json.loads(file.read_text())
    for number, session in enumerate(person["dialogues"], 1):
        texts = [f"memory of s{number}", f"other of s{number}"]
        session["extracted_memory"] = [
            {"content": one, "source_turn": 1} for one in texts
        ]
    file.write_text(json.dumps(person))
    return folder


def test_entries_stand_in_place_of_what_was_said(tmp_path):
    data = as_entries(LOADERS["realmem"](entries_file(tmp_path)))
    (person,) = data.conversations
    assert data.by == "message"
    assert person.sessions[0].messages == [
        {
            "id": f"s1#{n}",
            "role": "user",
            "content": text,
            "at": "2025-12-24T00:00:00+00:00",
        }
        for n, text in ((1, "memory of s1"), (2, "other of s1"))
    ]
    # the reply to the first query also names entries of its own session and of a later one
    assert [set(one.gold) for one in person.questions] == [
        {"s1#1"},
        {"s1#1", "s2#1"},
        set(),
    ]
    with pytest.raises(
        InvalidInputError, match="LoCoMo does not say which entries are gold"
    ):
        as_entries(LOADERS["locomo"](tiny.locomo(tmp_path / "other")))


def options(tmp_path, name, folder, **more):
    return Options(name, folder, tmp_path / "runs", embeddings="hash", **more)


def test_entries_are_searched_and_counted_by_entry_and_by_session(tmp_path):
    folder = entries_file(tmp_path / "data")
    text = bench(options(tmp_path, "realmem", folder, unit="entry"))
    assert "gold are messages" in text
    by_entry, by_session = text.split("The sessions of the first 20 entries")
    # with two and four entries in memory everything is found
    assert "| naive-rag | 1.000 | 1.000 | 1.000 |" in by_entry
    assert "| naive-rag | 1.000 | 1.000 | 1.000 |" in by_session
    assert "ours+records" not in text  # it has no records beside the entries
    with pytest.raises(InvalidInputError, match="Gold of LoCoMo are messages"):
        bench(options(tmp_path, "locomo", tiny.locomo(tmp_path / "b"), unit="session"))


def test_whole_sessions_are_shown_in_the_room_of_everything(tmp_path, monkeypatch):
    model = Model(
        "Fine.",
        ScaleVerdict={"reason": "part", "score": 2},
        MemoryVerdict={"found": [1], "helpful": 1},
    )
    monkeypatch.setattr(command, "load_chat_model", lambda *a, **o: model)
    file = tiny.realmem(tmp_path / "data") / "realmem" / "Some_One.json"
    person = json.loads(file.read_text())
    person["dialogues"][0]["dialogue_turns"][0]["content"] += (
        " word" * 2_000 + " its end"
    )
    file.write_text(json.dumps(person))
    asked = {"model": "x", "judge": "same", "systems": "ours,bm25"}
    text = bench(options(tmp_path, "realmem", file, unit="session", **asked))
    shown = [
        one for name, one in model.asked if 'says: "How far' in one and name == "text"
    ]
    assert len(shown) == 2
    assert all("I plan a shed." in one and "its end" in one for one in shown)
    # the assistant's turn is of the session
    assert all("Noted." in one for one in shown)
    assert "reader context, 100,000 tokens of memory" in text
    (folder,) = [one for one in (tmp_path / "runs").iterdir() if one.is_dir()]
    rows = [
        json.loads(line) for line in (folder / "items.jsonl").read_text().splitlines()
    ]
    first = [one["reply"]["shown_ids"] for one in rows if one.get("question") == "s2:1"]
    assert first == [["s1"], ["s1"]]


def test_the_papers_rubrics_stand_beside_ours(tmp_path):
    """The paper's judgement comes after ours; the third message has no memories to find."""
    two, one = {"reason": "a part", "score": 2}, {"reason": "general", "score": 1}
    judging = Model(
        ScaleVerdict=[two, one] * 3,
        MemoryVerdict=[{"found": [1, 2], "helpful": 2}, {"found": [1], "helpful": 0}]
        * 2,
    )
    made = job(
        tmp_path, "realmem", Model("Fine."), judging, ["bm25"], paper_rubrics=True
    )
    rows, text = measured(made)
    assert rows[0]["scores"] == {
        "score": pytest.approx(2 / 3),
        "qa_0_to_3": 2.0,
        "memory_recall": pytest.approx(2 / 3),
        "memory_helpful": 1.0,
        "paper_score": pytest.approx(1 / 3),
        "paper_qa_0_to_3": 1.0,
        "paper_memory_recall": pytest.approx(1 / 3),
        "paper_memory_helpful": 0.0,
    }
    assert rows[0]["reason"] == "a part"
    assert (
        "QA 0–3, paper's rubric | memory recall, paper's | memory helpful, paper's"
        in text
    )
    prompts = [messages[0].text for messages in judging.requests]
    assert prompts.count(prompt_text("judge_scale_paper")) == 3
    assert prompts.count(prompt_text("judge_memory_paper")) == 2
    with pytest.raises(InvalidInputError, match="--paper-rubrics are RealMem's"):
        bench(
            options(tmp_path, "locomo", tiny.locomo(tmp_path / "b"), paper_rubrics=True)
        )


def test_either_speaker_is_the_user_once(tmp_path):
    data = LOADERS["locomo"](tiny.locomo(tmp_path))
    (talk,) = data.conversations
    asked = [
        Question("q1", "What does Mira plant?", frozenset({"D2:2"})),  # named
        # Olek's words
        Question("q2", "What do Mira and Olek say?", frozenset({"D2:2"})),
        Question("q3", "What was planted, Miranda asks?", frozenset({"D2:1"})),
        Question("q4", "What does Olek say?"),  # without evidence
    ]
    data = replace(data, conversations=[replace(talk, questions=asked)])
    mira, olek = by_speaker(data).conversations
    assert (mira.name, olek.name) == ("small (Mira)", "small (Olek)")
    assert [one.id for one in mira.questions] == ["q1", "q3"]
    assert [one.id for one in olek.questions] == ["q2"]
    roles = [(one["id"], one["role"]) for s in mira.sessions for one in s.messages]
    assert roles == [
        ("setup:1", "user"),
        ("setup:2", "assistant"),
        ("D1:1", "user"),
        ("D2:1", "user"),
        ("D2:2", "assistant"),
    ]
    # the other speaks first, and nobody need answer for him
    assert [one["id"] for one in olek.sessions[0].messages] == ["setup:1", "D1:1"]
    assert (
        olek.sessions[0]
        .messages[0]["content"]
        .startswith("I am Olek, and you are Mira.")
    )
    alone = replace(talk, sessions=talk.sessions[:1])
    with pytest.raises(InvalidInputError, match="small has no two speakers: Mira"):
        by_speaker(replace(data, conversations=[alone]))


def test_answers_of_several_seeds_have_a_mean_and_a_spread(tmp_path, monkeypatch):
    made = []

    def load(name, base_url, **given):
        made.append({"name": name, **given})
        return Model(
            "yes", Verdict=lambda asked: {"reason": "so", "correct": len(runs()) != 2}
        )

    def runs():
        return [one for one in made if "seed" in one]

    monkeypatch.setattr(command, "load_chat_model", load)
    folder = tiny.locomo(tmp_path / "data")
    asked = {"model": "x", "judge": "same", "systems": "bm25"}
    text = bench(options(tmp_path, "locomo", folder, seeds=3, **asked))
    drawn = {"name": "x", "max_tokens": 1_024, "temperature": 1.0, "top_p": 0.9}
    assert runs() == [drawn | {"seed": seed} for seed in (1, 2, 3)]
    judges = [one for one in made if "seed" not in one]
    assert judges == [{"name": "x", "max_tokens": 1_024, "temperature": 0.0}] * 3
    # right, wrong, right: mean 2/3, and a deviation of the square root of 1/3
    assert "## LoCoMo: mean and standard deviation of 3 seeds" in text
    assert "| bm25 | 0.667 ± 0.577 | 0.250 ± 0.000 |" in text
    assert "Without category 5" in text
    assert len(list((tmp_path / "runs").glob("locomo-answer-*/report.md"))) == 3
    (file,) = (tmp_path / "runs").glob("locomo-seeds-*.md")
    assert file.read_text(encoding="utf-8") == text
    with pytest.raises(InvalidInputError, match="--seeds are of answers"):
        bench(options(tmp_path, "locomo", folder, seeds=2))


def test_tool_calls_of_several_seeds_are_averaged_too(tmp_path, monkeypatch):
    filled = {"name": "book", "arguments": json.dumps({"city": "Rome", "guests": 2})}
    monkeypatch.setattr(
        command, "load_chat_model", lambda *a, **o: Model(Filled=filled)
    )
    folder = tiny.mem2actbench(tmp_path / "data")
    more = {"model": "x", "systems": "oracle", "seeds": 2}
    text = bench(options(tmp_path, "mem2actbench", folder, **more))
    assert "| oracle | 1.000 ± 0.000 |" in text
    assert "tool_accuracy" in text


def test_a_sweep_over_edges_reads_once_and_tells_what_the_graph_brings(
    tmp_path, monkeypatch
):
    """Three records of one cluster, two of which share more words than the third with them."""
    plan = {
        "intent": "act",
        "risks": [{"claim": "Wet.", "examples": ["a wet red shed roof"]}],
    }
    model = Model("yes", Extraction=ANSWERS["Extraction"], GoalPlan=plan)
    monkeypatch.setattr(command, "load_chat_model", lambda *a, **o: model)
    said = ("red shed with a roof", "red shed with a door", "red boat with a sail")
    talk = [{"role": "user", "content": one} for one in said]
    row = tiny.haystack("r1", question="Paint the roof?", answer="It is wet.")
    row |= {"haystack_sessions": [talk, []]}
    (tmp_path / "ActMemEval.json").write_text(json.dumps([row]))
    found = [Fact(id=one, text=f"It {one}.") for one in ("rains", "snows")]
    monkeypatch.setattr(edges, "linked_facts", lambda *given: found)
    text = bench(
        options(tmp_path, "actmemeval", tmp_path, model="x", edges="0.1,0.7,0.99")
    )
    table = text.split(
        "Semantic edges of a record, and facts that edges brought to a question"
    )[1]
    assert "| edges from 0.1 | 2.00 | 2.00 |" in table  # each with both others
    assert "| edges from 0.7 | 0.67 | 2.00 |" in table  # one edge among three records
    assert "| edges from 0.99 | 0.00 | 2.00 |" in table
    assert [name for name, _ in model.asked].count("Extraction") == 1
    assert sum("It snows." in asked for _, asked in model.asked) >= 3
    assert counterfactual.linked_facts is not edges.linked_facts  # as it was
    with pytest.raises(InvalidInputError, match="Numbers with commas, not 'low'"):
        bench(options(tmp_path, "actmemeval", tmp_path, model="x", edges="low"))
