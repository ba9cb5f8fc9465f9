"""A tool that books flights, and a model that fills its call."""

import json
import re
from typing import Any, Literal

from pydantic import BaseModel, Field

from tests.support.flights import SAID, alias, copy
from tests.support.models import AnswersBySchema


class Contact(BaseModel):
    email: str
    phone: str | None = None


class BookFlight(BaseModel):
    """Book a flight."""

    destination: str = Field(description="city")
    seat: Literal["Aisle", "Window"] = "Window"
    bags: int = 1
    flyer_number: str | None = None
    extras: list[str] = []
    insured: bool | None = None
    contact: Contact | None = None


def candidate(prompt: str, raw: str) -> str:
    shown = re.escape(json.dumps(raw, ensure_ascii=False))
    found = re.search(rf"^(v\d+): {shown} ", prompt, re.MULTILINE)
    assert found, f"{raw!r} is no candidate:\n{prompt}"
    return found[1]


def fill(prompt: str) -> dict[str, Any]:
    insured = {"slot": "insured", "how": "infer", "value": "true"}
    return {
        "slots": [
            copy(prompt, "destination", "łódź (poland)", "m3"),
            copy(prompt, "seat", "aisle", "m1"),
            {"slot": "bags", "how": "copy", "candidate": candidate(prompt, "2")},
            copy(prompt, "flyer_number", "LH-992 441/x", "m2"),
            copy(prompt, "extras", "vegan meal", "m5"),
            copy(prompt, "extras", "blanket", "m5"),
            {**insured, "sources": [alias(prompt, SAID["m6"])]},
            {
                "slot": "contact.email",
                "how": "copy",
                "candidate": candidate(prompt, "mira+air@example.org"),
            },
            {"slot": "contact.phone", "how": "missing"},
        ]
    }


def good(**answers: Any) -> AnswersBySchema:
    verdict = {"verdicts": [{"number": 1, "follows": True}]}
    return AnswersBySchema(**{"ToolFill": fill, "Verdicts": verdict, **answers})
