"""Answers of a model that gathers records into one track, and a profile of it."""

from typing import Any


def gather(question: str) -> dict[str, Any]:
    """Everything into one track, whose story grows."""
    new = question.split("New records:\n")[1].splitlines()
    old = (
        question.split("## boats\n")[1].split("New records:", maxsplit=1)[0]
        if "## boats" in question
        else ""
    )
    story = old.strip() + " " + " ".join(line.split(") ", 1)[1] for line in new)
    track = {"name": "boats", "title": "Boats", "summary": f"{len(new)} more."}
    return {"tracks": [{**track, "narrative": story, "evidence": [n.split(":")[0] for n in new]}]}


PROFILE = {"text": "Owns boats.", "topics": ["boats"]}


def active(ana: Any) -> list[str]:
    return [row["record_id"] for row in ana.export_records()]
