"""What writing with a model costs: calls and prompt tokens per turn, with a scripted
model.

Run from the repository root: `python -m benchmarks.writing`. No model is called: the
scripted one remembers every user line and stores everything, so that neighbours and
background are as large as they get.
"""

import argparse
import json
import re
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import BaseModel

from benchmarks import common
from langmem_graph.llm import answer_schemas
from langmem_graph.llm.structured_calls import prompt_tokens
from langmem_graph.memory import Memory
from langmem_graph.settings import ExtractionSettings, Settings
from langmem_graph.testing import ScriptedChatModel
from langmem_graph.tokens import token_counter

TOPICS = (
    "the garden",
    "a trip to Oslo",
    "the new flat",
    "my sister Eva",
    "running",
    "the boat",
)


def _remembered(question: str) -> dict[str, Any]:
    new = question.split("New messages:\n")[1]
    said = re.findall(r'^(m\d+) .*? user: (".*")$', new, re.MULTILINE)
    rows = [
        {"text": json.loads(words), "sources": [alias], "attribute": f"line {number}"}
        for number, (alias, words) in enumerate(said)
    ]
    return {"memories": rows}


ANSWERS: dict[str, Any] = {"Extraction": _remembered, "Reconciliation": {"changes": []}}


def main() -> None:
    """Print the table."""
    options = common.parser(__doc__)
    options.add_argument("--turns", type=int, default=200)
    chosen: argparse.Namespace = options.parse_args()
    reader = ScriptedChatModel(answers=ANSWERS)
    own = _converse(reader, chosen.turns)
    common.save(chosen.output, "writing.md", _report(reader, chosen.turns, own))


def _converse(reader: ScriptedChatModel, turns: int) -> int:
    """Talk, with a new session every 20 turns; returns the tokens of what was said."""
    counter, own = token_counter(Settings().encoding), 0
    settings = Settings(extraction=ExtractionSettings(debounce_seconds=0))
    with (
        TemporaryDirectory() as folder,
        Memory(
            Path(folder) / "m", model=reader, embeddings="hash", settings=settings
        ) as memory,
    ):
        user = memory.user("benchmark")
        for number in range(turns):
            topic = TOPICS[number % len(TOPICS)]
            asked = (
                f"About {topic}: on day {number} I spent {number % 50 + 3} euros "
                "and met Jo."
            )
            answer = "Thanks, I will keep that in mind for later."
            rows = [("user", asked), ("assistant", answer)]
            talk = [{"role": r, "content": t, "id": f"{r}-{number}"} for r, t in rows]
            user.add(talk, session_id=f"s{number // 20}")
            own += counter.count(asked) + counter.count(answer)
            user.drain()
        user.flush()
    return own


def _report(reader: ScriptedChatModel, turns: int, own: int) -> str:
    counter = token_counter(Settings().encoding)
    calls, tokens = Counter[str](), Counter[str]()
    for (name, _), messages in zip(reader.asked, reader.requests, strict=True):
        calls[name] += 1
        schema: type[BaseModel] = getattr(answer_schemas, name)
        tokens[name] += prompt_tokens(counter, schema, messages[:2])
    lines = [
        "| call | calls | prompt tokens | per turn |",
        "| --- | ---: | ---: | ---: |",
    ]
    for name in calls:
        lines.append(
            f"| {name} | {calls[name]} | {tokens[name]:,} | "
            f"{tokens[name] / turns:.0f} |"
        )
    flush = tokens["Extraction"] + tokens["Reconciliation"]
    beyond = (flush - own) / turns
    how = "exact" if counter.exact else "estimated, on the high side"
    lines += [
        "",
        f"{turns} turns, {own:,} tokens of their own. Extraction and reconciliation "
        "send "
        f"{beyond:.0f} tokens per turn beyond them, schemas included ({how}).",
        f"Calls per turn: {sum(calls.values()) / turns:.2f}. {json.dumps(dict(calls))}",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
