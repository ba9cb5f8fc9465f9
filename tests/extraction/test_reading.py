"""What the application adds to the rules of reading: what to look for, own forms, never what."""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    Json,
    RootModel,
    SecretStr,
    computed_field,
    create_model,
    field_serializer,
    field_validator,
)
from pydantic.alias_generators import to_camel

from langmem_graph import Memory, Reading
from langmem_graph.errors import InvalidInputError
from tests.conftest import let_go, said
from tests.support.models import AnswersBySchema
from tests.support.settings import nested
from tests.support.writing import lines_of, memories

SETTINGS = nested(extraction__debounce_seconds=3_600, storage__closing_seconds=0.01)


class Allergy(BaseModel):
    """Something that makes the user ill."""

    substance: str
    severity: Literal["mild", "severe"] = "mild"


class Medication(BaseModel):
    name: str
    milligrams: float


class Reminder(BaseModel):
    """A form whose checks raise errors of several kinds, or give what is no JSON."""

    when: Any

    @field_validator("when")
    @classmethod
    def _read(cls, given: Any) -> Any:
        return {"today": 1, "odd": object()}[given]


class Weight(BaseModel):
    kilograms: float


class Journey(BaseModel):
    """A form that names, computes and reads its fields in ways of its own."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", strict=True)
    first_day: date
    going_to: str = Field(validation_alias="destination")
    stops_on_the_way: Json[list[str]]

    @computed_field
    def length(self) -> int:
        return len(self.stops_on_the_way)


class Birthday(BaseModel):
    day: date

    @field_serializer("day")
    def _as_shown(self, day: date) -> str:
        return day.strftime("%d.%m.%Y")


class Counted(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def _next(cls, given: int) -> int:
        return given + 1


class Locked(BaseModel):
    code: SecretStr


class Unshown(BaseModel):
    code: str = Field("none", exclude=True)


class Names(RootModel[list[str]]):
    pass


@pytest.fixture
def opened(tmp_path: Path) -> Any:
    made: list[Memory] = []

    def make(model: Any, reading: Any = None) -> Memory:
        options = {"model": model, "reading": reading, "settings": SETTINGS}
        made.append(Memory(tmp_path / "m", embeddings="hash", **options))
        return made[-1]

    yield make
    let_go(*made)


def filling(*forms: dict[str, Any]) -> AnswersBySchema:
    """A memory of each message, each with the next form."""

    def extract(question: str) -> dict[str, Any]:
        said_in = lines_of(question).items()
        return memories(
            *(
                {"text": text, "sources": [alias], "attribute": text[:20], **form}
                for (alias, (_, text)), form in zip(said_in, forms, strict=False)
            )
        )

    return AnswersBySchema(Extraction=extract)


def tell(user: Any, *texts: str) -> None:
    for number, text in enumerate(texts):
        user.add(
            said(text, id=f"m{number}", at=f"2025-01-0{number + 1}"), session_id="s"
        )


def rules(model: AnswersBySchema) -> str:
    return "\n".join(
        str(one.content) for messages in model.requests for one in messages
    )


def test_records_come_back_in_the_applications_form(opened: Any) -> None:
    bees = {
        "form": "Allergy",
        "data": '{"substance": "bee stings", "severity": "severe"}',
    }
    nuts = {"form": "Allergy", "data": {"substance": "nuts"}}
    pill = {"form": "Medication", "data": '{"name": "Zyrtec", "milligrams": "10"}'}
    memory = opened(
        filling(bees, nuts, pill, {}), Reading(schemas=[Allergy, Medication])
    )
    ana = memory.user("ana")
    tell(
        ana, "Bee stings could kill me.", "Nuts itch.", "I take Zyrtec 10 mg.", "I row."
    )
    assert ana.flush().stored == 4
    found = ana.records_of(Allergy)
    assert [one.data for one in found] == [
        Allergy(substance="nuts"),
        Allergy(substance="bee stings", severity="severe"),
    ]
    assert [one.record.message_ids for one in found] == [["m1"], ["m0"]]
    (pill_found,) = ana.records_of(Medication)
    assert pill_found.data.milligrams == 10.0
    assert ana.search_records("row")[0].text == "I row."


async def test_what_is_superseded_hidden_or_exported(opened: Any) -> None:
    bees = {"form": "Allergy", "data": {"substance": "bees"}}
    memory = opened(filling(bees, bees), Reading(schemas=[Allergy]))
    ana, copy = memory.user("ana"), memory.user("copy")
    tell(ana, "Bees kill me.", "Bees, I said.")
    await ana.aflush()
    first, second = [one.record.record_id for one in await ana.arecords_of(Allergy)]
    ana.hide(first)
    assert [one.record.record_id for one in ana.records_of(Allergy)] == [second]
    ana.correct(second, "Wasps kill me.")
    assert ana.records_of(Allergy) == []
    assert ana.get_records(second)[0].data == {
        "Allergy": {"substance": "bees", "severity": "mild"}
    }
    copy.add(ana.export(), session_id="s")
    copy.add_records(ana.export_records(history=True))
    copy.unhide(first)
    assert [one.data for one in copy.records_of(Allergy)] == [Allergy(substance="bees")]


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ({"form": "Illness", "data": "{}"}, "there is no form"),
        (
            {"form": "Allergy", "data": '{"severity": "mild"}'},
            "substance: Field required",
        ),
        ({"form": "Allergy", "data": "penicillin"}, "Invalid JSON"),
    ],
)
def test_a_form_that_does_not_fit_is_left_out_and_told(
    opened: Any, form: Any, why: str
) -> None:
    ana = opened(filling(form), Reading(schemas=[Allergy])).user("ana")
    tell(ana, "Bees kill me.")
    report = ana.flush()
    assert report.stored == 1
    assert why in " ".join(report.reasons)
    assert ana.records_of(Allergy) == []


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ({"form": "Reminder", "data": '{"when": "soon"}'}, "KeyError"),
        ({"form": "Reminder", "data": '{"when": [1]}'}, "TypeError"),
        ({"form": "Reminder", "data": '{"when": "odd"}'}, "PydanticSerializationError"),
        ({"form": "Weight", "data": '{"kilograms": NaN}'}, "a number is not finite"),
        ({"form": "Weight", "data": '{"kilograms": -1e999}'}, "a number is not finite"),
        ({"form": "Weight", "data": '{"kilograms": "inf"}'}, "a number is not finite"),
    ],
)
def test_a_form_that_cannot_be_checked_or_kept_loses_no_record(
    opened: Any, form: Any, why: str
) -> None:
    ana = opened(filling(form), Reading(schemas=[Reminder, Weight])).user("ana")
    tell(ana, "Bees kill me.")
    report = ana.flush()
    assert report.stored == 1
    assert why in " ".join(report.reasons)
    assert [record.data for record in ana.records()] == [None]


def test_a_form_with_names_of_its_own_comes_back(opened: Any) -> None:
    data = (
        '{"firstDay": "2025-01-02", "destination": "Rome", '
        '"stopsOnTheWay": "[\\"Basel\\"]"}'
    )
    memory = opened(
        filling({"form": "Journey", "data": data}), Reading(schemas=[Journey])
    )
    ana = memory.user("ana")
    tell(ana, "To Rome by Basel.")
    assert ana.flush().reasons == []
    (journey,) = [one.data for one in ana.records_of(Journey)]
    assert journey == Journey.model_validate_json(data)


@pytest.mark.parametrize(
    "given",
    [
        {"first_day": "2025-01-02", "going_to": "Rome", "stops_on_the_way": "[]"},
        {"firstDay": "2025-01-02", "destination": "Rome", "stopsOnTheWay": "[]"},
    ],
)
def test_a_form_is_read_by_its_fields_names_or_those_shown(
    opened: Any, given: dict[str, str]
) -> None:
    ana = opened(None).user("ana")
    tell(ana, "To Rome.")
    row = {"text": "Rome.", "source_message_ids": ["m0"], "data": {"Journey": given}}
    ana.add_records(row)
    assert [one.data.going_to for one in ana.records_of(Journey)] == ["Rome"]


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        (Birthday, '{"day": "2025-01-02"}'),
        (Counted, '{"number": 1}'),
        (Locked, '{"code": "1234"}'),
        (Unshown, '{"code": "1234"}'),
        (Names, '["Ana"]'),
    ],
)
def test_a_form_that_would_not_come_back_is_left_out_and_told(
    opened: Any, schema: type[BaseModel], data: str
) -> None:
    name = schema.__name__
    filled = filling({"form": name, "data": data})
    ana = opened(filled, Reading(schemas=[schema])).user("ana")
    tell(ana, "My birthday is on the second of January.")
    report = ana.flush()
    assert report.stored == 1
    assert f"{name}: " in " ".join(report.reasons)
    assert "not read back as it was filled" in " ".join(report.reasons)
    assert [record.data for record in ana.records()] == [None]


def test_a_form_that_raises_any_error_when_it_is_read_is_left_out(
    opened: Any, caplog: pytest.LogCaptureFixture
) -> None:
    ana = opened(None).user("ana")
    tell(ana, "Bees kill me.")
    form = {"Reminder": {"when": "soon"}}
    ana.add_records({"text": "Bees.", "source_message_ids": ["m0"], "data": form})
    assert ana.records_of(Reminder) == []
    assert "does not fit Reminder any more" in caplog.text


def test_what_fits_a_later_version_no_more_is_left_out(
    opened: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bees = {"form": "Allergy", "data": {"substance": "bees"}}
    ana = opened(filling(bees), Reading(schemas=[Allergy])).user("ana")
    tell(ana, "Bees kill me.")
    ana.flush()
    later = type("Allergy", (BaseModel,), {"__annotations__": {"since": int}})
    assert ana.records_of(later) == []
    assert "does not fit Allergy any more" in caplog.text


def test_the_model_is_told_what_the_application_wants(opened: Any) -> None:
    plain, told = filling({}), filling({})
    tell(opened(plain).user("ana"), "I row.")
    opened(plain).user("ana").flush()
    assert "The application adds" not in rules(plain)
    wanted = {
        "instructions": "which boats\nthey own",
        "never": "anything about religion",
    }

    def reading(user_id: str) -> Reading | None:
        return Reading(schemas=[Allergy], **wanted) if user_id == "bob" else None

    memory = opened(told, reading)
    for name, expected in (("cleo", False), ("bob", True)):
        told.requests.clear()
        tell(memory.user(name), "I row.")
        memory.user(name).flush()
        for words in ("which boats they own", "anything about religion", '"substance"'):
            assert (words in rules(told)) is expected


def with_schema(extra: Any) -> type[BaseModel]:
    """A form with this in its schema."""
    config = ConfigDict(json_schema_extra=extra)
    return create_model("Trip", __config__=config, day=(date, ...))


NO_SCHEMAS = [
    {"examples": [{"day": date(2026, 1, 1)}]},
    {"most": 10**5_000},
    {"description": "\ud800"},
    lambda schema: schema["properties"]["gone"].pop("x"),
    lambda _: 1 / 0,
]
"""What no JSON schema can be made of."""


def test_unusable_readings_are_refused(opened: Any, tmp_path: Path) -> None:
    twice = type("Allergy", (BaseModel,), {})
    for fields in (
        {"schemas": [Allergy, twice]},
        {"never": "x" * 3_000},
        {"schemas": [int]},
        {"schemas": [create_model("Call", run=(Callable[[int], int], ...))]},
        {"schemas": [create_model("Later", when=("Undefined", ...))]},
        *({"schemas": [with_schema(extra)]} for extra in NO_SCHEMAS),
    ):
        with pytest.raises(InvalidInputError, match="As in Reading"):
            Reading(**fields)
    with pytest.raises(InvalidInputError, match=r"a function of \(user\)"):
        Memory(tmp_path / "other", embeddings="hash", reading="allergies")  # type: ignore[arg-type]
    ana = opened(filling({}), lambda _: "allergies").user("ana")
    tell(ana, "I row.")
    with pytest.raises(InvalidInputError, match="must give a Reading"):
        ana.flush()
    assert ana.flush_forecast().messages == 1


def test_forms_keep_no_words_of_a_message_that_has_expired(opened: Any) -> None:
    memory = opened(None)
    ana = memory.user("ana")
    tell(ana, "Bees, says Dr Zqxv.")
    ana.add(said("Bees kill me.", id="young"), session_id="s")
    row = {"text": "Bees are deadly.", "source_message_ids": ["m0", "young"]}
    for substance in ("Zqxv", "Bees"):
        row |= {
            "text": f"{row['text']}!",
            "data": {"Allergy": {"substance": substance}},
        }
        ana.add_records({**row, "subject": substance})
    assert len(ana.records_of(Allergy)) == 2
    ana.keep_days(messages=30)
    ana.expire()
    assert [one.data.substance for one in ana.records_of(Allergy)] == ["Bees"]
    assert len(ana.export_records()) == 2
