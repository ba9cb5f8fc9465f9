"""What code derives from quoted words, and what it does not."""

from datetime import date

import pytest

from langmem_graph.grounding.derivations import (
    Quoted,
    number_derivation,
    text_derivation,
)

SAID = date(2026, 3, 4)
"""A Wednesday."""


def quoted(*words: str) -> list[Quoted]:
    return [Quoted(one, one, SAID) for one in words]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("2026-05-07", ["7 May 2026"]),
        ("2026-05-07", ["Monday, May 7"]),
        ("2026-03-05", ["tomorrow morning"]),
        ("2026-03-06", ["on Friday"]),
        ("2026-03-13", ["next Friday"]),
        ("2026-02-27", ["last Friday"]),
        ("2026-03-11", ["see you Wednesday"]),
        ("2026-03-18", ["from the 18th"]),
        ("2026-04-02", ["on the 2nd"]),
        ("2026-03-07", ["in three days"]),
        ("2026-02-18", ["2 weeks ago"]),
        ("2027-01-12", ["on 12 January"]),
        ("2026-01-12", ["on 12 January"]),
        ("2026-05-10", ["7 May 2026", "for 3 nights"]),
        ("2026-05-07T19:30", ["on 7 May 2026", "at half past, no, 19:30"]),
        ("2026-05-07T19:30:00+01:00", ["on 7 May 2026 at 7:30 pm"]),
        ("19:30", ["7:30 p.m."]),
        ("12:00", ["at noon"]),
        ("11:30", ["10:00", "90 minutes"]),
        ("00:30", ["23:00", "90 minutes"]),
        ("2026-05-07", ["in May 2026 or on 7 May 2026 or on the 8th"]),
        ("2026-04-23", ["23, 24 and 25", "23 to 25 April"]),
        ("2026-04-24", ["23, 24 and 25", "23 to 25 April"]),
        ("2026-04-23", ["23, 24 and 25 April"]),
        ("2026-04-24", ["April 23, 24 and 25"]),
        ("2026-03-14", ["Saturday 14 and Sunday 15 March"]),
        ("2026-04-26", ["on the 26th", "in April"]),
        ("2026-03-10", ["the second Tuesday in March"]),
        ("2026-03-10T18:30:00", ["the second Tuesday in March", "18h30"]),
        ("2026-03-10T18:30:00", ["the second Tuesday in March", "18.30 Uhr"]),
        ("2026-03-12", ["next week", "only on Thursday afternoons"]),
        ("2026-03-13", ["by Friday next week"]),
        ("2026-02", ["the February invoice"]),
        ("04/2026", ["the April issue"]),
        ("--11-29", ["on 29 November"]),
        ("17:45", ["quarter to six from now on"]),
        ("19:30", ["dinner at half past seven in the evening"]),
        ("19:30", ["um halb acht"]),
        ("18:15", ["om kwart over zes"]),
        ("17:45", ["à six heures moins le quart"]),
        ("19:30", ["at 7:30, for dinner"]),
        ("14:00", ["from two to five"]),
        ("17:00", ["from two to five"]),
        ("2026-04-09", ["van 7 tot en met 9 april"]),
        ("2026-05-07", ["am 7. Mai 2026"]),
        ("2026-05-07", ["el jueves, 7 de mayo de 2026"]),
    ],
)
def test_dates_and_times_follow_from_words_and_the_day_of_the_fact(
    value: str, words: list[str]
) -> None:
    assert text_derivation(value, "", quoted(*words), "Europe/London") == "date"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("2026-05-08", ["7 May 2026"]),
        ("2025-05-07", ["7 May 2026"]),
        ("2029-01-12", ["on 12 January"]),
        ("2026-03-05", ["3/5/2026"]),
        ("2026-05-03", ["3/5/2026"]),
        ("2026-03-07", ["on Friday"]),
        ("2026-05-07", ["in May 2026"]),
        ("2026-05-10", ["7 May 2026", "for a while"]),
        ("2026-05-07T19:30", ["on 7 May 2026"]),
        ("2026-05-07T19:30+05:00", ["on 7 May 2026 at 19:30"]),
        ("18:30", ["7:30 p.m."]),
        ("2026-02-31", ["31 February 2026"]),
        ("2026-03-05", ["whenever"]),
        ("10:60", ["at 10:60"]),
        ("2026-04-26", ["23, 24 and 25", "23 to 25 April"]),
        ("2026-05-23", ["23, 24 and 25 April"]),
        ("2026-04-14", ["14 March and 15 April"]),
        ("2026-04-02", ["2 rooms from 23 April"]),
        ("2026-04-02", ["23 April for 2 nights, 2 to 3 people"]),
        ("2026-04-12", ["room 12, 23 April"]),
        ("2026-04-02", ["2 rooms", "in April"]),
        ("2026-04-02", ["2 or 3 rooms", "in April"]),
        ("2027-03-14", ["Saturday 14 and Sunday 15 March"]),
        ("2026-05-26", ["on the 26th", "in April"]),
        ("2026-03-11", ["the second Tuesday in March"]),
        ("2026-03-11", ["next week", "on Thursday"]),
        ("2026-03", ["the February invoice"]),
        ("2027-02", ["the February invoice"]),
        ("03/2026", ["the April issue"]),
        ("2026-05", ["you may come"]),
        ("--11-28", ["on 29 November"]),
    ],
)
def test_other_dates_do_not(value: str, words: list[str]) -> None:
    assert text_derivation(value, "", quoted(*words), None) is None


def test_a_day_without_its_fact_has_no_year() -> None:
    assert (
        text_derivation("2026-05-07", "", [Quoted("7 May", "7 May", None)], None)
        is None
    )


@pytest.mark.parametrize(
    ("value", "about", "words"),
    [
        ("05/07/2026", "as MM/DD/YYYY", "7 May 2026"),
        ("07/05/2026", "DD/MM/YYYY", "7 May 2026"),
        ("07.05.2026", "DD.MM.YYYY", "7 May 2026"),
    ],
)
def test_the_description_names_the_form(value: str, about: str, words: str) -> None:
    assert text_derivation(value, about, quoted(words), None) == "date"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("PL61109010140000", "PL61 1090 1014 0000"),
        ("+48571309228", "+48 571 309 228"),
        ("+49301234567", "+49 (30) 1234-567"),
        ("AB12", "code AB-12"),
        ("AB 12", "ab12".upper()),
        ("490154203237518", "49-015420-323751-8"),
        ("LH992441", "lh 992 441"),
    ],
)
def test_identifiers_are_spelled_without_spaces(value: str, words: str) -> None:
    assert text_derivation(value, "", quoted(words), None) == "spacing"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("15", "1,5 kg"),
        ("710", "7-10 people"),
        ("12", "AB-12"),
        ("309228", "+48 571 309 228"),
        ("571309", "571 309 228"),
        ("PL61109010140001", "PL61 1090 1014 0000"),
        ("lh992441", "LH 992 441"),
        ("1234", "1.234"),
        ("ab", "a b"),
        ("12345", "seats 1,2,3,4,5"),
        ("AB7", "A B7 22"),
    ],
)
def test_other_digits_are_another_value(value: str, words: str) -> None:
    assert text_derivation(value, "", quoted(words), None) is None


@pytest.mark.parametrize(
    ("value", "words", "how"),
    [
        ("Mei Lin", ["Mei", "Lin"], "joined"),
        ("12 Elm Street, Łódź", ["Łódź", "12 Elm Street"], "joined"),
        ("Mei Lin Chen", ["Mei", "Lin"], None),
        ("anna@evil.com", ["anna", "evil.com"], None),
        ("Mei-Lin", ["Mei", "Lin"], None),
        ("MeiLin", ["Mei", "Lin"], None),
        ("15 000", ["15", "000"], None),
        ("Mei Mei", ["Mei", "Lin"], None),
        ("Mei Lin", ["Mei Lin Chen"], None),
    ],
)
def test_whole_quotes_are_joined(value: str, words: list[str], how: str | None) -> None:
    assert text_derivation(value, "", quoted(*words), None) == how


@pytest.mark.parametrize(
    ("value", "about", "words", "how"),
    [
        (1.5, "weight", ["1,5 kg"], "number"),
        (1500, "weight in grams", ["1,5 kg"], "unit"),
        (90, "duration_min", ["1.5 hours"], "unit"),
        (42.5, "total", ["30 euro", "12,50 euro"], "sum"),
        (3, "guests", ["two adults", "1 child"], "sum"),
        (50, "percent of the price", ["50 %"], "number"),
        (15, "weight", ["1,5 kg"], None),
        (1500, "weight", ["1,5 kg"], None),
        (50, "share", ["50 percent"], None),
        (42.5, "total", ["30 euro"], None),
        (32, "total", ["30 kg", "2 km"], None),
        (1000, "fee", ["1.000 euro"], None),
        (1365, "rent", ["1.365 EUR"], "number"),
        (1000, "fee", ["1.000"], None),
        (1, "fee", ["1.000 euro"], None),
        (12, "code", ["AB-12"], None),
    ],
)
def test_numbers_are_converted_and_summed(
    value: float, about: str, words: list[str], how: str | None
) -> None:
    assert number_derivation(value, about, quoted(*words)) == how


def test_a_number_as_a_text_has_its_plain_form() -> None:
    assert text_derivation("1200.5", "", quoted("1,200.50 euro"), None) == "number"
    assert text_derivation("007", "", quoted("7 people"), None) is None


def test_digits_alone_are_asked_for() -> None:
    said = quoted("the VAT number is PT509887214")
    assert text_derivation("509887214", "digits only", said, None) == "spacing"
    assert text_derivation("509887214", "VAT number", said, None) is None
    assert text_derivation("09887214", "digits only", said, None) is None


def test_a_whole_number_has_no_decimals() -> None:
    said = quoted("103.250 km")
    assert number_derivation(103250, "odometer in km", said, whole=True) == "number"
    assert number_derivation(103250, "odometer in km", said) is None
    assert number_derivation(1500, "way in m", quoted("1.500 km"), whole=True) is None


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("07:30", "half past seven in the evening"),
        ("02:00", "after two days"),
        ("06:30", "half seven"),
        ("16:58", "from two to five"),
        ("20:00", "from 8 kg"),
    ],
)
def test_another_time_does_not_follow(value: str, words: str) -> None:
    assert text_derivation(value, "", quoted(words), None) is None


NUMBER = "My mobile is 07700 900156, call me"


@pytest.mark.parametrize(
    ("value", "words", "how"),
    [
        ("+447700900156", ["07700 900156", "Edinburgh"], "phone"),
        ("+44 7700 900156", ["07700 900156", "United Kingdom"], "phone"),
        ("+33639981427", ["06 39 98 14 27, numéro français"], "phone"),
        ("+16175550123", ["617 555 0123", "Boston, MA"], "phone"),
        ("+447700900156", ["0044 7700 900156"], "phone"),
        ("07700900156", ["+44 7700 900156"], "phone"),
        ("+447700900156", ["07700 900156"], None),  # of no country
        ("+353770900156", ["07700 900156", "Edinburgh"], None),  # of another one
        ("+447700900157", ["07700 900156", "Edinburgh"], None),
        ("+447700900", ["07700 900", "Edinburgh"], None),  # a part of it
        ("+4477009001561", ["07700 900156 1", "Dublin"], None),
        ("+351934118206", ["934 118 206", "8700 Olhão"], "phone"),
        ("+351934118206", ["934 118 206", "Olhao"], "phone"),
        ("+351934118206", ["934 118 206", "Boston"], None),
        ("GB", ["Edinburgh"], "country"),
        ("GB", ["Boston"], None),  # another lies in the USA
        ("US", ["Boston"], None),
        ("GB", ["London, ON"], None),
        ("US", ["Mobile"], None),  # a town there, and a word
        ("US", ["Mobile, AL"], "country"),
        ("+12516043370", ["Mobile 251 604 3370"], None),
        ("CA", ["Toronto"], "country"),
        ("Tuesday", ["Tuesdays at 18:10"], "date"),
        ("Wednesday", ["Tuesdays at 18:10"], None),
        ("IE", ["My Irish passport"], "country"),
        ("NLD", ["met het Nederlandse paspoort"], "country"),
        ("United States", ["Boston, MA"], "country"),
        ("CA", ["Toronto, ON"], "country"),
        ("US", ["Edinburgh"], None),
        ("FR", ["My Irish passport"], None),
        ("GBP", ["£46 an hour"], "currency"),
        ("EUR", ["45 euros"], "currency"),
        ("CAD", ["$20", "in Canada"], "currency"),
        ("USD", ["$20"], None),
        ("USD", ["$20", "in Canada"], None),
        ("SEK", ["100 kr"], None),
        ("Friday", ["7 May 2027"], "date"),
        ("Monday", ["7 May 2027"], None),
    ],
)
def test_countries_and_what_follows_from_them(
    value: str, words: list[str], how: str | None
) -> None:
    texts = [NUMBER if one in NUMBER else one for one in words]
    quotes = [Quoted(one, text, SAID) for one, text in zip(words, texts, strict=True)]
    assert text_derivation(value, "", quotes, None) == how


@pytest.mark.parametrize(
    ("words", "zone", "how"),
    [
        (
            [
                ("289 774 052", "Vet: 289 774 052"),
                ("by the sea", "Portugal, by the sea"),
            ],
            None,
            "phone",
        ),
        ([("289 774 052", "Vet: 289 774 052")], "Europe/Lisbon", "phone"),
        ([("289 774 052", "Vet in Portugal: 289 774 052")], None, None),
        ([("289 774 052", "Vet: 289 774 052")], "Europe/Berlin", None),
        ([("289 774 052", "Vet: 289 774 052")], "UTC", None),
        (
            [("289 774 052", "289 774 052"), ("Faraway", "Faraway")],
            "Europe/Lisbon",
            None,
        ),
    ],
)
def test_a_country_may_stand_around_a_town_or_be_the_applications(
    words: list[tuple[str, str]], zone: str | None, how: str | None
) -> None:
    quotes = [Quoted(one, text, SAID) for one, text in words]
    assert text_derivation("+351289774052", "", quotes, zone) == how


@pytest.mark.parametrize(
    ("value", "about", "words", "how"),
    [
        (3500, "max price cents", "35 euros", "unit"),
        (16000, "fee pence", "it went up to 160.", "unit"),
        (94000, "price in cents", "940 a month", "unit"),
        (3500, "max price", "35 euros", None),
        (300, "price cents", "3 hours at 14 euros", None),
        (800, "price cents", "8 metres", None),
        (500, "price cents", "500 yen", "unit"),
        (35, "max price cents", "35 euros", None),
        (50000, "price cents", "500 yen", None),
        (15, "stems", "a bunch of fifteen", "number"),
        (25, "stems", "twenty-five of them", "number"),
        (20, "stems", "two hundred and twenty", None),
        (20, "year", "in twenty twenty-six", None),
        (40, "deposit percent", "forty percent down", "number"),
        (24, "eggs", "two dozen eggs", "number"),
        (-2.25, "power", "right eye minus 2.25", "number"),
        (2.25, "power", "right eye minus 2.25", None),
        (-2, "power", "10 minus 2", None),
        (3, "floor", "Third floor, no lift", "number"),
        (2, "floor", "on the 2nd floor", "number"),
        (3, "days", "drie dagen", "number"),
        (6, "eggs", "half a dozen eggs", "number"),
        (0.5, "rate gbp per mile", "50p a mile", "unit"),
        (1.82, "width m", "182 wide by 210 high, all centimetres", "unit"),
        (1.82, "width m", "182 wide by 210 high", None),
        (2, "floor", "in the second week", None),
        (12, "eggs", "half a dozen eggs", None),
    ],
)
def test_ordinals_and_units_of_a_whole_text(
    value: float, about: str, words: str, how: str | None
) -> None:
    assert number_derivation(value, about, quoted(words)) == how
