"""Days that a text names in words, on the day on which they were said."""

from datetime import date

import pytest

from langmem_graph.schedule.worded_days import worded_days

SAID = date(2026, 2, 20)  # a Friday


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("on the last Friday of next month we marry", "03-27"),
        ("the first Monday in June", "06-01"),
        ("from 12 to 15 June in Rome", "06-12 06-13 06-14 06-15"),
        ("12-14 June", "06-12 06-13 06-14"),
        ("from 27/4 until 29/4", "04-27 04-28 04-29"),
        ("see you on Monday", "02-23"),
        ("next Monday at 8", "02-23 03-02"),
        ("Monday week", "03-02"),
        ("in two weeks", "03-06"),
        ("three weeks from now", "03-13"),
        ("a month ago", "01-20"),
        ("yesterday", "02-19"),
        ("the day after tomorrow", "02-22"),
        ("last Friday", "02-13"),
        ("on the 14th", "03-14"),
        ("Hogmanay at ours", "12-31"),
        ("Easter Monday", "04-06"),
        ("next weekend", "02-28 03-01"),
        ("every Thursday", "02-26 03-05"),
        ("the 31st of June", ""),
        ("the 9th of August", "08-09"),
        ("on 02/07", ""),  # 2 July, or 7 February
        ("back on 2/7/2026", ""),
        ("am 24.12. in Rom", "12-24"),
        ("from 27/3 until 29/3, and on 2/4", "03-27 03-28 03-29 04-02"),
        ("landed on 3 January 2026, back on 10 January", "01-03 01-10"),
        ("the first Monday of every month", ""),
        ("el lunes", "02-23"),
        ("übermorgen", "02-22"),
        ("it costs 40 and 50, or 3.5 to 4.5 percent at 10:30", ""),
    ],
)
def test_words_are_read_on_the_day_they_were_said(text: str, days: str) -> None:
    found = worded_days(text, SAID, [date(2026, 3, 5)])
    assert found == {date.fromisoformat(f"2026-{day}") for day in days.split()}


@pytest.mark.parametrize(
    "text",
    [
        *("valid until 3 March 2031", "valid until March 3rd, 2031", "3 Mar. 2031"),
        *("valid until 03/03/2031", "valid until 3.3.2031", "gültig bis 3. März 2031"),
        "a passport, valid until the 3rd of March, 2031",
    ],
)
def test_a_date_of_another_year_is_no_day_of_this_one(text: str) -> None:
    assert worded_days(text, SAID, [date(2026, 3, 3)]) == {date(2031, 3, 3)}


def test_a_birthday_comes_again() -> None:
    asked = [date(2028, 3, 3), date(2028, 3, 4)]
    assert date(2028, 3, 3) in worded_days("Ana's birthday is on 3 March", SAID, asked)
    assert date(2028, 3, 3) not in worded_days("The fair is on 3 March", SAID, asked)
    assert date(2028, 3, 4) not in worded_days(
        "Ana's birthday is on 3 March", SAID, asked
    )
