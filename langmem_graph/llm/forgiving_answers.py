"""Forgiving reading of model answers: one slip costs a part of an answer, never all of
it.

The schemas of answers derive from `Answer`. Lists are read item by item, null is the
field's default, and what is too long is cut. `Answer.dropped` lists what was left out
or cut. The JSON schema that the model is sent stays the same.

`read_reply` tells what came of one model call: the JSON object that was asked for is
looked for in the arguments of the message's tool calls and in its text.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import NoneType
from typing import Annotated, Any, Generic, Literal, Self, TypeVar, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    PrivateAttr,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.fields import FieldInfo

from langmem_graph.errors import explain
from langmem_graph.llm.repaired_json import repaired_object

T = TypeVar("T", bound=BaseModel)
# of a text whose beginning would say something else: a value, a rule
NEVER_CUT = "never cut"
MOST_TRIED = 50  # places of a text at which a JSON object is looked for
_CONFIG = ConfigDict(coerce_numbers_to_str=True)
_NESTED = {"nested": True}  # the validation context of answers within another one
_ALIAS = re.compile(r"(?<![^\W_])[a-z]{1,3}[0-9]{1,6}(?![^\W_])", re.IGNORECASE)
# characters; a longer answer is a repetition loop, and not sent back
LONGEST_ANSWER = 60_000
LONGEST_DETAIL = 200
REPAIRED = "the JSON had slips and was repaired"
"""Stands among what was left out of an answer."""


class Answer(BaseModel):
    """Base of the answers' schemas; unknown keys are ignored, and numbers may be given
    as texts.
    """

    model_config = _CONFIG
    _dropped: list[str] = PrivateAttr(default_factory=list)
    _is_cut_off: bool = PrivateAttr(default=False)
    _places: dict[str, list[int | None]] = PrivateAttr(default_factory=dict)

    @property
    def dropped(self) -> list[str]:
        """What was left out or cut: a line each, which begins with a place
        (`memories[3].when`).
        """
        return list(self._dropped)

    @property
    def is_cut_off(self) -> bool:
        """Whether the model's text ended before the answer did."""
        return self._is_cut_off

    def place_of(self, name: str, given: int | None) -> int | None:
        """Where the item that the model gave at a place of a list is now; None if it is
        gone.
        """
        places = self._places.get(name, [])
        return places[given] if given is not None and 0 <= given < len(places) else None

    def loss_in(self, name: str) -> str | None:
        """What of a list was left out, for a step that can only use all of it; None if
        nothing.
        """
        if None not in self._places.get(name, []):
            return None
        return "; ".join(line for line in self._dropped if line.startswith(name))

    def is_usable(self) -> bool:
        """False if so much was dropped that nothing is left."""
        return not self._dropped or any(
            map(self._says_something, self.model_fields_set)
        )

    def _says_something(self, name: str) -> bool:
        value = getattr(self, name)
        defined = type(self).model_fields[name]
        if isinstance(value, list):
            return bool(value)
        return defined.is_required() or value != defined.default

    @model_validator(mode="wrap")
    @classmethod
    def _read(
        cls, given: Any, make: ModelWrapValidatorHandler[Self], info: ValidationInfo
    ) -> Self:
        given = _decoded(given)
        if not isinstance(given, dict):
            return make(given)
        reading = _Reading(cls)
        reading.read_fields(given)
        if info.context != _NESTED:
            reading.read_as_whole(given)
        answer = make(reading.kept)
        answer._dropped = reading.dropped
        answer._places = reading.places
        return answer


@dataclass(frozen=True)
class _Field:
    """How a field's value, or each item of its list, is read."""

    adapter: TypeAdapter[Any]
    choices: tuple[Any, ...]  # the values of a Literal
    may_be_cut: bool
    is_list: bool
    most: int | None  # items that a list may have
    required: bool
    optional: bool  # null is a value

    @classmethod
    def of(cls, info: FieldInfo) -> Self:
        """By the field's definition."""
        is_list = get_origin(info.annotation) is list
        inside = get_args(info.annotation)
        one: Any = inside[0] if is_list else info.rebuild_annotation()
        inner, *metadata = get_args(one) if get_origin(one) is Annotated else (one,)
        is_model = isinstance(one, type) and issubclass(one, BaseModel)
        lengths = [
            length
            for said in info.metadata
            if (length := getattr(said, "max_length", 0))
        ]
        return cls(
            adapter=TypeAdapter(one, config=None if is_model else _CONFIG),
            choices=get_args(inner) if get_origin(inner) is Literal else (),
            may_be_cut=NEVER_CUT not in metadata,
            is_list=is_list,
            most=min(lengths, default=None),
            required=info.is_required(),
            optional=NoneType in inside,
        )

    def read(self, value: Any) -> Any:
        """The value; a name among the choices may differ in case, and in its
        separators.
        """
        if self.choices and isinstance(value, str):
            name = re.sub(r"[\s-]+", "_", value.strip().lower())
            value = name if name in self.choices else value
        return self.adapter.validate_python(value, context=_NESTED)


@lru_cache
def _fields(schema: type[BaseModel]) -> dict[str, _Field]:
    return {name: _Field.of(info) for name, info in schema.model_fields.items()}


@dataclass
class _Reading:
    """One JSON object on its way to becoming an answer."""

    schema: type[Answer]
    kept: dict[str, Any] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)
    places: dict[str, list[int | None]] = field(default_factory=dict)

    def read_fields(self, given: dict[Any, Any]) -> None:
        """Read the fields that are given; what cannot be read has its default
        afterwards.
        """
        for name, defined in _fields(self.schema).items():
            if name not in given or (given[name] is None and not defined.optional):
                continue
            read = self._read_items if defined.is_list else self._read_one
            read(name, defined, given[name])

    def read_as_whole(self, given: dict[Any, Any]) -> None:
        """Of the outermost object: say if nothing in it is known; missing lists are
        empty.
        """
        fields = _fields(self.schema)
        if given and not any(name in fields for name in given):
            self.dropped.append("none of the keys is one of the form")
        if any(self.kept.values()):
            for name in (
                name for name, one in fields.items() if one.is_list and one.required
            ):
                if name not in self.kept:
                    self.kept[name] = []
                    self.dropped.append(f"{name}: missing, read as an empty list")

    def _read_one(self, name: str, defined: _Field, value: Any) -> None:
        try:
            self.kept[name] = self._part(defined, value, name)
        except ValidationError as error:
            if defined.required:
                self.kept[name] = value  # fails again, with the object
            else:
                self._drop(name, error, "the default is taken")

    def _read_items(self, name: str, defined: _Field, value: Any) -> None:
        items = _as_list(value)
        kept = list[Any]()
        self.kept[name] = kept
        places = self.places[name] = list[int | None]([None] * len(items))
        for place, item in enumerate(items):
            if len(kept) == defined.most:
                self.dropped.append(
                    f"{name}: {len(items)} items, cut after {len(kept)}"
                )
                break
            try:
                kept.append(self._part(defined, item, f"{name}[{place}]"))
                places[place] = len(kept) - 1
            except ValidationError as error:
                self._drop(f"{name}[{place}]", error, "left out")

    def _part(self, defined: _Field, value: Any, place: str) -> Any:
        try:
            read = defined.read(value)
        except ValidationError as error:
            most = _most_characters(error)
            if most is None or not defined.may_be_cut:
                raise
            read = defined.read(cut(str(value), most))
            self.dropped.append(f"{place}: {len(str(value))} characters, cut to {most}")
        if isinstance(read, Answer):
            self.dropped += [f"{place}.{line}" for line in read.dropped]
        return read

    def _drop(self, place: str, error: ValidationError, outcome: str) -> None:
        first = error.errors(
            include_url=False, include_context=False, include_input=False
        )[0]
        steps = (
            f"[{step}]" if isinstance(step, int) else f".{step}"
            for step in first["loc"]
        )
        self.dropped.append(f"{place}{''.join(steps)}: {first['msg']}; {outcome}")


def _most_characters(error: ValidationError) -> int | None:
    """The greatest length, where a text was too long and nothing else was wrong."""
    problems = error.errors(include_url=False, include_input=False)
    if (
        len(problems) != 1
        or problems[0]["type"] != "string_too_long"
        or problems[0]["loc"]
    ):
        return None
    most: int = problems[0]["ctx"]["max_length"]
    return most


_SIGNS_OF_NUMBERS = "0123456789.,:/-"


def cut(text: str, most: int) -> str:
    """The beginning of a text, without a word or number that would end in its
    middle.
    """
    kept = text[:most]
    after = text[most : most + 1]
    if not after or after.isspace() or not kept or kept[-1].isspace():
        return kept.rstrip()
    by_word = re.sub(r"\s\S{0,60}$", "", kept).rstrip()
    if by_word == kept:
        by_word = kept.rstrip(_SIGNS_OF_NUMBERS)
    return by_word or kept


def _decoded(value: Any) -> Any:
    """The JSON in a text, where an object or list is asked for; any other value as it
    is.
    """
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        with suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def _as_list(value: Any) -> list[Any]:
    """A value as a list; what is none is the only item of one."""
    value = _decoded(value)
    if isinstance(value, list | tuple):
        return list(value)
    return [] if value == "" else [value]


def normal_alias(given: Any) -> Any:
    """The only alias in a text such as `[m1]`, `M1` or `message m1`; anything else as
    it is.
    """
    found = _ALIAS.findall(given[:100]) if isinstance(given, str) else []
    return found[0].lower() if len(found) == 1 else given


def _read_object(schema: type[T], parsed: Any, text: str) -> T | None:
    if isinstance(parsed, schema):
        return parsed
    if isinstance(parsed, dict):
        with suppress(ValidationError):
            return schema.model_validate(parsed)
    return read_text(schema, text)


def read_text(schema: type[T], text: str) -> T | None:
    """An answer out of a text with a JSON object in it; None if there is none.

    Prose or a code fence may stand around it. Of several objects the last one that fits
    counts, since drafts come first.

    Raises:
        ValidationError: no object fits; what is wrong in the last one.
    """
    problem: ValidationError | None = None
    for found in reversed(list(_objects(text))):
        try:
            answer = schema.model_validate(found)
        except ValidationError as error:
            problem = problem or error
        else:
            if any(name in schema.model_fields for name in found):
                return answer
    if problem is not None:
        raise problem
    return None


def _read_repaired(schema: type[T], text: str) -> T | None:
    """An answer out of JSON with slips; None if there is none that fits."""
    found = repaired_object(text)
    if found is None or not any(name in schema.model_fields for name in found.value):
        return None
    try:
        answer = schema.model_validate(found.value)
    except ValidationError:
        return None
    if isinstance(answer, Answer):
        answer._is_cut_off = found.is_cut_off
    return answer


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The outermost JSON objects of a text."""
    decoder = json.JSONDecoder()
    place = text.find("{")
    for _ in range(MOST_TRIED):
        if place < 0:
            return
        try:
            found, end = decoder.raw_decode(text, place)
            yield found
        except (ValueError, RecursionError):
            end = place + 1
        place = text.find("{", end)


@dataclass(frozen=True)
class Reply(Generic[T]):
    """What came of one call."""

    answer: T | None = None
    problem: str | None = None  # why there is no answer, without any word of it
    # beginning of an unusable answer, or the error; for the report alone
    detail: str = ""
    text: str = ""  # all that the model wrote
    refused: list[str] = field(default_factory=list)  # parts left out or cut
    is_late: bool = False  # there was none in time

    def checked(self, check: Callable[[T], str | None]) -> Self:
        """The reply, without the answer where the step that asked finds a problem in
        it.
        """
        problem = check(self.answer) if self.answer is not None else None
        return self if problem is None else replace(self, answer=None, problem=problem)

    def in_full(self) -> str:
        """The problem with its detail."""
        return f"{self.problem}: {self.detail}" if self.detail else str(self.problem)


def read_reply(schema: type[T], answer: dict[str, Any]) -> Reply[T]:
    """Read an answer from the message that the model wrote (`raw`), and from what was
    read of it (`parsed`): the arguments of its tool call, or an answer.
    """
    text = text_of(answer.get("raw"))
    if len(text) > LONGEST_ANSWER:
        return Reply(problem=f"the answer has {len(text):,} characters; answer briefly")
    parsed = answer.get("parsed")
    if isinstance(parsed, dict):
        text = text or json.dumps(parsed, default=str)
    why = "no such JSON object"
    repaired = False
    try:
        parsed = _read_object(schema, parsed, text)
    except ValidationError as error:
        parsed = None
        why = explain(error)
    if parsed is None:
        parsed = _read_repaired(schema, text)
        repaired = parsed is not None
    if parsed is None:
        detail = text[:LONGEST_DETAIL] or "no answer"
        return Reply(problem=f"not in the schema: {why}", detail=detail, text=text)
    dropped = parsed.dropped if isinstance(parsed, Answer) else []
    if repaired:
        dropped = [REPAIRED, *dropped]
    if isinstance(parsed, Answer) and not parsed.is_usable():
        nothing = f"nothing in it could be used: {'; '.join(dropped)}"
        return Reply(problem=nothing, text=text, refused=dropped)
    return Reply(parsed, text=text, refused=dropped)


def text_of(raw: Any) -> str:
    """All that a message of the model says: the arguments of its tool calls, and its
    text.
    """
    calls = [call["args"] for call in getattr(raw, "tool_calls", None) or []]
    calls += [
        call["args"] or "" for call in getattr(raw, "invalid_tool_calls", None) or []
    ]
    parts = [
        one if isinstance(one, str) else json.dumps(one, default=str) for one in calls
    ]
    return "\n".join([*parts, str(getattr(raw, "text", ""))]).strip()
