"""`langmem-graph flush` and `import --read`: forecast, question, progress, interrupts."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from rich.progress import Progress
from typer.testing import CliRunner

from langmem_graph.cli import commands, import_and_read
from langmem_graph.errors import InvalidInputError
from langmem_graph.llm import chat_models
from langmem_graph.memory import Memory
from langmem_graph.testing import ScriptedChatModel
from tests.support.backlog import fill, noting, owned, session

runner = CliRunner()


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LANGMEM_GRAPH_DIR", str(tmp_path / "memory"))
    monkeypatch.setenv("LANGMEM_GRAPH_USER", "me")
    monkeypatch.setenv("LANGMEM_GRAPH_EMBEDDINGS", "hash")
    for name in ("LANGMEM_GRAPH_MODEL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "memory"


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the model has read, which the command line gets whatever it is told."""
    read: list[str] = []
    use(monkeypatch, noting(read))
    return read


def use(monkeypatch: pytest.MonkeyPatch, model: Any) -> None:
    monkeypatch.setattr(chat_models, "load_chat_model", lambda *_, **__: model)


def filled(directory: Path, sessions: int, turns: int) -> list[str]:
    with Memory(directory, embeddings="hash") as memory:
        return fill(memory.user("me"), sessions, turns)


def noted(directory: Path) -> tuple[list[str], int]:
    """What the records say, and how many messages wait."""
    with Memory(directory, embeddings="hash") as memory:
        user = memory.user("me")
        return owned(user), user.flush_forecast().messages


def run(*arguments: str, code: int = 0, **options: Any) -> str:
    result = runner.invoke(commands.app, [str(one) for one in arguments], **options)
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def exported(tmp_path: Path, sessions: int, turns: int) -> Path:
    file = tmp_path / "chat.jsonl"
    talks = [{"id": f"s{n}", "messages": session(n, turns)} for n in range(sessions)]
    file.write_text("\n".join(map(json.dumps, talks)))
    return file


def test_a_small_backlog_is_read_without_a_question(
    directory: Path, seen: list[str]
) -> None:
    names = filled(directory, 2, 5)
    output = run("flush")
    assert (
        "20 messages of me wait, in 10 turns of 2 sessions. To read them takes 4 to 9 model calls"
        in output
    )
    assert output.count(" wait: ") == 5, (
        "a line for each batch, and for the round at the end"
    )
    assert "Read 20 messages of me: 10 records new" in output
    assert sorted(seen) == names
    assert noted(directory) == (names, 0)
    assert "No messages of me wait." in run("flush")


def test_many_calls_need_a_yes(directory: Path, seen: list[str]) -> None:
    names = filled(directory, 12, 3)
    result = runner.invoke(commands.app, ["flush"])
    assert isinstance(result.exception, InvalidInputError)
    assert "nobody can be asked here" in str(result.exception)
    assert "--yes" in str(result.exception)
    assert seen == []
    assert noted(directory) == ([], 72)
    assert "36 records new" in run("flush", "--yes")
    assert sorted(seen) == names


@pytest.mark.parametrize(("answer", "code"), [("n\n", 1), ("y\n", 0)])
def test_a_terminal_is_asked(
    directory: Path,
    seen: list[str],
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    code: int,
) -> None:
    names = filled(directory, 12, 3)
    monkeypatch.setattr(import_and_read, "_can_be_asked", lambda: True)
    assert "Read them now?" in run("flush", code=code, input=answer)
    assert sorted(seen) == ([] if code else names)


def test_the_question_comes_before_anything_is_read(directory: Path) -> None:
    """The background would otherwise read what waits while somebody thinks."""
    filled(directory, 12, 3)
    seen: list[str] = []
    with Memory(directory, model=noting(seen), embeddings="hash") as memory:
        with pytest.raises(InvalidInputError):
            import_and_read.read_backlog(memory, "me", print, yes=False, quiet=True)
        time.sleep(1.5)
    assert seen == []


def test_without_a_model_it_forecasts_and_says_what_to_set(
    directory: Path, tmp_path: Path
) -> None:
    filled(directory, 2, 5)
    result = runner.invoke(commands.app, ["flush"])
    assert "20 messages of me wait" in " ".join(result.output.split())
    assert "LANGMEM_GRAPH_MODEL or OPENAI_API_KEY" in str(result.exception)
    result = runner.invoke(
        commands.app, ["import", str(exported(tmp_path, 3, 1)), "--read"]
    )
    assert "LANGMEM_GRAPH_MODEL or OPENAI_API_KEY" in str(result.exception)
    assert noted(directory) == ([], 20), "nothing was imported either"


def test_refusals_are_one_line(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    filled(directory, 1, 1)
    monkeypatch.setattr(sys, "argv", ["langmem-graph", "flush"])
    with pytest.raises(SystemExit) as ended:
        commands.main()
    assert ended.value.code == 2
    assert "error: No language model to read with" in capsys.readouterr().err


def test_json_is_the_report_alone(directory: Path, seen: list[str]) -> None:
    filled(directory, 2, 5)
    report = json.loads(run("flush", "--json"))
    assert (report["read"], report["pending"], report["status"]) == (20, 0, "ok")


def test_import_and_read(directory: Path, tmp_path: Path, seen: list[str]) -> None:
    file = exported(tmp_path, 3, 2)
    output = run("import", str(file), "--read")
    assert "12 messages stored" in output
    assert "12 messages of me wait" in output
    assert "6 records new" in output
    again = json.loads(run("import", str(file), "--read", "--json"))
    assert (again["already_known"], again["read"]["read"]) == (12, 0)
    assert len(seen) == 6
    assert noted(directory)[1] == 0


def interrupting(seen: list[str], at: set[int], seconds: float = 0.0) -> Any:
    """A model during whose calls of these numbers Ctrl-C is pressed."""
    calls: list[int] = []

    def press() -> None:
        calls.append(1)
        if len(calls) in at:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(seconds)

    return noting(seen, press)


def test_ctrl_c_stops_after_the_batch_and_says_how_to_go_on(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, seen = filled(directory, 4, 5), list[str]()
    before = signal.getsignal(signal.SIGINT)
    use(monkeypatch, interrupting(seen, {2}, seconds=0.3))
    output = run("flush", code=130)
    assert "Stopping after this batch" in output
    assert "Go on with: langmem-graph flush --user me" in output
    assert signal.getsignal(signal.SIGINT) == before
    records, waiting = noted(directory)
    assert records == sorted(seen)
    assert 0 < waiting == 40 - 2 * len(seen)
    use(monkeypatch, noting(seen))
    run("flush")
    assert sorted(seen) == names, "read once, and nothing left out"
    assert noted(directory) == (names, 0)


def test_a_second_ctrl_c_stops_at_once(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, seen = filled(directory, 4, 5), list[str]()

    def press_twice() -> None:
        for _ in range(2 if len(seen) > 4 else 0):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.3)

    use(monkeypatch, noting(seen, press_twice))
    output = run("flush", code=130)
    assert "the last batch is not read" in output
    assert "Go on with: langmem-graph flush --user me" in output
    records, waiting = noted(directory)
    assert waiting == 40 - 2 * len(records) > 0
    use(monkeypatch, noting([]))
    run("flush")
    assert noted(directory) == (names, 0)


def test_the_bar_of_an_import_moves_while_one_conversation_is_embedded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[int] = []

    class Bar(Progress):
        def advance(self, task_id: Any, advance: float = 1) -> None:
            steps.append(int(advance))
            super().advance(task_id, advance)

        def update(self, task_id: Any, **options: Any) -> None:
            super().update(task_id, **options)
            ended.append(self.tasks[0].completed)

    ended: list[float] = []
    monkeypatch.setattr(
        import_and_read, "progress_bar", lambda quiet: Bar(disable=quiet)
    )
    file = exported(tmp_path, 1, 100)
    run("import", str(file))
    assert sum(steps) == 200
    assert len(steps) > 2
    run("import", str(file))
    assert ended == [200, 200], "also where all is known already"


def test_unusable_answers_fail_the_command_in_lines_of_our_own(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Strict(BaseModel):
        number: int

    def refuse(_: str) -> None:
        Strict.model_validate({"number": "none"})

    filled(directory, 2, 5)
    use(monkeypatch, ScriptedChatModel(answers={"Extraction": refuse}))
    output = run("flush", code=1)
    assert "20 messages wait" in output
    assert "number: Input should be a valid integer" in output
    assert "pydantic" not in output
    assert (
        json.loads(runner.invoke(commands.app, ["flush", "--json"]).stdout)["status"]
        == "partial"
    )
