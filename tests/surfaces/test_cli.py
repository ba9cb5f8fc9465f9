"""The command line, run as its users run it."""

import json
import os
import subprocess
import sys
from contextlib import redirect_stderr
from datetime import UTC, datetime
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from langmem_graph.cli import commands, printing, serving
from langmem_graph.cli.import_and_read import QUESTIONS, conversation_file
from langmem_graph.errors import InvalidInputError
from langmem_graph.memory import Memory
from langmem_graph.testing import ScriptedChatModel

runner = CliRunner()


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LANGMEM_GRAPH_DIR", str(tmp_path / "memory"))
    monkeypatch.setenv("LANGMEM_GRAPH_USER", "me")
    monkeypatch.setenv("LANGMEM_GRAPH_EMBEDDINGS", "hash")
    monkeypatch.setenv("COLUMNS", "160")
    return tmp_path


def run(*arguments: str, code: int = 0) -> str:
    result = runner.invoke(commands.app, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    return result.output


def run_json(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--json"))


def test_the_version() -> None:
    assert run("--version").strip() == f"langmem-graph {version('langmem-graph')}"


def test_an_error_is_one_line_however_long_it_is() -> None:
    asked = [
        sys.executable,
        "-m",
        "langmem_graph",
        "flush",
        "--model",
        "nobody:" + "m" * 300,
    ]
    outcome = subprocess.run(
        asked, env=os.environ | {"COLUMNS": "80"}, capture_output=True, check=False
    )
    assert outcome.returncode == 2
    assert outcome.stderr.startswith(b"error: No chat model")
    assert outcome.stderr.count(b"\n") == 1


def test_import_then_search_then_export_then_erase(tmp_path: Path) -> None:
    first = run_json("import", str(conversation_file()))
    assert (first["stored"], first["sessions"], first["rejected"]) == (40, 8, 0)
    assert run_json("import", str(conversation_file()))["already_known"] == 40
    hits = run_json("search", "E-7719", "-k", "2")
    assert len(hits) == 2
    assert "E-7719" in hits[0]["text"]
    assert hits[0]["at"].startswith("2025-05-22")
    assert "E-7719" in run("search", "E-7719", "--explain")
    assert (
        run("search", "E-7719", "-k", "1", "--explain").count("behind the last hit")
        == 3
    )
    (best, *_) = run_json(
        "search", "aisle seat, frequent flyer number, Oslo", "--by", "session"
    )
    assert best["session_id"] == "2025-02-oslo"
    run("export", "-o", str(tmp_path / "out.jsonl"))
    assert (
        run_json("import", str(tmp_path / "out.jsonl"), "--user", "copy")["stored"]
        == 40
    )
    assert run("export").count("\n") == 40
    assert run_json("erase", "--yes")["messages"] == 40
    assert "Nothing is stored of user 'me'" in _failing("search", "E-7719")


def _failing(*arguments: str) -> str:
    """What the console script says when it fails, without its line breaks."""
    with pytest.MonkeyPatch.context() as patch, redirect_stderr(StringIO()) as errors:
        patch.setattr(sys, "argv", ["langmem-graph", *arguments])
        with pytest.raises(SystemExit) as ended:
            commands.main()
    assert ended.value.code == 2
    return " ".join(errors.getvalue().split())


def test_mcp_takes_the_model_of_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mcp", reason="an extra")
    given: list[Any] = []

    def opened(*_: Any, model: Any) -> Any:
        given.append(model)
        raise InvalidInputError("enough")

    monkeypatch.setattr(serving, "opened", opened)
    monkeypatch.setattr(serving, "load_reader", lambda *asked: asked)
    monkeypatch.setenv("OPENAI_API_KEY", "a key alone asks for no model")
    for options in ([], ["--model", "a:b"], ["--base-url", "http://h"]):
        runner.invoke(commands.app, ["mcp", *options])
    assert given == [None, "a:b", (None, "http://h")]


def test_an_error_of_ours_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            sys, "argv", ["langmem-graph", "flush", "--model", "no-such-provider:x"]
        )
        patch.setattr(printing.errors, "_width", 10_000)
        with pytest.raises(SystemExit):
            commands.main()
    assert capsys.readouterr().err.count("\n") == 1


def _failing_as_a_process(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "langmem_graph", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    return " ".join(done.stderr.split())


def test_show_doctor_and_rebuild() -> None:
    run("import", str(conversation_file()))
    assert "40 messages in 8 sessions" in run("show")
    assert run_json("show")["messages"] == 40
    assert "walnuts" in run("show", "--session", "2025-04-kitchen")
    assert (
        run_json("show", "--session", "2025-04-kitchen")[0]["id"] == "2025-04-kitchen-1"
    )
    assert run_json("doctor")["problems"] == []
    assert "in order" in run("doctor")
    assert run_json("rebuild")["indexed"] == 40
    assert run_json("rebuild", "--reembed")["indexed"] == 40


def test_doctor_fails_when_something_needs_doing(settings: Path) -> None:
    run("import", str(conversation_file()))
    with Memory(settings / "memory", embeddings="hash") as memory:
        room = next((memory.path / "users").iterdir())
        memory.user("me").search_conversation("x")
        for file in room.glob("chroma-*/*.sqlite3"):
            file.write_bytes(b"garbage")
    assert "problem" in run("doctor", code=1)
    assert "in order" in run("rebuild")


def test_searching_works_while_an_app_writes(settings: Path) -> None:
    run("import", str(conversation_file()))
    with Memory(settings / "memory", embeddings="hash"):
        done = subprocess.run(
            [sys.executable, "-m", "langmem_graph", "search", "E-7719", "--json"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "E-7719" in json.loads(done.stdout)[0]["text"]
        refused = _failing_as_a_process("doctor")
        assert "work beside it" in refused
        assert "read_only" not in refused, "this is an argument of Python"


def test_errors_are_one_line_with_a_way_out(tmp_path: Path) -> None:
    assert "There is no file" in _failing("import", str(tmp_path / "none.json"))
    (tmp_path / "bad.jsonl").write_text("not json")
    assert "Line 1 is not JSON" in _failing("import", str(tmp_path / "bad.jsonl"))
    missing = _failing("search", "x", "--memory", str(tmp_path / "none"))
    assert "no memory" in missing
    assert "langmem-graph import" in missing
    assert "read_only" not in missing, "this is an argument of Python"
    run("import", str(conversation_file()))
    assert "by must be" in _failing("search", "x", "--by", "day")
    assert "user id is empty" in _failing("search", "x", "--user", " ")


def test_rejected_messages_are_told(tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    rows = [{"role": "user", "content": "fine"}, {"role": "user", "content": ""}]
    file.write_text("\n".join(map(json.dumps, rows)))
    assert "no text in the message" in run("import", str(file))


def test_what_is_too_old_expires() -> None:
    run("import", str(conversation_file()))
    assert "No message is older" in run("expire")
    report, *others = run_json("expire", "--messages", "30")
    assert (report["user_id"], report["messages"], others) == ("me", 40, [])
    run("import", str(conversation_file()), "--user", "you")
    assert "you: 40 messages and 0 records expired" in run(
        "expire", "-u", "you", "--messages", "30"
    )
    assert "keep these at least as long" in _failing(
        "expire", "--messages", "3", "--records", "9"
    )


def test_erase_asks_first() -> None:
    run("import", str(conversation_file()))
    result = runner.invoke(commands.app, ["erase"], input="n\n")
    assert result.exit_code == 1
    assert run_json("show")["messages"] == 40


def test_erase_of_an_unknown_user_fails() -> None:
    run("import", str(conversation_file()))
    assert "Nothing is stored of user 'you'" in _failing(
        "erase", "--yes", "--user", "you"
    )
    assert run_json("erase", "--yes")["messages"] == 40
    assert "Nothing is stored of user 'me'" in _failing("erase", "--yes")


@pytest.mark.parametrize("option", ["--memory", "--dir", "-m"])
def test_every_command_names_the_memory_alike(option: str, tmp_path: Path) -> None:
    group: Any = typer.main.get_command(commands.app)
    named = {
        name: {one for parameter in command.params for one in parameter.opts}
        for name, command in group.commands.items()
    }
    assert {name for name, options in named.items() if option not in options} == {
        "migrate",
        "move",
    }
    run("import", str(conversation_file()), option, str(tmp_path / "other"))
    assert "40 messages" in run("show", option, str(tmp_path / "other"))


def test_without_a_model_nothing_is_said_to_wait_for_one(settings: Path) -> None:
    run("import", str(conversation_file()))
    told = run("users")
    assert "no model" in told
    assert "so nothing is read" in told
    assert f"{datetime.now(UTC):%Y-%m-%d}" not in told
    with Memory(
        settings / "memory", embeddings="hash", model=ScriptedChatModel()
    ) as memory:
        memory.user("me").flush()
    with Memory(settings / "memory", embeddings="hash") as memory:
        memory.user("me").add([("user", "One more.")], session_id="new")
    assert "no model" not in (told := run("users"))
    assert f"{datetime.now(UTC):%Y-%m-%d}" in told


def test_demo_answers_every_question(tmp_path: Path) -> None:
    output = run("demo", "--memory", str(tmp_path / "demo"))
    for question in QUESTIONS:
        assert question in output
    assert "0 model calls" in output
    assert output.count("<memory>") == 1


def test_help_names_every_command() -> None:
    output = run("--help")
    for name in (
        "demo",
        "import",
        "search",
        "show",
        "doctor",
        "rebuild",
        "export",
        "erase",
    ):
        assert name in output


def test_the_pyramid_is_shown_exported_and_imported_again(tmp_path: Path) -> None:
    talk = tmp_path / "talk.jsonl"
    rows = [
        {"role": "user", "content": "I live in Porto.", "id": "m1", "at": "2025-01-01"},
        {"role": "user", "content": "I moved to Berlin.", "id": "m2", "at": "2025-06-01"},
        {"text": "Lives in Porto.", "source_message_ids": ["m1"], "record_id": "r1"},
        {"text": "Lives in Berlin.", "source_message_ids": ["m2"], "record_id": "r2"}
        | {"supersedes": ["r1"]},
        {"text": "Nobody said this.", "source_message_ids": ["m9"]},
    ]  # fmt: skip
    talk.write_text("\n".join(map(json.dumps, rows)))
    totals = run_json("import", str(talk))
    assert (totals["stored"], totals["records"], totals["rejected"]) == (2, 2, 1)
    assert "unknown source_message_ids: m9" in totals["reasons"][0]

    shown = run("show")
    assert "records: 1, and 1 that no longer holds" in shown
    assert "Lives in Berlin." in shown
    assert "from m2" in shown
    assert "Lives in Porto." not in shown
    then = run("show", "--as-of", "2025-03-01")
    assert "Lives in Porto." in then
    assert "Lives in Berlin." not in then
    record = run("show", "--record", "r1")
    for part in (
        "superseded",
        "2025-06-01",
        "supersede r1 by import",
        "I live in Porto.",
    ):
        assert part in record
    assert "No record" in _failing("show", "--record", "nope")
    assert "No session" in _failing("show", "--session", "nope")
    assert [r["record_id"] for r in run_json("show")["records"]] == ["r2"]

    copy = tmp_path / "copy.jsonl"
    run("export", "-o", str(copy))
    run("erase", "--yes")
    again = run_json("import", str(copy))
    assert (again["stored"], again["records"], again["rejected"]) == (2, 2, 0)
    assert "Lives in Porto." in run("show", "--as-of", "2025-03-01")
    assert run("show", "--record", "r2").count("Lives in Berlin.") == 1

    deleted = run("forget", "--message", "m2")
    assert "messages 1, records 1. Records that hold again: 1." in deleted
    assert "Nothing was deleted" in _failing("forget", "--message", "m2")
    assert "Nothing was deleted" in _failing("forget", "--message", "m2", "--json")
    for command in ("forget", "undo"):
        assert "=…" not in (said := _failing(command)), "these are arguments of Python"
        assert "Name one" in said
    assert "Lives in Porto." in run("show")
    assert "There are: none yet" in _failing("show", "--file", "profile.md")


def test_a_record_is_corrected_and_undone(tmp_path: Path) -> None:
    talk = tmp_path / "talk.jsonl"
    rows = [
        {"role": "user", "content": "I live in Porto.", "id": "m1", "at": "2025-01-01"},
        {"role": "user", "content": "I moved to Berlin.", "id": "m2", "at": "2025-06-01"},
        {"text": "Lives in Berlin.", "source_message_ids": ["m2"], "record_id": "r2"},
        {"text": "Lives in Porto.", "source_message_ids": ["m1"], "record_id": "r1",
         "supersedes": [], "status": "superseded", "valid_to": "2025-06-01",
         "changes": [{"relation": "replaces", "message_id": "m2", "by_record_id": "r2",
                      "quote": "I moved to Berlin", "made_by": "some-model"}]},
    ]  # fmt: skip
    talk.write_text("\n".join(map(json.dumps, rows)))
    assert run_json("import", str(talk))["records"] == 2
    right = run_json("correct", "r2", "Lives in Bern.")
    assert (right["text"], right["supersedes"]) == ("Lives in Bern.", ["r2"])
    assert "(corrects, corrected-" in run("show", "--record", "r2")
    assert "Lives in Bern." in run("undo", "--record", "r2")
    assert [one["record_id"] for one in run_json("undo", "--message", "m2")] == [
        "r2",
        "r1",
    ]
    assert "Lives in Porto." in run("show")
    assert "Nothing was changed" in run("undo", "--message", "m2")
    assert "Name one thing" in _failing("undo")


def test_explain_draws_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.support.goals import ASKED
    from tests.support.recalled import PALM, PUPPY, SAID, acting, good

    with Memory(os.environ["LANGMEM_GRAPH_DIR"], embeddings="hash") as memory:
        rows = [
            {"role": "user", "content": text, "id": own} for own, text in SAID.items()
        ]
        memory.user("me").add(rows, session_id="s", at="2025-03-01")
    monkeypatch.setattr(
        "langmem_graph.llm.chat_models.load_chat_model", lambda *_: good()
    )
    drawn = run("explain", ASKED)
    assert "to prove: (w:person) is the wife of the user's brother" in drawn
    assert "✓ (w:person) is the wife of the user's brother  w = Lena" in drawn
    assert "2025-03-01 Lena liked the ceramic lamp.  [m4]" in drawn
    assert "2 model calls" in drawn
    assert run_json("explain", ASKED)["reasoning"]["status"] == "grounded"
    monkeypatch.setattr(
        "langmem_graph.llm.chat_models.load_chat_model", lambda *_: acting()
    )
    drawn = run("explain", PALM)
    assert "risk Sago palms are poisonous to dogs.  (general knowledge)" in drawn
    assert PUPPY in drawn


def test_explain_without_a_model_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    run("import", str(conversation_file()))
    shown = run("explain", "What was E-7719?")
    assert "No language model" in shown
    assert "E-7719" in shown.split("<memory>")[1]


def test_explain_works_beside_a_running_app(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.support.goals import ASKED
    from tests.support.recalled import good

    run("import", str(conversation_file()))
    model = good()
    monkeypatch.setattr(
        "langmem_graph.llm.chat_models.load_chat_model", lambda *_: model
    )
    with Memory(os.environ["LANGMEM_GRAPH_DIR"], embeddings="hash") as memory:
        memory.user("me").add([{"role": "user", "content": "hello"}], session_id="s")
        assert "not found in memory" in run("explain", ASKED)
    assert "Extraction" not in {name for name, _ in model.asked}


def test_inspect_opens_read_only_beside_a_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = list[tuple[bool, bool, int]]()

    def serve(memory: Memory, *, port: int, allow_changes: bool, announce: Any) -> None:
        seen.append((memory._services.read_only, allow_changes, port))
        announce("http://127.0.0.1:1/?token=t")

    monkeypatch.setattr("langmem_graph.inspector.app.serve", serve)
    place = tmp_path / "elsewhere"
    with Memory(place, embeddings="hash") as memory:
        memory.user("me").add([("user", "I have a cat.")], session_id="s")
        told = run("inspect", "--dir", str(place), "--port", "8100")
        run("inspect", str(place))
    assert "Open http://127.0.0.1:1/?token=t" in told
    assert "read-only" in told
    assert "changes are allowed" in run("inspect", str(place), "--allow-changes")
    assert seen == [(True, False, 8100), (True, False, 0), (False, True, 0)]
