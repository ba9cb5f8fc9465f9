"""What code derives from quoted words, and what it does not."""

from datetime import date

import pytest

from langmem_graph.grounding.derivations import Quoted, number_derivation, text_derivation

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
    assert text_derivation("2026-05-07", "", [Quoted("7 May", "7 May", None)], None) is None


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


def test_a_whole_number_has_no_decimals() -> None:
    said = quoted("103.250 km")
    assert number_derivation(103250, "odometer in km", said, whole=True) == "number"
    assert number_derivation(103250, "odometer in km", said) is None
    assert number_derivation(1500, "way in m", quoted("1.500 km"), whole=True) is None
