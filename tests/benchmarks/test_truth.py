"""`python -m benchmarks truth` and `truth-judge`, with a scripted model and two small cases."""

import gzip
import json
import re
import shutil
import sys
from datetime import date

import pytest

from benchmarks import __main__ as entry
from benchmarks.common import REPOSITORY
from benchmarks.truth import command, judging, keeping, watching
from benchmarks.truth.cases import FILLER, chosen_filler, read_cases, read_lines
from benchmarks.truth.command import file_of, outcomes
from benchmarks.truth.outcome import quotes
from benchmarks.truth.report import share
from benchmarks.truth.watching import read_recording
from langmem_graph.errors import InvalidInputError, LangMemGraphError
from langmem_graph.testing import HashEmbeddings, ScriptedChatModel

JOB, NEW_JOB = (
    "I bake bread at the mill in Elm Street.",
    "I left the mill, I print posters now.",
)
HOBBY, NEW_HOBBY = "On Sundays I play the cello.", "I also row on the lake these days."
OLD, NEW = "The user bakes bread at the mill in Elm Street.", "The user prints posters."
CELLO, ROWS = "The user plays the cello on Sundays.", "The user rows on the lake."


def talk(*said):
    turns = [
        ({"role": "user", "content": text}, {"role": "assistant", "content": "I see."})
        for text in said
    ]
    return [message for turn in turns for message in turn]


CASES = [
    {
        "id": "k1",
        "language": "en",
        "kind": "replaced",
        "group": "change",
        "sessions": [
            {"at": "2025-03-01T09:00:00", "messages": talk(JOB)},
            {
                "at": "2025-08-01T09:00:00",
                "messages": talk("Which glue for paper?", NEW_JOB),
            },
        ],
        "now": [NEW],
        "no_longer": [OLD],
        "still": [],
        "turn": [1, 2],
    },
    {
        "id": "k2",
        "language": "en",
        "kind": "adds",
        "group": "nothing",
        "sessions": [
            {"at": "2025-03-01T09:00:00", "messages": talk(HOBBY)},
            {"at": "2025-08-01T09:00:00", "messages": talk(NEW_HOBBY)},
        ],
        "now": [ROWS],
        "no_longer": [],
        "still": [CELLO],
        "turn": [1, 0],
    },
]


def alias(question, text):
    line = next((line for line in question.splitlines() if text in line), "")
    found = re.match(r"[a-z]\d+", line)
    return found.group() if found else None


def read(question):
    """Records of what the new messages say; the new job takes the old one's place."""
    told = question.split("New messages:")[1]
    memories, changes = [], []
    for said, text in {JOB: OLD, NEW_JOB: NEW, HOBBY: CELLO, NEW_HOBBY: ROWS}.items():
        if message := alias(told, said):
            if text == NEW and (record := alias(question, OLD)):
                one = {"record": record, "relation": "replaces", "by": len(memories)}
                changes.append({**one, "message": message, "quote": "I left the mill"})
            memories.append(
                {"text": text, "sources": [message], "attribute": "occupation"}
            )
    return {"memories": memories, "changes": changes}


@pytest.fixture
def hobby(tmp_path):
    """A file of the second case alone."""
    file = tmp_path / "hobby.jsonl"
    file.write_text(json.dumps(CASES[1]))
    return file


def carried_out(cases, out, mode, models=None, **about):
    command.run(
        read_cases([cases]),
        out,
        mode=mode,
        models=models or (lambda tag: ScriptedChatModel(answers={"Extraction": read})),
        embeddings=HashEmbeddings(),
        filler=read_lines(FILLER)[:25],
        fillers=20,
        threads=2,
        about={"mode": mode, **about},
    )
    return {one["id"]: one for one in command.outcomes(out)}


def texts(rows):
    return [row["text"] for row in rows]


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    folder = tmp_path_factory.mktemp("live")
    file = folder / "cases.jsonl"
    file.write_text("".join(json.dumps(case) + "\n" for case in CASES))
    return file, folder / "out", carried_out(file, folder / "out", "live")


def test_live_sessions_tell_what_was_replaced_by_whose_words(live):
    job, hobby = live[2]["k1"], live[2]["k2"]
    assert texts(job["holds"]) == [NEW]
    [old] = job["no_longer_holds"]
    assert old["text"] == OLD
    assert [(c["relation"], c["quote"]) for c in old["changes"]] == [
        ("replaces", "I left the mill")
    ]
    assert [one["in_view"] for one in job["old"]] == [True]
    assert sorted(texts(hobby["holds"])) == sorted([CELLO, ROWS])
    assert hobby["no_longer_holds"] == hobby["filler_superseded"] == []
    assert job["turns"] == [1, 2]
    assert {call["session"] for call in job["calls"]} <= {0, 1}
    assert [row["purpose"] for row in job["stored_calls"]].count("extract") == 2
    recalled = [
        quote["message"] for recall in job["recalls"] for quote in recall["quotes"]
    ]
    assert "s1-m2" in recalled


def test_a_backlog_is_read_in_one_flush(hobby, tmp_path):
    found = carried_out(hobby, tmp_path / "out", "backlog")
    asked = [call for call in found["k2"]["calls"] if call["purpose"] == "Extraction"]
    assert (
        len(asked) == 1 and HOBBY in asked[0]["user"] and NEW_HOBBY in asked[0]["user"]
    )
    assert sorted(texts(found["k2"]["holds"])) == sorted([CELLO, ROWS])
    assert len(found["k2"]["reports"]) == 1


def test_recorded_answers_repeat_a_run(live, tmp_path):
    cases, out, first = live
    file = command.record(out, tmp_path / "told.jsonl", "a scripted model")
    models, named = command.models_of(f"recorded:{file}")
    again = carried_out(cases, tmp_path / "again", "live", models)
    assert named == "a scripted model"
    for name, one in again.items():
        assert [call["user"] for call in one["calls"]] == [
            c["user"] for c in first[name]["calls"]
        ]
        assert texts(one["holds"]) == texts(first[name]["holds"])


def test_a_missing_answer_is_an_error_that_names_it(live, hobby, tmp_path):
    _, out, _ = live
    file = command.record(out, tmp_path / "told.jsonl", "a scripted model")
    kept = [row for row in file.read_text().splitlines() if NEW_HOBBY not in row]
    file.write_text("\n".join(kept))
    models, _ = command.models_of(f"recorded:{file}")
    with pytest.raises(
        LangMemGraphError, match=r"k2.*No recorded answer to Extraction"
    ):
        carried_out(hobby, tmp_path / "again", "live", models)
    assert command.outcomes(tmp_path / "again") == []


def test_a_stopped_run_is_continued_and_not_mixed_with_another(live, tmp_path):
    cases, out, _ = live
    done = {file.name: file.stat().st_mtime_ns for file in out.glob("case-*.json")}
    carried_out(cases, out, "live")
    assert {
        file.name: file.stat().st_mtime_ns for file in out.glob("case-*.json")
    } == done
    with pytest.raises(InvalidInputError, match="another --out"):
        carried_out(cases, out, "backlog")


def test_the_day_of_asking_does_not_count(tmp_path):
    asked = "Today is Wednesday 2026-03-04.\nWhat holds?"
    later = "Today is Thursday 2026-03-05.\nWhat holds?"
    key = watching.key_of("ProfileText", "rules", asked, date(2026, 3, 4))
    assert key == watching.key_of("ProfileText", "rules", later, date(2026, 3, 5))
    assert key != watching.key_of("ProfileText", "rules", asked, date(2026, 3, 5))
    assert key != watching.key_of("TopicRound", "rules", asked, date(2026, 3, 4))


def test_a_large_recording_is_compressed(tmp_path):
    call = {"purpose": "Extraction", "rules": "r", "on": "2026-03-04", "answer": "{}"}
    calls = [{**call, "user": f"{n} {'x' * 1000}"} for n in range(1_100)]
    file = watching.write_recording(
        tmp_path / "told.jsonl", "someone", calls, {"r": "rules"}
    )
    assert (
        file.suffix == ".gz"
        and len(gzip.decompress(file.read_bytes())) > watching.LARGEST_PLAIN
    )
    assert len(watching.read_recording(file).answers) == 1_100


def test_the_filler_is_fixed_and_has_all_of_the_language():
    rows = read_lines(FILLER)
    assert len(rows) == 700
    chosen = chosen_filler(rows, "pl", 540)
    assert chosen == chosen_filler(rows, "pl", 540) and len(chosen) == 540
    assert sum(row["language"] == "pl" for row in chosen) == 80
    assert chosen != chosen_filler(rows, "ja", 540)


def test_a_quote_is_labelled_when_something_stands_beside_its_words():
    plain = '- 2025-03-01 09:00 user [s0-m0]: "I left \\"home\\" (no longer true)."'
    noted = (
        '- 2025-03-01 09:01 user [s0-m2] (no longer true since 2025-08-01): "I bake."'
    )
    below = f'{plain.replace("m0", "m4")}\n  no longer true: "I print posters now"'
    other = '- 2024-03-01 09:00 user [filler-0001] (no longer true): "A filler."'
    found = quotes("\n".join(["<memory>", plain, noted, below, other, "</memory>"]))
    assert [(one["message"], one["labelled"]) for one in found] == [
        ("s0-m0", False),
        ("s0-m2", True),
        ("s0-m4", True),
    ]


def sheet_of(key, case):
    return next(name for name, own in key["sheets"].items() if own["case"] == case)


def test_a_judge_sees_no_run_and_the_answers_become_figures(live, tmp_path, capsys):
    cases, out, _ = live
    words = ["prepare", str(out), "--cases", str(cases), "--out", str(tmp_path)]
    judging.main(words)
    with pytest.raises(InvalidInputError, match="another --out"):
        judging.main(words)
    shown = (tmp_path / "sheets" / "batch-01.md").read_text()
    key = json.loads((tmp_path / "key.json").read_text())
    for secret in ("k1", "k2", "live", "hash", str(out), "replaced"):
        assert secret not in shown.split("## S001")[1]
    assert OLD in shown and NEW in shown and JOB in shown
    job, hobby = sheet_of(key, "k1"), sheet_of(key, "k2")
    [line] = [q for q, text in key["sheets"][job]["lines"].items() if JOB in text][:1]
    answers = {
        job: {"now": ["held"], "no_longer": ["not current"], "stated_by": ["p1"]}
        | {"lines": {line: "unlabelled"}},
        hobby: {"now": ["held"], "still": ["lost"], "no_longer": []},
    }
    (tmp_path / "sheets" / "batch-01.json").write_text(json.dumps(answers))
    judging.main(["score", str(tmp_path)])
    told = capsys.readouterr().out
    assert "| changes accepted | 1/1 (100%) |" in told
    assert "wrongly superseded or labelled | 1/1 (100%) |" in told
    assert "| old record in view of the change | 1/1 (100%) |" in told
    assert "| outdated statements shown unlabelled | 1/1 (100%) |" in told
    assert "| correct records marked inferred | 0/3 (0%) |" in told
    assert re.search(r"\| batches with a second call \| \d/\d ", told)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (
            {"now": ["yes"], "no_longer": ["not current"], "still": []},
            "now must be 1 of held",
        ),
        ({"now": ["held"], "no_longer": [], "still": []}, "no_longer must be 1 of"),
        (
            {"now": ["held"], "no_longer": ["not current"], "wrong": ["c99"]},
            "has no c99",
        ),
    ],
)
def test_an_answer_that_does_not_fit_its_sheet_is_refused(
    live, tmp_path, answer, problem
):
    cases, out, _ = live
    judging.main(["prepare", str(out), "--cases", str(cases), "--out", str(tmp_path)])
    key = json.loads((tmp_path / "key.json").read_text())
    file = tmp_path / "sheets" / "batch-01.json"
    file.write_text(json.dumps({sheet_of(key, "k1"): answer}))
    with pytest.raises(InvalidInputError, match=problem):
        judging.main(["score", str(tmp_path)])


def test_a_case_counts_only_where_all_of_it_is_right(live):
    _, _, found = live
    sheet = {"records": {"c1": "r-1"}, "turn": [1, 2]}

    def judged(kind="replaced", **answer):
        return judging.Judged({}, {**found["k1"], "kind": kind}, answer, sheet)

    good = {"now": ["held"], "no_longer": ["not current"]}
    assert judged(**good).accepted
    assert judged(**{**good, "no_longer": ["never recorded"]}).accepted
    assert not judged(**{**good, "now": ["partly"]}).accepted
    assert not judged(**{**good, "no_longer": ["still current"]}).accepted
    assert not judged("routine", **good, next="wrong").accepted
    assert judged("routine", **good, next="right").is_schedule
    assert judged(**good, mislabelled=["q1"]).lost
    assert share([]) == "0 cases"


def test_both_commands_are_named_beside_the_data_sets(monkeypatch, capsys):
    for name in ("truth", "truth-judge"):
        monkeypatch.setattr(sys, "argv", ["benchmarks", name, "--help"])
        with pytest.raises(SystemExit) as ended:
            entry.main()
        assert ended.value.code == 0
        assert f"python -m benchmarks {name}" in capsys.readouterr().out


def test_without_cases_the_calls_of_a_run_are_counted(tmp_path, capsys):
    calls = [{"purpose": "Extraction"}] * 3 + [{"purpose": "Reconciliation"}]
    file_of(tmp_path, "k1").write_text(json.dumps({"calls": calls}))
    command.main(["--out", str(tmp_path)])
    assert "1 of 3 batches took a second call" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command.main(["cases.jsonl", "--out", str(tmp_path)])
    assert "a run needs --model" in capsys.readouterr().err


def test_a_file_without_cases_and_two_cases_of_one_name_are_refused(tmp_path):
    file = tmp_path / "cases.jsonl"
    file.write_text('{"id": "k1"}\n')
    with pytest.raises(InvalidInputError, match="no case"):
        read_cases([file])
    file.write_text((json.dumps(CASES[0]) + "\n") * 2)
    with pytest.raises(InvalidInputError, match="same id"):
        read_cases([file])


SECOND = {
    "live": (
        ("changes accepted", "69/72 (96%)"),
        ("schedule changes accepted", "31/33 (94%)"),
        ("nothing changes: what still holds superseded", "0/72 (0%)"),
        ("correct records marked inferred", "106/867 (12%)"),
        ("outdated statements shown unlabelled", "2/65 (3%)"),
        ("batches with a second call", "22/339 (6%)"),
    ),
    "backlog": (
        ("changes accepted", "34/36 (94%)"),
        ("schedule changes accepted", "15/17 (88%)"),
        ("correct records marked inferred", "2/306 (1%)"),
    ),
}
THIRD = {
    "live": (
        ("changes accepted", "38/40 (95%)"),
        ("schedule changes accepted", "15/17 (88%)"),
        ("nothing changes: what still holds superseded", "0/26 (0%)"),
        ("batches with a second call", "16/146 (11%)"),
    )
}
SIXTH = {
    "live": (
        ("changes accepted", "24/24 (100%)"),
        ("nothing changes: what still holds superseded", "0/12 (0%)"),
        ("outdated statements shown unlabelled", "0/28 (0%)"),
        ("batches with a second call", "20/78 (26%)"),
    )
}
SEVENTH = {
    "live": (
        ("changes accepted", "16/16 (100%)"),
        ("nothing changes: what still holds superseded", "1/8 (12%)"),
        ("outdated statements shown unlabelled", "0/19 (0%)"),
        ("batches with a second call", "1/49 (2%)"),
    )
}
EIGHTH = {
    "live": (
        ("changes accepted", "16/16 (100%)"),
        ("nothing changes: what still holds superseded", "0/8 (0%)"),
        ("outdated statements shown unlabelled", "0/18 (0%)"),
        ("batches with a second call", "2/49 (4%)"),
    )
}
FIFTH = {
    "live": (
        ("changes accepted", "32/32 (100%)"),
        ("schedule changes accepted", "14/14 (100%)"),
        ("nothing changes: what still holds superseded", "0/16 (0%)"),
        ("batches with a second call", "6/105 (6%)"),
    ),
    "backlog": (
        ("changes accepted", "32/32 (100%)"),
        ("correct records marked inferred", "1/250 (0%)"),
    ),
}


@pytest.mark.parametrize(
    ("folder", "modes"),
    [
        ("truth_second", SECOND),
        ("truth_third", THIRD),
        ("truth_fifth", FIFTH),
        ("truth_sixth", SIXTH),
        ("truth_seventh", SEVENTH),
        ("truth_eighth", EIGHTH),
    ],
    ids=str,
)
def test_the_figures_in_the_documents_are_those_of_the_recorded_runs(
    tmp_path, capsys, monkeypatch, folder, modes
):
    monkeypatch.chdir(REPOSITORY)
    judged = tmp_path / "judged"
    shutil.copytree(REPOSITORY / "benchmarks" / "recorded" / folder, judged)
    judging.main(["score", str(judged)])
    sections = capsys.readouterr().out.split("\n## ")[1:]
    written = (REPOSITORY / "docs" / "benchmarks.md").read_text()
    assert {section.split(",")[0] for section in sections} == modes.keys()
    for section in sections:
        for row, figure in modes[section.split(",")[0]]:
            assert f"| {row} | {figure} |" in section
            assert figure.split(" ")[0].replace("/", " of ") in written


def test_judged_runs_are_kept_in_the_repository(tmp_path, monkeypatch):
    """What is kept gives the same figures, and answers with which the run can be repeated."""
    kept = REPOSITORY / "benchmarks" / "recorded" / "truth_third"
    monkeypatch.setattr(keeping, "REPOSITORY", tmp_path)
    run = tmp_path / "fresh2"
    run.mkdir()
    rows = list(outcomes(next(iter(kept.glob("*/outcomes.jsonl.gz"))).parent))[:2]
    for row in rows:
        for call in row["calls"]:
            call |= {"user": "asked", "answer": "{}"}
        file_of(run, row["id"]).write_text(json.dumps(row))
    (run / "rules").mkdir()
    for rules in {call["rules"] for row in rows for call in row["calls"]}:
        (run / "rules" / f"{rules}.txt").write_text("rules")
    judged = tmp_path / "judged"
    (judged / "sheets").mkdir(parents=True)
    sheet = {"run": str(run), "case": rows[0]["id"]}
    key = {"runs": {str(run): {"model": "claude"}}, "sheets": {"S001": sheet}}
    (judged / "key.json").write_text(json.dumps(key))
    (judged / "sheets" / "batch-01.json").write_text("{}")
    keeping.keep(judged, tmp_path / "kept")
    told = json.loads((tmp_path / "kept" / "key.json").read_text())
    assert list(told["runs"]) == ["kept/fresh2"]
    assert told["sheets"]["S001"]["run"] == "kept/fresh2"
    again = outcomes(tmp_path / "kept" / "fresh2")
    assert [row["id"] for row in again] == [row["id"] for row in rows]
    assert all("answer" not in call for row in again for call in row["calls"])
    assert (
        read_recording(tmp_path / "kept" / "fresh2" / "answers.jsonl").named == "claude"
    )


def test_what_the_backlog_cost_is_printed(capsys):
    judging.main(
        ["costs", str(REPOSITORY / "benchmarks" / "recorded" / "truth_backlog")]
    )
    told = capsys.readouterr().out
    assert (
        "| calls for 3,000 tokens of messages, all cases | 1.56 (1 cases, 6 calls) |"
        in told
    )
