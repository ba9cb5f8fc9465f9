"""A tool that books flights, and a model that fills its call."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from tests.support.flights import answer, taken
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


def fill(prompt: str) -> dict[str, Any]:
    arguments = {
        "destination": "łódź (poland)",
        "seat": "Aisle",
        "bags": 2,
        "flyer_number": "LH-992 441/x",
        "extras": ["vegan meal", "blanket"],
        "insured": True,
        "contact": {"email": "mira+air@example.org"},
    }
    return answer(
        arguments,
        taken(prompt, "destination", "łódź (poland)", "m3"),
        taken(prompt, "seat", "an aisle seat", "m1"),
        taken(prompt, "bags", "with 2 bags", "m3"),
        taken(prompt, "flyer_number", "LH-992 441/x", "m2"),
        taken(prompt, "extras.0", "vegan meal", "m5"),
        taken(prompt, "extras[1]", "a blanket", "m5"),
        taken(prompt, "insured", "a nervous person who insures everything", "m6"),
        taken(prompt, "contact.email", "mira+air@example.org", "m4"),
        missing=["contact.phone"],
    )


def good(**answers: Any) -> AnswersBySchema:
    return AnswersBySchema(**{"ToolFill": fill, **answers})
