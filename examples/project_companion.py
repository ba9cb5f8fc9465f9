"""A companion for a project: it knows what is next, and what a proposed time conflicts
with.

python examples/project_companion.py                        offline, with scripted
answers python examples/project_companion.py --base-url http://localhost:11434/v1
--model llama3.2
"""

import argparse
import json
import re
import tempfile
from typing import Any

from langchain_core.messages import HumanMessage

from langmem_graph import Memory
from langmem_graph.llm import load_chat_model
from langmem_graph.testing import ScriptedChatModel

SAID = [
    ("2040-03-05T09:10", "I lead project Kite. The survey is done, 214 answers."),
    (
        "2040-03-06T16:30",
        "Kite: the report is drafted, Lea still has to read chapter 3.",
    ),
    ("2040-03-07T08:45", "The review of Kite is on 2040-03-14 at 10:00."),
    ("2040-03-07T08:50", "And I see the dentist on 2040-03-15 from 15:00 to 16:00."),
]
"""Far ahead: an appointment that is over when it is read is not put on the schedule."""
TODAY = "2040-03-12T08:00:00+00:00"  # a Monday
ASKED = ["Great, what's next?", "Can we have the review on Thursday at 15:00?"]
KITE = {"facet": "project_state", "project": "Kite", "subject": "project Kite"}
PLANNED = {"facet": "schedule", "kind": "event"}
FOUND: list[dict[str, Any]] = [
    {**KITE, "attribute": "survey", "text": "Kite's survey is done, with 214 answers."},
    {
        **KITE,
        "attribute": "report",
        "text": "Kite's report is drafted; Lea has yet to read it.",
    },
    {
        **PLANNED,
        "text": "The review of Kite.",
        "subject": "Kite",
        "when": "2040-03-14T10:00",
    },
    {
        **PLANNED,
        "text": "The user sees the dentist.",
        "when": "2040-03-15T15:00",
        "until": "2040-03-15T16:00",
    },
]
"""What a model might find in each message."""


def scripted_extraction(asked: str) -> dict[str, Any]:
    """What it finds, each with the alias of the message that it was shown."""
    shown = re.findall(r'^(m\d+) \w+ [\d-]+ [\d:]+ \S+: (".*")$', asked, re.MULTILINE)
    aliases = {json.loads(text): alias for alias, text in shown}
    found = [
        {**memory, "sources": [aliases[text]]}
        for memory, (_, text) in zip(FOUND, SAID, strict=True)
        if text in aliases
    ]
    return {"memories": found}


def scripted_topics(asked: str) -> dict[str, Any]:
    """One track, of every record that it was shown."""
    words = "Survey and draft are done; the review is due."
    track = {
        "name": "kite",
        "title": "Project Kite",
        "summary": words,
        "narrative": words,
    }
    return {
        "tracks": [{**track, "evidence": re.findall(r"^(r\d+):", asked, re.MULTILINE)}]
    }


SCRIPTED = {
    "Extraction": scripted_extraction,
    "Reconciliation": {"changes": []},
    "CausalPairs": {"pairs": []},
    "TopicRound": scripted_topics,
    "ProfileText": {"text": "Ana leads project Kite.", "topics": ["kite"]},
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--base-url", help="any OpenAI-compatible server")
    options.add_argument("--model", help="its model")
    chosen = options.parse_args()
    model: Any = load_chat_model(chosen.model, chosen.base_url)
    reads = model or ScriptedChatModel(answers=SCRIPTED)
    with (
        tempfile.TemporaryDirectory() as directory,
        Memory(directory, model=reads) as memory,
    ):
        ana = memory.user("ana")
        for number, (at, text) in enumerate(SAID):
            said = {"role": "user", "content": text, "at": at, "id": f"m{number}"}
            ana.add([said], session_id="first days of March")
        print(f"the model reads: {ana.flush().stored} records")
        for request in ASKED:
            known = ana.recall(request, at=TODAY)  # no model call
            print(
                f"\n--- a new thread\nyou: {request}\n\nwhat a model is "
                f"shown:\n{known.context}"
            )
            if model:
                said_to = [HumanMessage(known.context), HumanMessage(request)]
                print(f"\nbot: {model.invoke(said_to).text}")


if __name__ == "__main__":
    main()
