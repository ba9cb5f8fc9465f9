"""A model whose calls wait in a folder: each is shown to one answerer, and answered once."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain_core.messages import HumanMessage, SystemMessage
from pydantic import BaseModel

from benchmarks import queue_model
from benchmarks.queue_model import Queue, QueueModel


class Colour(BaseModel):
    """An answer."""

    name: str


class Shape(BaseModel):
    """Another one."""

    corners: int


def body(tag, kind="Colour", user="Which?"):
    return {"kind": kind, "system": "Say it.", "user": user, "schema": {}, "tag": tag}


def asked(folder, *tags):
    queue = Queue(folder)
    return queue, [queue.ask(body(tag)) for tag in tags]


def command(*words, capsys):
    queue_model.main([str(word) for word in words])
    return capsys.readouterr().out


def test_a_call_waits_for_its_answer_and_is_read_in_its_schema(tmp_path, capsys):
    model = QueueModel(queue=Queue(tmp_path / "q"), tag="t1")
    ask = model.with_structured_output(Colour, include_raw=True)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(
            ask.invoke, [SystemMessage("Rule 7."), HumanMessage("Which?")]
        )
        shown = command("next", tmp_path / "q", "--most", 1, capsys=capsys)
        assert "Rule 7." in shown and "Which?" in shown and '"name"' in shown
        assert not waiting.done()
        (tmp_path / "a.json").write_text(json.dumps({"000001": {"name": "blue"}}))
        assert "1 answers taken" in command(
            "put", tmp_path / "q", tmp_path / "a.json", capsys=capsys
        )
        assert waiting.result(timeout=10)["parsed"] == Colour(name="blue")


def test_an_answer_outside_the_schema_is_the_callers_to_repair(tmp_path):
    queue, model = Queue(tmp_path), QueueModel(queue=Queue(tmp_path))
    ask = model.with_structured_output(Shape, include_raw=True)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ask.invoke, [HumanMessage("How many?")])
        while not queue.claim(1, "ann"):
            pass
        queue.answer("000001", '{"corners": "many"}')
        found = waiting.result(timeout=10)
    assert found["parsed"] is None and found["parsing_error"] is not None


def test_a_batch_never_shows_two_calls_of_one_conversation(tmp_path):
    queue, names = asked(tmp_path, "a", "a", "b", "a", "c")
    first = queue.claim(5, "ann")
    assert [one.name for one in first] == [names[0], names[2], names[4]]
    assert [one.name for one in queue.claim(5, "ann")] == [names[1]]


def test_several_answerers_never_get_the_same_call(tmp_path):
    queue, names = asked(tmp_path, *(f"tag-{n}" for n in range(60)))

    def take(who):
        return [one.name for _ in range(15) for one in Queue(tmp_path).claim(3, who)]

    with ThreadPoolExecutor(4) as pool:
        taken = [name for names in pool.map(take, "wxyz") for name in names]
    assert sorted(taken) == names
    assert queue.open() == []


def test_the_shares_of_answerers_are_whole_and_apart(tmp_path):
    queue, names = asked(tmp_path, *(f"tag-{n}" for n in range(30)))
    shares = [{one.name for one in queue.open((place, 3))} for place in (1, 2, 3)]
    assert set.union(*shares) == set(names)
    assert sum(map(len, shares)) == 30


def test_whoever_asks_is_known_before_the_question_has_a_number(tmp_path, monkeypatch):
    queue, known = Queue(tmp_path), []
    monkeypatch.setattr(
        queue, "_new_name", lambda: known.append(queue.is_asked()) or "000001"
    )
    queue.ask(body("a"))
    assert known == [True]


def test_two_processes_never_give_the_same_number(tmp_path):
    first, second = Queue(tmp_path), Queue(tmp_path)
    names = [queue.ask(body("a")) for _ in range(5) for queue in (first, second)]
    assert len(set(names)) == 10


def test_rules_are_shown_to_each_answerer_once(tmp_path, capsys):
    asked(tmp_path, "a", "b", "c")
    words = ("next", tmp_path, "--most", 1)
    assert "RULES" in command(*words, "--who", "ann", capsys=capsys)
    assert "RULES" not in command(*words, "--who", "ann", capsys=capsys)
    assert "RULES" in command(*words, "--who", "bo", capsys=capsys)


def test_what_was_shown_and_not_answered_can_be_shown_again(tmp_path, capsys):
    queue, names = asked(tmp_path, "a", "b")
    queue.claim(1, "ann")
    queue.claim(1, "bo")
    queue.answer(names[0], "{}")
    assert "0 questions" in command("again", tmp_path, "--who", "ann", capsys=capsys)
    assert "1 questions" in command("again", tmp_path, capsys=capsys)
    assert [one.name for one in queue.claim(5, "cy")] == [names[1]]


def test_an_answer_is_taken_once_and_only_for_a_question(tmp_path):
    queue, names = asked(tmp_path, "a")
    assert queue.answer(names[0], '{"name": "red"}') is None
    assert "before" in queue.answer(names[0], '{"name": "green"}')
    assert "no question" in queue.answer("000099", "{}")
    assert queue.wait(names[0]) == '{"name": "red"}'


@pytest.mark.parametrize("part", ["0/2", "3/2"])
def test_a_share_that_does_not_exist_is_refused(tmp_path, part, capsys):
    with pytest.raises(SystemExit):
        command("next", tmp_path, "--part", part, capsys=capsys)
    assert "from 1/2 to 2/2" in capsys.readouterr().err
