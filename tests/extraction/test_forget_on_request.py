"""What the user asks to be forgotten is in nothing that is read afterwards."""

import re
from pathlib import Path
from typing import Any

import pytest

from langmem_graph.errors import InvalidInputError
from tests.support.models import AnswersBySchema
from tests.support.traces import hits
from tests.support.writing import change, memories

CODE = "KX-7093-QL"  # in no time and no id by chance
TOLD = f"The key safe at Jean's has the code {CODE}. She is out on Mondays."
REPLY = f"Noted: {CODE}."
ASKED = "Please rub out the code of the key safe."
RECORD = {
    "text": f"The code of Jean's key safe is {CODE}.",
    "sources": ["m1"],
    "attribute": f"code {CODE}",
    "values": [{"raw": CODE, "value": CODE}],
}
MONDAYS = {"text": "Jean is out on Mondays.", "sources": ["m1"], "attribute": "absence"}
MARK = "[removed on request on 2026-05-02]"


def removal(question: str) -> dict[str, Any]:
    """Every text in which the code stands, as a capable model answers."""
    lines = re.findall(r"^([mn]\d+) .*$", question, re.MULTILINE)
    texts = dict(_lines(question))
    return {
        "remove": [
            {"text": alias, "words": CODE} for alias in lines if CODE in texts[alias]
        ]
    }


def _lines(question: str) -> list[tuple[str, str]]:
    return re.findall(r"^([mn]\d+) (.*)$", question, re.MULTILINE)


@pytest.fixture
def told(open_memory: Any) -> Any:
    """A user who has told a code, and a function that asks to forget it."""
    model = AnswersBySchema(Extraction=memories(RECORD, MONDAYS), Removal=removal)

    def make(**options: Any) -> Any:
        memory = open_memory(model, **options)
        user = memory.user("ana")
        talk = [
            {"role": "user", "content": TOLD, "id": "told"},
            {"role": "assistant", "content": REPLY, "id": "reply"},
        ]
        user.add(talk, session_id="s1", at="2026-05-01")
        user.flush()
        return user, model

    return make


def ask(user: Any, model: Any, text: str = ASKED, **fields: Any) -> Any:
    forget = change("n1", "forget", text[:-1]) | fields
    model.answers["Extraction"] = memories(changes=[forget])
    message = {"role": "user", "content": text, "id": "asked"}
    user.add([message], session_id="s2", at="2026-05-02")
    return user.flush()


def everything_read(user: Any) -> str:
    """What every way of reading shows."""
    shown: list[Any] = [user.export(), user.export_records(history=True)]
    shown += [user.recall("the code of the key safe").context]
    shown += [
        user.search_conversation(f"key safe {CODE}"),
        user.search_records(f"code {CODE}"),
    ]
    shown += [user.files(), user.records(), user.calls()]
    for row in user.export_records(history=True):
        shown += [user.history(row["record_id"]), user.changes(row["record_id"])]
        shown += [user.get_records([row["record_id"]])]
    shown += [user.get_conversation("told"), user.export_records(as_of="2026-05-01")]
    return repr(shown)


def test_it_is_in_nothing_that_is_read(told: Any) -> None:
    user, model = told()
    assert CODE in everything_read(user)
    report = ask(user, model)
    [done] = report.to_forget
    assert (done.message_id, done.everything) == ("asked", False)
    assert done.messages == ["reply", "told"]
    assert len(done.records) == 1
    assert CODE not in everything_read(user)
    assert MARK in user.recall("the code of the key safe").context
    texts = {row["id"]: row["content"] for row in user.export()}
    assert texts["told"] == TOLD.replace(CODE, MARK)
    assert texts["reply"] == f"Noted: {MARK}."
    assert MONDAYS["text"] in [row["text"] for row in user.export_records()]
    assert user.doctor(sample=0).problems == []


def test_it_is_not_shown_where_a_model_was_thinking_about_it(told: Any) -> None:
    user, model = told()

    def plan(prompt: str) -> dict[str, Any]:
        assert CODE in prompt
        ask(user, model)
        shown = re.findall(rf"^(f\d+): .*{CODE}", prompt, re.MULTILINE)
        return {"intent": "lookup", "sure": True, "facts": shown}

    model.answers["GoalPlan"] = plan
    found = user.recall("the code of the key safe", mode="reason")
    assert CODE not in str(found)


def test_texts_far_from_the_request_are_found_by_the_name(told: Any) -> None:
    user, model = told()
    model.answers["Extraction"] = memories()
    rows = [
        {"role": "user", "content": f"Some other talk, number {n}.", "id": f"o{n}"}
        for n in range(60)
    ]
    rows[30]["content"] = f"Let us walk the dog at ten, {CODE} opens the gate."
    user.add(rows, session_id="s3", at="2026-05-01")
    user.flush()

    def remove(question: str) -> dict[str, Any]:
        return removal(question) | {"names": [CODE]}

    model.answers["Removal"] = remove
    report = ask(user, model)
    assert report.to_forget[0].messages == ["o30", "reply", "told"]
    assert CODE not in everything_read(user)


def test_a_record_is_not_found_by_words_that_it_has_lost(told: Any) -> None:
    user, model = told(ranking__method="words")
    assert user.search_records(CODE)[0].score > 0
    ask(user, model)
    assert {hit.score for hit in user.search_records(CODE)} == {0}


def test_undo_brings_it_back(told: Any) -> None:
    user, model = told()
    before = user.export_records()
    ask(user, model)
    user.undo(message="asked")
    assert user.export()[0]["content"] == TOLD
    texts = {row["text"] for row in user.export_records()}
    assert texts == {row["text"] for row in before}
    assert user.search_records(f"code {CODE}")[0].text == RECORD["text"]
    assert user.doctor(sample=0).problems == []


@pytest.mark.parametrize("how", ["hide", "delete"])
def test_the_bytes_stay_only_where_it_is_hidden(
    told: Any, how: str, tmp_path: Path
) -> None:
    user, model = told(forget_on_request=how)
    ask(user, model)
    assert CODE not in everything_read(user)
    user.undo(message="asked")
    assert (CODE in everything_read(user)) is (how == "hide")
    if how == "delete":
        assert hits(tmp_path, [CODE]) == []


def test_it_names_no_argument_of_a_tool_call(told: Any, tmp_path: Path) -> None:
    user, model = told(forget_on_request="delete")
    model.answers["Extraction"] = memories()
    call = {"name": "open_safe", "args": {"tries": {CODE: 2}}, "id": "c1"}
    answer = {"role": "assistant", "content": REPLY, "tool_calls": [call]}
    user.add([{**answer, "id": "call"}], session_id="s1", at="2026-05-01")
    user.flush()
    ask(user, model)
    [kept] = user.get_conversation("call")
    assert kept.tool_calls == [call | {"args": {"tries": {MARK: 2}}}]
    assert hits(tmp_path, [CODE]) == []


def test_a_thread_that_is_sent_again_brings_nothing_back(told: Any) -> None:
    user, model = told()
    ask(user, model)
    talk = [
        {"role": "user", "content": TOLD, "id": "told"},
        {"role": "assistant", "content": REPLY, "id": "reply"},
        {"role": "user", "content": "Hello again.", "id": "new"},
    ]
    report = user.add(talk, session_id="s1")
    assert report.stored == ["new"]
    assert CODE not in everything_read(user)


@pytest.mark.parametrize("removed", ["whole", "part"])
def test_a_record_that_says_more_keeps_the_rest(told: Any, removed: str) -> None:
    user, model = told()
    whole = RECORD["text"]

    def remove(question: str) -> dict[str, Any]:
        [alias] = [alias for alias, line in _lines(question) if str(whole) in line]
        words = whole if removed == "whole" else CODE
        return {"remove": [{"text": alias, "words": words}]}

    model.answers["Removal"] = remove
    ask(user, model)
    texts = [row["text"] for row in user.export_records()]
    kept = f"The code of Jean's key safe is {MARK}."
    assert (kept in texts) is (removed == "part")
    assert len(texts) == (2 if removed == "part" else 1)


@pytest.mark.parametrize("kind", ["everything", "assistant", "unsaid", "nothing"])
def test_what_asks_for_nothing_removes_nothing(told: Any, kind: str) -> None:
    user, model = told()
    before = everything_read(user)
    if kind == "everything":
        report = ask(user, model, "Forget all you know about me.", record="all")
        assert [one.everything for one in report.to_forget] == [True]
    elif kind == "unsaid":
        report = ask(user, model, "What a fine day it is.", quote="forget the code")
    elif kind == "assistant":
        forget = change("n1", "forget", "forget the code")
        model.answers["Extraction"] = memories(changes=[forget])
        said = {"role": "assistant", "content": "I will forget the code."}
        user.add([said], session_id="s2", at="2026-05-02")
        report = user.flush()
    else:
        model.answers["Removal"] = {"remove": []}
        report = ask(user, model)
    assert kind == "everything" or all(not one.messages for one in report.to_forget)
    assert CODE in everything_read(user)
    assert user.export()[0]["content"] == TOLD
    assert before


def test_without_a_usable_answer_the_request_stays_pending(told: Any) -> None:
    user, model = told()
    model.answers["Removal"] = "I cannot."
    report = ask(user, model)
    assert report.status == "partial"
    model.answers["Removal"] = removal
    user.flush()
    assert CODE not in everything_read(user)


def test_the_option_is_checked(open_memory: Any) -> None:
    with pytest.raises(InvalidInputError, match="hide"):
        open_memory(AnswersBySchema(), forget_on_request="erase")


def test_a_text_is_kept_word_for_word(open_memory: Any) -> None:
    sign = 'SHUT THIS GATE.\nNot "nearly". SHUT.'
    row = {
        "text": "The sign at the gate has this text.",
        "sources": ["m1"],
        "verbatim": sign,
    }
    user = open_memory(AnswersBySchema(Extraction=memories(row))).user("ana")
    said = f"Keep this word for word, it is for the gate:\n{sign}\nThanks!"
    user.add([{"role": "user", "content": said}], session_id="s1")
    user.flush()
    [kept] = user.export_records()
    assert kept["text"] == f"{row['text']}\n```\n{sign}\n```"
    assert user.search_records("sign at the gate")[0].text == kept["text"]


def test_what_does_not_stand_in_the_message_is_not_kept(open_memory: Any) -> None:
    row = {"text": "The sign has a text.", "sources": ["m1"], "verbatim": "OPEN"}
    user = open_memory(AnswersBySchema(Extraction=memories(row))).user("ana")
    user.add([{"role": "user", "content": "Keep SHUT."}], session_id="s1")
    report = user.flush()
    assert user.export_records()[0]["text"] == row["text"]
    assert any("does not stand" in reason for reason in report.reasons)


def test_names_of_projects_hold_it_no_more(told: Any) -> None:
    user, model = told()
    other = {
        "text": "Jean has tea at four.",
        "sources": ["m1"],
        "project": f"Safe {CODE}",
    }
    model.answers["Extraction"] = memories(other)
    user.add(
        [{"role": "user", "content": "Jean has tea at four.", "id": "tea"}],
        session_id="s1",
        at="2026-05-01",
    )
    user.flush()
    ask(user, model)
    assert CODE not in everything_read(user)
    [tea] = [row for row in user.export_records() if "tea" in row["text"]]
    assert "project" not in tea
    user.undo(message="asked")
    assert CODE in everything_read(user)


def test_several_requests_of_a_message_are_one(told: Any) -> None:
    user, model = told()
    text = "Rub out the code, please. Never name it again."
    quotes = ["Rub out the code", "Never name it again"]
    requests = [
        change(name, "forget", quote)
        for name, quote in zip(["n1", "n2"], quotes, strict=True)
    ]
    model.answers["Extraction"] = memories(changes=requests)
    calls = len(user.calls())
    user.add(
        [{"role": "user", "content": text, "id": "asked"}],
        session_id="s2",
        at="2026-05-02",
    )
    [done] = user.flush().to_forget
    assert done.quote == " … ".join(quotes)
    assert CODE not in everything_read(user)
    made = [call.purpose for call in user.calls()][: -calls or None]
    assert made.count("forget") == 1


@pytest.mark.parametrize("how", ["hide", "delete"])
def test_later_messages_are_not_taken_for_one_that_went_whole(
    told: Any, how: str
) -> None:
    user, model = told(forget_on_request=how)
    model.answers["Removal"] = lambda question: {
        "remove": [
            {"text": alias, "words": line.partition('"')[2].rstrip('"')}
            for alias, line in _lines(question)
            if REPLY in line
        ]
    }
    ask(user, model)
    assert user.get_conversation("reply")[-1].text == MARK
    later = [
        {"role": "assistant", "content": "The market opens at nine.", "id": "later"},
        {"role": "assistant", "content": REPLY, "id": "reply"},
    ]
    user.add(later, session_id="s3", at="2026-06-02")
    texts = {row["id"]: row["content"] for row in user.export()}
    assert texts["later"] == "The market opens at nine."
    assert texts["reply"] == MARK
