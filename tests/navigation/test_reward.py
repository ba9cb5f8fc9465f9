"""The reward, the figures and the export, against values worked out by hand."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_graph.errors import InvalidInputError
from langmem_graph.memory import Memory
from langmem_graph.navigation.actions import (
    Navigation,
    ToolUse,
    navigation_tools,
    read_answer,
)
from langmem_graph.navigation.reward import (
    Rubric,
    best_f1,
    evidence_shown,
    f1_judge,
    napmem_reward,
    navigation_metrics,
    read_trajectories,
    token_f1,
    trajectory,
    write_trajectories,
)
from langmem_graph.navigation.rollouts import NavigationEnv
from tests.support.navigation import ANSWER, LOOK, SEAT, SUM, fill


def used(layer: Any = "records", turn: int = 1, **shown: Any) -> ToolUse:
    return ToolUse(name="search_records", arguments={}, turn=turn, layer=layer, **shown)


def walked(*uses: ToolUse, item: Any = SEAT, **fields: Any) -> Navigation:
    fields = {
        "finish": "answered",
        "answer": "An aisle seat.",
        "well_formed": True,
        **fields,
    }
    about = {"user_id": item.user_id, "question": item.question}
    return Navigation(**about, tool_calls=list(uses), turns=len(uses), **fields)


@pytest.mark.parametrize(
    ("answer", "gold", "f1"),
    [
        ("an aisle seat", "Aisle seat!", 1.0),
        ("aisle", "aisle seat", 2 / 3),  # precision 1, recall 1/2
        ("a seat by the aisle, always", "aisle seat", 2 * 2 / (4 + 2)),
        # a word counts as often as both have it
        ("seat seat", "seat", 2 * 1 / (2 + 1)),
        ("window", "aisle", 0.0),
        ("", "aisle", 0.0),
        ("the", "", 1.0),  # both have no words
        ("Größe 38", "GRÖSSE 38", 1.0),
        ("3.5", "35", 0.0),
    ],
)
def test_f1_of_words(answer: str, gold: str, f1: float) -> None:
    assert token_f1(answer, gold) == pytest.approx(f1)
    assert token_f1(gold, answer) == pytest.approx(f1)


def test_f1_against_several_answers_is_the_best() -> None:
    assert best_f1("aisle", ["window", "aisle seat"]) == pytest.approx(2 / 3)
    assert best_f1("aisle", []) == 0.0
    assert f1_judge(0.6)(SEAT, "aisle")
    assert not f1_judge(0.7)(SEAT, "aisle")


TABLE = {  # format, correct, used: the paper's 3.4
    (True, True, True): 1.0,
    (True, True, False): 0.0,
    (True, False, True): -0.5,
    (True, False, False): -1.0,
    (False, True, True): -1.0,
    (False, True, False): -1.0,
    (False, False, True): -1.0,
    (False, False, False): -1.0,
}


@pytest.mark.parametrize(("case", "reward"), TABLE.items())
def test_the_papers_table(case: tuple[bool, bool, bool], reward: float) -> None:
    well_formed, correct, looked = case
    assert (
        napmem_reward(well_formed=well_formed, correct=correct, used=looked) == reward
    )
    uses = [used()] if looked else []
    done = walked(
        *uses, well_formed=well_formed, answer="Aisle seat." if correct else "Window."
    )
    assert Rubric(usage=True).score(SEAT, done).reward == reward
    asked = TABLE[well_formed, correct, True]  # without the term: as if it had looked
    assert Rubric().score(SEAT, done).reward == asked
    assert (
        Rubric(usage=True)
        .score(SEAT.model_copy(update={"needs_memory": False}), done)
        .reward
        == asked
    )


def test_a_call_that_read_nothing_is_no_look() -> None:
    """Or a policy earns the third term with calls of tools that do not exist."""
    broken = ToolUse(
        name="unknown", arguments={}, turn=1, error="The call names no tool."
    )
    score = Rubric(usage=True).score(SEAT, walked(broken, answer="Aisle seat."))
    assert (score.used, score.reward) == (False, 0.0)
    assert (
        Rubric(usage=True).score(SEAT, walked(broken, used(), answer="Aisle.")).reward
        == 1.0
    )


@pytest.mark.parametrize(
    "finish", ["over_budget", "no_answer", "token_limit", "model_error", "unfinished"]
)
def test_what_did_not_answer_is_malformed(finish: Any) -> None:
    score = Rubric().score(SEAT, walked(used(), finish=finish))
    assert (score.reward, score.well_formed, score.correct) == (-1.0, False, False)


def test_a_judge_decides_and_sees_item_and_answer() -> None:
    seen = []

    def judge(item: Any, answer: str) -> float:
        seen.append((item.id, answer))
        return 0.49 if answer == "no" else 0.5

    assert Rubric(judge=judge).score(SEAT, walked(answer="yes")).correct
    assert not Rubric(judge=judge).score(SEAT, walked(answer="no")).correct
    # not asked about malformed ones
    Rubric(judge=judge).score(SEAT, walked(well_formed=False))
    assert seen == [("q1", "yes"), ("q1", "no")]


def test_evidence_is_added_by_its_share() -> None:
    item = SEAT.model_copy(update={"evidence": ["m1", "m2", "r1", "m4"]})
    done = walked(
        used(message_ids=["m1", "m9"]), used(record_ids=["r1"], message_ids=["m1"])
    )
    assert evidence_shown(item, done) == 0.5
    assert Rubric(evidence=0.4).score(item, done).reward == pytest.approx(1.2)
    assert Rubric().score(item, done).reward == 1.0
    malformed = walked(*done.tool_calls, well_formed=False)
    assert Rubric(evidence=0.4).score(item, malformed).reward == -1.0
    assert evidence_shown(SUM, done) is None
    assert Rubric(evidence=0.4).score(SUM, walked(answer="4", item=SUM)).reward == 1.0
    for weight in (-0.1, 0.5, float("nan")):
        with pytest.raises(InvalidInputError, match="evidence"):
            Rubric(evidence=weight)


@given(
    evidence=st.floats(0, 0.49),
    usage=st.booleans(),
    share=st.integers(0, 4),
    looked=st.booleans(),
)
def test_no_term_makes_a_wrong_answer_worth_a_right_one(
    evidence: float, usage: bool, share: int, looked: bool
) -> None:
    rubric = Rubric(evidence=evidence, usage=usage)
    item = SEAT.model_copy(update={"evidence": ["1", "2", "3", "4"]})
    shown = [str(n + 1) for n in range(share)]
    wrong = rubric.score(item, walked(used(message_ids=shown), answer="Window."))
    right = rubric.score(item, walked(*([used()] if looked else [])))
    assert -1 <= wrong.reward < right.reward <= 1.5


@pytest.mark.parametrize(
    ("text", "answer", "well_formed"),
    [
        ('{"answer": "Aisle", "reason": "m1"}', "Aisle", True),
        ('{"answer": " Aisle "}', "Aisle", True),
        ('```json\n{"answer": "Aisle"}\n```', "Aisle", True),
        ('<think>{"answer": "Window"}</think>\n{"answer": "Aisle"}', "Aisle", True),
        ('It is {"answer": "Aisle"}.', "Aisle", False),
        ('{"answer": "Window"} or {"answer": "Aisle"}', "Aisle", False),
        ('{"answer": "Aisle"', '{"answer": "Aisle"', False),
        ('{"answer": ""}', "", False),
        ('{"answer": "Aisle", "reason": 7}', "Aisle", False),
        ('{"answer": 4}', "4", False),
        ('{"answer": null}', "null", False),
        ('["answer"]', '["answer"]', False),
        ("Aisle", "Aisle", False),
        ("{" * 50_000, "{" * 50_000, False),
        ('{"answer": "\\ud800"}', "?", True),
    ],
)
def test_the_final_answer(text: str, answer: str, well_formed: bool) -> None:
    read = read_answer(text)
    assert (read.answer, read.well_formed) == (answer, well_formed)


def test_the_figures() -> None:
    lost = SEAT.model_copy(update={"question": "Where are my keys?", "evidence": []})
    pairs = [
        (
            SEAT,
            walked(
                used(message_ids=["m1"]),
                used("messages", message_ids=["m2"]),
                input_tokens=90,
            ),
        ),
        (SEAT, walked(used(None, record_ids=[]), used(), output_tokens=6)),
        (
            lost,
            walked(
                used("topics"), used("profile"), used(), item=lost, finish="over_budget"
            ),
        ),
        (SUM, walked(item=SUM)),
        (SUM, walked(used(message_ids=["m1"]), item=SUM)),
        (SUM, walked(used(None), item=SUM, finish="no_answer")),
    ]
    found = navigation_metrics([done for _, done in pairs], [item for item, _ in pairs])
    assert found.model_dump() == {
        "items": 6,
        "answered": pytest.approx(4 / 6),
        "tool_calls": pytest.approx((2 + 2 + 3) / 3),
        "turns": pytest.approx((2 + 2 + 3) / 3),
        "multi_level": pytest.approx(2 / 3),  # a failed call read no layer
        # of the four calls for items with evidence
        "evidence_hit": pytest.approx(1 / 4),
        "evidence_recall": pytest.approx(1 / 2),
        "unneeded_calls": pytest.approx(2 / 3),
        "tokens": pytest.approx((90 + 6) / 6),
    }


def test_figures_of_nothing_are_none_and_strangers_are_refused() -> None:
    nothing = navigation_metrics([], []).model_dump()
    assert nothing.pop("items") == 0
    assert set(nothing.values()) == {None}
    # no call was made
    assert navigation_metrics([walked()], [SEAT]).evidence_hit is None
    with pytest.raises(InvalidInputError, match="1 navigations, but 2"):
        navigation_metrics([walked()], [SEAT, SEAT])
    with pytest.raises(InvalidInputError, match="another's"):
        navigation_metrics([walked()], [SUM])


@pytest.fixture
def known(memory: Memory) -> Memory:
    return fill(memory)


def test_trajectories_are_read_back_as_they_were(known: Memory, tmp_path: Path) -> None:
    env = NavigationEnv(known)
    made = []
    for item, actions in [(SEAT, [LOOK, "", LOOK, ANSWER]), (SUM, ["Vier – ☃"])]:
        env.reset(item)
        for action in actions:
            env.step(action)
        made.append(trajectory(env.navigation, item, Rubric(evidence=0.2)))
    made.append(trajectory(env.navigation))
    path = tmp_path / "walks.jsonl"
    assert write_trajectories(path, made) == 3
    assert list(read_trajectories(path)) == made
    assert [one.reward for one in made] == [1.2, -1.0, None]
    assert write_trajectories(path, iter(made[:1])) == 1  # over what was there
    assert list(read_trajectories(path)) == made[:1]
    write_trajectories(path, made)
    right = (one for one in read_trajectories(path) if one.reward and one.reward > 0)
    assert write_trajectories(path, right) == 1  # out of the very file that is written
    assert list(read_trajectories(path)) == made[:1]

    def broken() -> Any:
        yield made[1]
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        write_trajectories(path, broken())
    assert list(read_trajectories(path)) == made[:1]
    assert [file.name for file in tmp_path.glob("walks*")] == [path.name]
    assert write_trajectories(path, []) == 0
    assert list(read_trajectories(path)) == []


def test_a_line_is_a_chat_with_tools_reward_and_metadata(
    known: Memory, tmp_path: Path
) -> None:
    env = NavigationEnv(known)
    env.reset(SEAT)
    env.step(LOOK)
    env.step(ANSWER)
    write_trajectories(tmp_path / "walks.jsonl", [trajectory(env.navigation, SEAT)])
    (line,) = (tmp_path / "walks.jsonl").read_text(encoding="utf-8").splitlines()
    row = json.loads(line)
    assert set(row) == {"version", "messages", "tools", "reward", "metadata"}
    assert row["tools"] == navigation_tools()
    _, _, asked, shown, answered = row["messages"]
    assert [one["role"] for one in row["messages"]] == [
        *("system", "user", "assistant", "tool", "assistant")
    ]
    (call,) = asked["tool_calls"]
    assert call == {
        "id": "call-1-1",
        "type": "function",
        "function": {"name": "search_conversation", "arguments": '{"query": "seat"}'},
    }
    assert shown["tool_call_id"] == "call-1-1"
    assert json.loads(answered["content"]) == ANSWER
    (use,) = row["metadata"]["tool_calls"]
    assert (use["layer"], use["turn"]) == ("messages", 1)
    assert row["metadata"]["score"]["correct"] is True
    assert row["metadata"]["item"]["id"] == "q1"


@pytest.mark.parametrize(
    "line",
    ["{", "{}", "[]", '{"version": 2}', '{"version": 1, "messages": [], "tools": []}'],
)
def test_a_line_that_is_no_trajectory_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "walks.jsonl"
    write_trajectories(path, [trajectory(walked(messages=[{"role": "user"}] * 2))])
    path.write_text(path.read_text() + "\n" + line + "\n")
    found = read_trajectories(path)
    assert next(found).metadata.question == SEAT.question
    with pytest.raises(InvalidInputError, match="line 3"):
        next(found)


def test_bytes_that_are_no_text_are_named_too(tmp_path: Path) -> None:
    path = tmp_path / "walks.jsonl"
    path.write_bytes(b"\xff\xfe{")
    with pytest.raises(InvalidInputError, match=r"walks\.jsonl, line 1"):
        list(read_trajectories(path))
