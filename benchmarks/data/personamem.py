"""PersonaMem-v2: a person's long chat, and questions with answers to choose from.

`benchmark.csv` names each question's history file. The gold of retrieval are the
messages of the snippet that shows the preference, found in the history by their text.
"""

import ast
import csv
import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.data.files import find, in_layout, only, read_json
from benchmarks.data.items import (
    BenchDataError,
    Conversation,
    DataSet,
    Question,
    Session,
)

_WANTED = (
    "benchmark/text/benchmark.csv with the data/chat_history_32k/*.json it names "
    "(huggingface.co/datasets/bowen-upenn/PersonaMem-v2, CC BY 4.0)"
)
_LONGEST_FIELD = 1 << 30
_LINKS = ("chat_history_32k_link", "chat_history_link")
_NOTES = (
    (
        "Options are shuffled once per question, from a fixed seed; the letter "
        "decides, "
        "no judge."
    ),
    (
        "System messages of a history, which may describe the person, are not put into "
        "memory."
    ),
    "A history has no dates and is one session, so gold are messages.",
)


def load_personamem(data: Path) -> DataSet:
    """The CSV, or the data set's folder with it."""
    tables = find(data, "personamem", "**/benchmark*.csv", _WANTED)
    (file,) = only([one for one in tables if one.parent.name == "text"] or tables)
    groups = in_layout("PersonaMem-v2", [file], lambda: _people(_table(file)))
    people = [
        (name, rows, _history_file(link, file)) for (name, link), rows in groups.items()
    ]
    conversations = in_layout(
        "PersonaMem-v2", [file], lambda: [_person(*person) for person in people]
    )
    title, cuts = "PersonaMem-v2", (1, 5, 10, 20)
    read = [file, *dict.fromkeys(history for _, _, history in people)]
    return DataSet(
        "personamem", title, "message", cuts, "choice", conversations, read, _NOTES
    )


def _table(file: Path) -> list[dict[str, str]]:
    csv.field_size_limit(_LONGEST_FIELD)
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            return list(csv.DictReader(lines))
    except (csv.Error, UnicodeDecodeError) as error:
        raise BenchDataError(f"{file} is no CSV: {error}") from error


def _people(rows: list[dict[str, str]]) -> dict[tuple[str, str], list[dict[str, str]]]:
    """The rows by person and history."""
    found: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in rows:
        found.setdefault((row["persona_id"], _link(row)), []).append(row)
    return found


def _person(person: str, rows: list[dict[str, str]], file: Path) -> Conversation:
    content = read_json(file)
    history = content["chat_history"] if isinstance(content, dict) else content
    said = [one for one in history if one.get("role") != "system"]
    messages: list[dict[str, Any]] = [
        {"id": f"m{n}", "role": one.get("role"), "content": _text(one.get("content"))}
        for n, one in enumerate(said, 1)
    ]
    texts = [message["content"].strip() for message in messages]
    questions = [_question(row, n, person, texts) for n, row in enumerate(rows, 1)]
    name = f"persona-{person} {file.stem}"
    return Conversation(name, [Session("history", messages)], questions)


def _link(row: dict[str, str]) -> str:
    found = next((row[name] for name in _LINKS if row.get(name)), None)
    if found is None:
        raise KeyError(_LINKS[0])
    return found


def _history_file(link: str, file: Path) -> Path:
    """The links are relative to the data set's folder, some levels above the CSV."""
    tried = [folder / link for folder in file.resolve().parents]
    found = next((one for one in tried if one.is_file()), None)
    if found is None:
        raise BenchDataError(f"No {link} beside or above {file}. Wanted: {_WANTED}.")
    return found


def _question(
    row: dict[str, str], number: int, person: str, texts: list[str]
) -> Question:
    wrong = [str(one) for one in _literal(row.get("incorrect_answers") or "[]")]
    options = [row["correct_answer"], *wrong]
    random.Random(f"{person}:{number}").shuffle(options)  # no secret
    return Question(
        id=f"q{number}",
        text=_said(_literal(row["user_query"])),
        gold=frozenset(_gold(row.get("related_conversation_snippet") or "[]", texts)),
        category=str(row.get("pref_type") or ""),
        kind=str(row.get("topic_query") or row.get("conversation_scenario") or ""),
        answer=row["correct_answer"],
        options=tuple(options),
    )


def _gold(snippet: str, texts: list[str]) -> Iterable[str]:
    """Where the snippet stands as a whole; else wherever one of its turns does."""
    turns = _literal(snippet)
    said = [_said(turn).strip() for turn in turns] if isinstance(turns, list) else []
    wanted = [text for text in said if text]
    starts = range(len(texts) - len(wanted) + 1) if wanted else range(0)
    whole = next((n for n in starts if texts[n : n + len(wanted)] == wanted), None)
    if whole is not None:
        places = list(range(whole, whole + len(wanted)))
    else:
        places = [n for n, text in enumerate(texts) if text in wanted]
    return (f"m{n + 1}" for n in places)


def _literal(text: str) -> Any:
    """The columns hold JSON or Python literals; other text is itself."""
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError):
            continue
    return text


def _said(turn: Any) -> str:
    return _text(turn.get("content")) if isinstance(turn, dict) else str(turn)


def _text(content: Any) -> str:
    """The words of a message whose content may come in parts."""
    if isinstance(content, list):
        return "\n".join(
            str(part.get("text", "")) for part in content if isinstance(part, dict)
        )
    return str(content or "")
