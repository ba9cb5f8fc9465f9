"""Answer mode from data to report, with scripted models that answer and judge, and misbehave."""

import json
from dataclasses import replace

import pytest
from langchain_core.messages import AIMessage

from benchmarks.data import LOADERS
from benchmarks.data.items import Question, Session
from benchmarks.models import Speaker
from benchmarks.readers import ContextReader, NavigateReader, Reply
from benchmarks.systems.baselines import FullContext
from langmem_graph.testing import ScriptedChatModel
from tests.benchmarks import tiny
from tests.benchmarks.scripted import PLAIN, RIGHT, Model, Walker, job, measured
from tests.support.models import AnswersBySchema


def test_locomo_is_answered_and_judged(tmp_path):
    model = Model("yes")
    judging = AnswersBySchema(
        Verdict=lambda asked: RIGHT | {"correct": "Beans?" in asked}
    )
    made = job(tmp_path, "locomo", model, judging, prices=(1.0, 2.0))
    rows, text = measured(made)
    assert len(rows) == 4 * len(PLAIN)
    by = {(row["system"], row["question"]): row for row in rows}
    # right by the judge, and `yes` is the gold's only word
    assert by["bm25", "q1"]["scores"] == {"f1": 1.0, "bleu1": 1.0, "score": 1.0}
    # it should have abstained
    assert by["bm25", "q4"]["scores"] == {"f1": 0.0, "score": 0.0}
    assert not any(row["failures"] for row in rows)
    assert "| bm25 | 0.250 | 0.250 |" in text
    assert "Without category 5" in text
    # 4 questions: one call of 10 + 5 tokens each, and one of the judge's; 4 * (10 + 2 * 5) / 1e6
    assert "| bm25 | 4 | 40 | 20 | 4 | 60 | 0.0001 |" in text
    full = next(
        asked for _, asked in model.asked if "beans" in asked and "shed" in asked
    )
    assert full.startswith("Now: 2024-03-02T09:00:00+00:00\nRemembered:\n[2024-03-01]")
    rule = [
        asked for _, asked in judging.asked if "Only an answer that says so" in asked
    ]
    assert len(rule) == len(PLAIN)


def test_failures_are_counted_and_never_dropped(tmp_path):
    broken = AnswersBySchema(Verdict={"reason": "no verdict"})
    rows, text = measured(job(tmp_path, "locomo", Model(""), broken, ["bm25"]))
    assert [len(row["failures"]) for row in rows] == [1, 1, 1, 1]
    assert all(row["scores"]["score"] == 0 for row in rows)
    assert "| bm25 | 0.000 |" in text
    assert text.count("| 4 | 0 |") >= 1  # answers failed, judgements failed
    rows, text = measured(job(tmp_path / "b", "locomo", Model("yes"), broken, ["bm25"]))
    assert all(row["failures"][0].startswith("judge: Verdict") for row in rows)
    assert "| 0 | 4 |" in text
    assert len(broken.asked) == 4 * 2  # each asked once more


def test_a_model_that_breaks_down_is_a_failure(tmp_path):
    model = ScriptedChatModel(script=[ConnectionError("gone")])
    rows, text = measured(job(tmp_path, "locomo", model, None, ["bm25"]))
    assert all(row["reply"]["failed"] for row in rows)
    assert "answer: ConnectionError: gone" in text
    assert "none: answers are not judged" not in text.split("## Run")[0]


def test_whatever_fails_can_be_written_down(tmp_path):
    model = ScriptedChatModel(script=[ValueError("half \ud83d\n# a sign")])
    made = job(tmp_path, "locomo", model, None, ["bm25"])
    talk = made.data.conversations[0]
    asked = [replace(one, category="a|b\nc" + one.id) for one in talk.questions]
    talks = [replace(talk, questions=asked)]
    _, text = measured(replace(made, data=replace(made.data, conversations=talks)))
    assert "- bm25: answer: ValueError: half ? # a sign\n" in text
    assert "| a\\|b cq1 | 1 | 0.000 |" in text
    assert (made.folder / "report.md").read_text(encoding="utf-8") == text


def test_realmem_is_scored_as_in_the_paper(tmp_path):
    judging = AnswersBySchema(
        ScaleVerdict={"reason": "part", "score": 2},
        MemoryVerdict={"found": [1, 1, 9], "helpful": 1},
    )
    rows, text = measured(
        job(tmp_path, "realmem", Model("The shed is near."), judging, ["bm25"])
    )
    first, second, third = rows
    # 1 of 3 memories; a number that is not on the list does not count
    assert first["scores"]["memory_recall"] == pytest.approx(1 / 3)
    assert first["scores"]["qa_0_to_3"] == 2
    assert first["scores"]["score"] == pytest.approx(2 / 3)
    assert second["scores"]["memory_recall"] == pytest.approx(1 / 2)
    assert "memory_recall" not in third["scores"]  # no memory to recall
    assert "| bm25 | 0.667 | 2.000 | 0.417 | 0.500 |" in text
    assert "| bm25 | 0.000 | 0.000 | 1.000 | 0.000 |" in text  # shares of 0, 1, 2, 3


def test_gold_does_not_change_what_the_model_is_told(tmp_path):
    """A message of RealMem without gold memories is answered as any other, and at its time."""
    prompts = []

    class Listening(Model):
        def _generate(self, messages, *args, **options):
            prompts.append(messages[0].text)
            return super()._generate(messages, *args, **options)

    model = Listening("Fine.")
    rows, _ = measured(job(tmp_path, "realmem", model, None, ["bm25"]))
    assert len(rows) == 3
    assert len(set(prompts)) == 1
    assert all(asked.startswith("Now: 2025-12-24") for _, asked in model.asked)


def test_what_a_navigator_read_is_what_the_judge_sees_as_found(tmp_path):
    judging = AnswersBySchema(
        ScaleVerdict={"reason": "part", "score": 2},
        MemoryVerdict={"found": [1], "helpful": 1},
    )
    made = job(tmp_path, "realmem", Walker(), judging, ["ours"], reader=NavigateReader)
    talk = made.data.conversations[0]
    beans = [replace(talk.questions[0], text="Beans? the shed")]
    made = replace(
        made, data=replace(made.data, conversations=[replace(talk, questions=beans)])
    )
    rows, text = measured(made)
    (asked,) = [asked for name, asked in judging.asked if name == "MemoryVerdict"]
    assert "I plan a shed." in asked.split("Found:")[1]
    assert rows[0]["scores"]["memory_recall"] == pytest.approx(1 / 3)
    table = text.split("How memory was navigated")[1]
    line = next(one for one in table.splitlines() if one.startswith("| ours |"))
    cells = [cell.strip() for cell in line.split("|")[2:-1]]
    # one gold session of two messages, of which one hit: the session was found
    assert cells[5] == "1.000"


def test_what_a_question_does_not_measure_is_in_no_mean(tmp_path, monkeypatch):
    """Without a judge a preference has no score at all, which is not the same as 0."""
    drawn = {}
    monkeypatch.setattr(
        "benchmarks.report.plots.bars", lambda panels, file: drawn.update(panels)
    )
    made = job(tmp_path, "longmemeval", Model("Pixel"), None, ["bm25"])
    first, second = made.data.conversations
    likes = replace(second.questions[0], rule="preference", category="likes")
    talks = [first, replace(second, questions=[likes])]
    _, text = measured(replace(made, data=replace(made.data, conversations=talks)))
    header, _, line = text.splitlines()[2:5]
    figures = dict(zip(header.split(" | "), line.split(" | "), strict=True))
    assert (figures["F1"], figures["mean of conversations"]) == ("1.000", "1.000")
    assert "| knowledge-update | 1 | 1.000 |" in text
    assert "| likes | 1 | – |" in text
    assert drawn == {"LongMemEval: F1": {"bm25": [1.0]}}


def test_nothing_measured_is_no_plot(tmp_path):
    made = job(tmp_path, "actmemeval", Model("Wait."), None, ["bm25"])
    _, text = measured(made)
    assert "0.000" not in text.split("## Efficiency")[0]
    assert not (made.folder / "scores.png").exists()


@pytest.mark.parametrize(
    ("answer", "chosen_one"),
    [
        ("B", 1),
        ("(b)", 1),
        ("Option C", 2),
        ("A: because", 0),
        ("A night train is best", None),
        ("J", None),
        ("I don't know", None),
        ("", None),
    ],
)
def test_a_navigator_chooses_by_letter(tmp_path, answer, chosen_one):
    model = ScriptedChatModel(script=[json.dumps({"answer": answer, "reason": "so"})])
    made = job(tmp_path, "personamem", model, None, ["ours"], reader=NavigateReader)
    (row,), text = measured(made)
    (question,) = made.data.conversations[0].questions
    expected = "" if chosen_one is None else question.options[chosen_one]
    assert row["reply"]["choice"] == expected
    assert row["scores"]["score"] == (expected == question.answer)
    assert bool(row["failures"]) == (chosen_one is None)
    asked = model.requests[0][-1].text
    assert all(option in asked for option in question.options)
    assert "How memory was navigated" in text


def test_what_was_shown_is_kept_where_the_report_needs_it(tmp_path):
    """A context of 100,000 tokens for every question would fill memory and disk."""
    rows, _ = measured(job(tmp_path, "locomo", Model("yes"), None, ["full-context"]))
    assert all(row["reply"]["shown"] == [] for row in rows)
    assert all(row["reply"]["shown_ids"] for row in rows)
    model = Model(Filled={"name": "book", "arguments": "{}"})
    rows, _ = measured(job(tmp_path / "b", "mem2actbench", model, None, ["bm25"]))
    assert all(row["reply"]["shown"] for row in rows)


@pytest.mark.parametrize(
    ("said", "finish", "calls"),
    [
        ([AIMessage('{"answer": "yes"}')], "answered", 1),
        ([AIMessage("")] * 5, "no_answer", 5),
        ([ConnectionError("gone")], "model_error", 1),
    ],
)
def test_every_call_of_a_navigating_model_is_counted(tmp_path, said, finish, calls):
    model = ScriptedChatModel(script=list(said))
    made = job(tmp_path, "locomo", model, None, ["ours"], reader=NavigateReader)
    rows, _ = measured(made)
    reply = rows[0]["reply"]
    assert (reply["navigation"]["finish"], reply["spent"]["calls"]) == (finish, calls)


def test_full_context_is_whole_and_in_the_order_in_which_it_was_said():
    system, seen = FullContext(10_000), []

    class Seeing(ContextReader):
        def read(self, question, context):
            seen.append(context)
            return Reply()

    said = [
        {
            "id": f"m{n}",
            "role": "user",
            "content": f"line {n} " + "x" * 3_000 + f" end {n}",
        }
        for n in range(4)
    ]
    system.add(Session("s", said))
    system.answer(Question("q", "what?"), 20, Seeing(Speaker(Model()), 10))
    ends = [
        seen[0].text.index(f"{word} {n}") for n in range(4) for word in ("line", "end")
    ]
    assert ends == sorted(ends)
    small = FullContext(1_400)
    small.add(Session("s", said))
    small.answer(Question("q", "what?"), 20, Seeing(Speaker(Model()), 10))
    assert 0 < seen[1].left_out < 4
    assert "end 3" in seen[1].text  # the latest


def test_a_choice_needs_no_judge(tmp_path):
    data = LOADERS["personamem"](tiny.personamem(tmp_path / "peek"))
    options = data.conversations[0].questions[0].options
    letter = "ABC"[options.index("By the night train.")]
    rows, text = measured(
        job(tmp_path, "personamem", Model(Chosen={"letter": letter}), None, ["ours"])
    )
    assert rows[0]["scores"] == {"score": 1.0}
    assert "| ours | 1.000 |" in text
    wrong = Model(Chosen={"letter": "J"})  # there is no such option
    rows, _ = measured(job(tmp_path / "b", "personamem", wrong, None, ["ours"]))
    assert rows[0]["scores"] == {"score": 0.0}
    assert "give one of ABC" in rows[0]["failures"][0]
