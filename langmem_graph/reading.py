"""What an application wants memory to look for, to keep in a form of its own, and never
to keep.

`redact` takes that out of what is stored, before it is stored.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError, field_validator

from langmem_graph.errors import (
    InvalidInputError,
    check_function,
    explain,
    quoted,
    shortened,
)
from langmem_graph.schemas import FrozenModel, Message, Record
from langmem_graph.settings import Options

Redact = Callable[[str], str]
"""An application's function: a text without what must not be stored, such as card
numbers.
"""
ForgetOnRequest = Literal["hide", "delete"]
_IDS = frozenset(
    "record_id message_ids source_message_ids supporting_ids supersedes refines".split()
)
_NAMED_BY_OTHERS = frozenset(["args", "data"])
"""Fields whose objects' keys are named by an application, a model or a user."""
_TEXTS = "text subject attribute project scene entities values data".split()


class Reading(Options):
    """How a model reads messages, beside its own rules; see docs/scopes.md.

    Examples:
        ```python
        class Allergy(BaseModel):
            substance: str
            severe: bool = False


        reading = Reading(schemas=[Allergy], never="anything sexual")
        Memory("./memory", model=model, reading=reading)
        ```
    """

    example = (
        'Reading(instructions="what they cannot eat", schemas=[Allergy], '
        'never="religion")'
    )

    instructions: str = Field("", max_length=2_000)
    """What it should look for, in plain words."""
    schemas: tuple[type[BaseModel], ...] = Field((), max_length=20)
    """Forms that it fills, such as `Allergy`; `user.records_of(Allergy)` gives what it
    filled.
    """
    never: str = Field("", max_length=2_000)
    """What it is told never to write down. It is a rule for a model: `redact` is
    certain.
    """

    @field_validator("schemas")
    @classmethod
    def _named_differently(
        cls, given: tuple[type[BaseModel], ...]
    ) -> tuple[type[BaseModel], ...]:
        names = {one.__name__ for one in given}
        if len(names) < len(given) or not all(name.isascii() for name in names):
            raise ValueError(
                "each form needs a name of its own, of ASCII letters and digits"
            )
        for form in given:
            try:
                _as_text({form.__name__: form.model_json_schema()}).encode()
            except Exception as error:  # noqa: BLE001  # of the form's own schema
                why = shortened(f"{getattr(error, 'message', error)}")
                raise ValueError(
                    f"the form {form.__name__} cannot be shown to a model: "
                    f"{type(error).__name__}: {why}"
                ) from None
        return given

    def form(self, name: str, filled: str) -> dict[str, dict[str, Any]]:
        """What a model filled in, as `Record.data` has it.

        Raises:
            InvalidInputError: there is no such form, or it does not fit.
        """
        schema = next((one for one in self.schemas if one.__name__ == name), None)
        if schema is None:
            raise InvalidInputError(f"there is no form {name[:80]!r}")
        try:
            given = schema.model_validate_json(filled)
            # by the fields' names, as in the records of earlier versions
            data = given.model_dump(mode="json", by_alias=False, round_trip=True)
        except ValidationError as error:
            raise InvalidInputError(f"{name}: {explain(error)[:200]}") from None
        except Exception as error:  # noqa: BLE001  # of the form's own checks
            kind = type(error).__name__
            raise InvalidInputError(f"{name}: it failed with {kind}") from None
        try:
            json.dumps(data, allow_nan=False)
        except ValueError:
            raise InvalidInputError(f"{name}: a number is not finite") from None
        if not _comes_back(given, data):
            raise InvalidInputError(
                f"{name}: it is not read back as it was filled. A form is an object; "
                "its validators must read what its serializers write, and no field "
                "may be secret or excluded"
            )
        return {name: data}

    def forms(self) -> str:
        """The forms as text for a prompt."""
        shown = {one.__name__: one.model_json_schema() for one in self.schemas}
        return _as_text(shown) if shown else ""


def _as_text(schemas: Mapping[str, Any]) -> str:
    return json.dumps(schemas, ensure_ascii=False)


Readings = Reading | Callable[[str], Reading | None]
"""One for all users, or a function of a user's id."""


def check_reading(given: object) -> None:
    """Raise for what is neither of both."""
    if not (given is None or isinstance(given, Reading)):
        check_function(
            "reading, where it is no Reading(),",
            given,
            "user",
            f"reading={Reading.example}",
        )


def reading_of(given: Readings | None, user_id: str) -> Reading:
    """How this user's messages are read; without any, by memory's own rules alone."""
    found = given if given is None or isinstance(given, Reading) else given(user_id)
    if not isinstance(found, Reading | None):
        raise InvalidInputError(
            f"reading must give a Reading() or None, not {quoted(found)}. As in "
            f"{Reading.example}"
        )
    return found or Reading()


Form = TypeVar("Form", bound=BaseModel)


def read_form(form: type[Form], data: Any) -> Form:
    """A filled form of `Record.data`, with the fields' names or their aliases.

    Raises:
        Exception: it does not fit, or what the form's own checks raise.
    """
    # as JSON, since a strict form takes no text for a date elsewhere
    return form.model_validate_json(json.dumps(data), by_name=True)


def _comes_back(given: BaseModel, data: object) -> bool:
    """Whether a form that was dumped is read as what it was."""
    try:
        again = read_form(type(given), data)
        # fields alone: private attributes may differ
        return isinstance(data, dict) and vars(again) == vars(given)
    except Exception:  # noqa: BLE001  # of the form's own checks
        return False


class TypedRecord(FrozenModel, Generic[Form]):
    """What a record says in a form of the application's, and the record, with its
    sources.
    """

    data: Form
    record: Record


def redacted_text(text: str, redact: Redact | None) -> str:
    """The text that may be stored.

    Raises:
        InvalidInputError: `redact` failed, or left no text; the error does not quote
            the text.
    """
    if redact is None:
        return text
    try:
        left = redact(text)
    except Exception as error:  # noqa: BLE001  # the application's own; its words may quote the text
        raise InvalidInputError(
            f"redact failed: {type(error).__name__}; nothing is stored"
        ) from None
    if not isinstance(left, str) or not left.strip():
        raise InvalidInputError(
            "redact left no text; it must return what may be stored"
        )
    return left


def redacted_message(message: Message, redact: Redact | None) -> Message:
    """The message with redacted text, name and tool calls."""
    if redact is None:
        return message
    changed = {
        "text": redacted_text(message.text, redact),
        "name": message.name and redacted_text(message.name, redact),
        "tool_calls": _redacted(message.tool_calls, redact),
    }
    return message.model_copy(update=changed)


def redacted_record(row: object, redact: Redact | None) -> object:
    """A record, or a dict of one, with all its texts redacted but the ids."""
    if redact is None:
        return row
    if isinstance(row, Record):
        texts = _redacted({name: getattr(row, name) for name in _TEXTS}, redact)
        return row.model_copy(update=texts)
    if not isinstance(row, Mapping):
        return row
    ids = {key: one for key, one in row.items() if key in _IDS}
    return {**_redacted(row, redact), **ids}


def _redacted(value: Any, redact: Redact, *, keys: bool = False) -> Any:
    """All texts within lists and objects, redacted; with `keys` their keys too."""
    if isinstance(value, str):
        return redacted_text(value, redact) if value.strip() else value
    if isinstance(value, list):
        return [_redacted(one, redact, keys=keys) for one in value]
    if not isinstance(value, Mapping):
        return value
    redacted: dict[str, Any] = {}
    for key, one in value.items():
        name = _unused(_redacted(key, redact), redacted) if keys else key
        below = keys or key in _NAMED_BY_OTHERS
        redacted[name] = _redacted(one, redact, keys=below)
    return redacted


def _unused(name: str, used: Mapping[str, Any]) -> str:
    """The name, with a number where another one has become the same."""
    unused = name
    number = 1
    while unused in used:
        number += 1
        unused = f"{name} {number}"
    return unused
