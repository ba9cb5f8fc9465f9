"""Phone numbers in other forms, where the country is known from words beside them."""

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from phonenumbers import PhoneNumber

from langmem_graph.values.countries import countries_named, country_of_zone, towns_named

_WRITTEN = re.compile(r"(?<![\w.,])(?:\+|\(\+?)?\d(?:[\s().\-–/\u00a0\u202f]*\d){5,16}(?!\w)")
_FORM = re.compile(r"\+?[\d\s().\-–/]{6,24}")
_CALLING_CODE = re.compile(r"(?<!\w)(?:\+|00)(\d{1,3})(?!\d)")


def is_same_number(value: str, quotes: Sequence[tuple[str, str]], zone: str | None = None) -> bool:
    """True where the words have the number, and a country beside it that makes it the value.

    Args:
        value: "+447700900156"; or a national number, of one with a country's code.
        quotes: words, each with the whole text in which they stand.
        zone: the time zone that the application set: of a number with no other words, its country.
    """
    if not _FORM.fullmatch(value):
        return False
    written = [number for one in quotes for number in _numbers_in(*one)]
    own = [parsed for one in written if one.startswith("+") for parsed in _parsed(one, None)]
    digits = re.sub(r"\D", "", value)
    if not value.strip().startswith("+"):
        return any(digits == re.sub(r"\D", "", _in_form(one, national=True)) for one in own)
    national = [one for one in written if not one.startswith("+")]
    regions = _regions(quotes) if national else set()
    found = [parsed for one in national for region in regions for parsed in _parsed(one, region)]
    if national and all(any(_numbers_in(*one)) for one in quotes) and not regions and zone:
        found = [
            one for n in national for one in _parsed(n, country_of_zone(zone)) if _is_valid(one)
        ]
    meant = {_in_form(one) for one in own} | _certain(found)
    return f"+{digits}" in meant and len(_certain(found)) <= 1


def _numbers_in(words: str, text: str) -> Iterator[str]:
    """The numbers of the text that stand in the words whole."""
    for found in _WRITTEN.finditer(text):
        if found.group() in words:
            plain = re.sub(r"[^\d+]", "", found.group())
            yield re.sub(r"^00", "+", plain)


def _regions(quotes: Sequence[tuple[str, str]]) -> set[str]:
    """The countries that the words name, or the towns in them, or what stands around the towns."""
    from phonenumbers import region_code_for_country_code

    words = " … ".join(one for one, _ in quotes)
    named = {region_code_for_country_code(int(code)) for code in _CALLING_CODE.findall(words)}
    towns = {region for own in towns_named(words) for region in own}
    around = " … ".join(text for one, text in quotes if not any(_numbers_in(one, text)))
    return named or countries_named(words) or towns or countries_named(around)


def _parsed(number: str, region: str | None) -> Iterator["PhoneNumber"]:
    from phonenumbers import NumberParseException, is_possible_number, parse

    with suppress(NumberParseException):
        parsed = parse(number, region)
        if is_possible_number(parsed):
            yield parsed


def _certain(numbers: Collection["PhoneNumber"]) -> set[str]:
    """The valid ones; where there are none, the possible ones: numbers for fiction are such."""
    return {_in_form(one) for one in [one for one in numbers if _is_valid(one)] or numbers}


def _is_valid(number: "PhoneNumber") -> bool:
    from phonenumbers import is_valid_number

    return is_valid_number(number)


def _in_form(number: "PhoneNumber", *, national: bool = False) -> str:
    from phonenumbers import PhoneNumberFormat, format_number

    form = PhoneNumberFormat.NATIONAL if national else PhoneNumberFormat.E164
    return format_number(number, form)
