"""PrefEval: a preference, other talk, and a request that a usual answer would violate.

Three forms of one preference: said outright, shown by a choice, shown in a talk of
somebody with a given occupation. Each is a conversation of its own, followed by the
benchmark's own turns of other talk.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.data.files import find, in_layout, read_json
from benchmarks.data.items import Conversation, DataSet, Question, Session

FORMS = {
    "explicit": "explicit_preference",
    "choice": "implicit_preference/choice-based",
    "persona": "implicit_preference/persona-driven",
}
OTHER_TALK = "filtered_inter_turns.json"
OTHER_MESSAGES = 60
"""Messages of other talk behind each preference; the paper's table 1 has 10 turns and
300.
"""
_WANTED = (
    "PrefEval's folder benchmark_dataset "
    "(github.com/amazon-science/PrefEval, CC BY-NC 4.0: research only)"
)
_NOTES = (
    "Gold is the message that tells the preference, of a choice the user's selection; "
    "of a persona's talk all messages of the user.",
    f"{OTHER_MESSAGES} messages of PrefEval's own other talk follow each preference.",
)


def load_prefeval(data: Path) -> DataSet:
    """All topics of a folder that has the three forms."""
    found = find(data, "prefeval", OTHER_TALK, _WANTED)
    folder = found[0].parent
    other = [row["conversation"] for row in read_json(found[0])]
    files = [
        file
        for form in FORMS.values()
        for file in sorted(folder.glob(f"{form}/*.json"))
    ]
    conversations = in_layout(
        "PrefEval", files, lambda: list(_conversations(folder, other))
    )
    cuts = (5, 10, 20)
    return DataSet(
        *("prefeval", "PrefEval", "message", cuts, "judged"),
        conversations,
        files,
        _NOTES,
    )


def _conversations(folder: Path, other: list[list[dict[str, Any]]]) -> Iterator[Any]:
    said = [message for talk in other for message in talk]
    number = 0
    for form, place in FORMS.items():
        for file in sorted(folder.glob(f"{place}/*.json")):
            for row in read_json(file):
                number += 1
                begin = 2 * (number * 37 % max(1, len(said) // 2))
                turned = [*said[begin:], *said[:begin]][:OTHER_MESSAGES]
                yield _conversation(form, f"{form}-{file.stem}-{number}", row, turned)


def _conversation(
    form: str, name: str, row: dict[str, Any], other: Iterable[dict[str, Any]]
) -> Conversation:
    told = list(_told(form, row))
    gold = {message["id"] for message in told if message.pop("gold")}
    rest = [
        {"id": f"o{place}", "role": one["role"], "content": one["content"]}
        for place, one in enumerate(other)
        if one["content"].strip()
    ]
    question = Question(
        id="q",
        text=row["question"],
        gold=frozenset(gold),
        category=form,
        answer=f"Respects this preference: {row['preference']}",
        rule="preference",
    )
    return Conversation(
        name, [Session("told", told), Session("other", rest)], [question]
    )


def _told(form: str, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if form == "explicit":
        yield _message("p0", "user", row["preference"], gold=True)
        return
    talk = row["conversation"]
    if form == "choice":
        yield _message("p0", "user", talk["query"])
        yield _message("p1", "assistant", talk["assistant_options"])
        yield _message("p2", "user", talk["user_selection"], gold=True)
        yield _message("p3", "assistant", talk["assistant_acknowledgment"])
        return
    for place, turn in enumerate(talk.values()):
        yield _message(f"p{2 * place}", "user", turn["user"], gold=True)
        yield _message(f"p{2 * place + 1}", "assistant", turn["assistant"])


def _message(name: str, role: str, text: str, *, gold: bool = False) -> dict[str, Any]:
    return {"id": name, "role": role, "content": text, "gold": gold}
