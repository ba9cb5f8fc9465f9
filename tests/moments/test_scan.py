"""What `scan` reads in twelve languages, and what it leaves alone."""

from datetime import date, datetime, time
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_graph.moments import vocabulary
from langmem_graph.moments.moment import Moment, NamedDay
from langmem_graph.moments.scanner import LONGEST_READ, scan
from langmem_graph.moments.vocabulary import months, numbers, phrases
from tools import month_names  # noqa: TID251  # in a checkout

MADE_WITH = "2.18.0"  # the release of Babel that names.txt was made with
SAID = date(2026, 2, 20)  # a Friday


def read(text: str, said: date | None = SAID) -> list[str]:
    """Each moment as its kind and its readings."""
    return [_shown(moment) for moment in scan(text, said)]


def _shown(moment: Moment) -> str:
    days = [
        f"{first}" if first == last else f"{first}/{last}"
        for first, last in moment.days
    ]
    clocks = [
        f"{start:%H:%M}" + (f"-{end:%H:%M}" if end else "")
        for start, end in moment.clocks
    ]
    return " ".join([moment.kind, *days, *clocks])


DATES = [
    ("en", "on May 7, 2023", "on the 7th of May 2023", "7 May 2023"),
    ("de", "am 7. Mai 2023", "7.5.2023", "den 07.05.2023"),
    ("fr", "le 7 mai 2023", "7 Mai 2023", "7 MAI 2023"),
    ("es", "el 7 de mayo de 2023", "7 mayo 2023", "el 7 de Mayo, 2023"),
    ("it", "il 7 maggio 2023", "7 MAGGIO 2023", "7 mag 2023"),
    ("pt", "em 7 de maio de 2023", "7 maio 2023", "dia 7 de maio, 2023"),
    ("nl", "op 7 mei 2023", "7 Mei 2023", "7e mei 2023"),
    ("pl", "7 maja 2023", "7 maja 2023 r.", "7 maj 2023"),
    ("sv", "den 7 maj 2023", "7 maj, 2023", "2023-05-07"),
    ("fi", "7. toukokuuta 2023", "7.5.2023", "7. Toukokuuta 2023"),
    ("cs", "7. května 2023", "7. KVĚTNA 2023", "7.5.2023"),
    ("tr", "7 Mayıs 2023", "7 mayıs 2023", "07.05.2023"),
    ("ru", "7 мая 2023 года", "7 МАЯ 2023", "7.05.2023"),
    ("uk", "7 травня 2023", "7 Травня 2023 року", "07.05.2023"),
    ("ja", "2023年5月7日", "2023年 5月 7日に", "2023/05/07"),
    ("ko", "2023년 5월 7일", "2023년5월7일에", "(2023년 5월 7일)"),
    ("zh", "2023年5月7日", "在2023年5月7号", "2023/5/7"),
]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(text, id=f"{language}: {text}")
        for language, *several in DATES
        for text in several
    ],
)
def test_a_date_in_any_language(text: str) -> None:
    assert "day 2023-05-07" in read(text)


YESTERDAY = [
    *("What did I do yesterday?", "Was habe ich gestern gemacht?", "¿Qué hice ayer?"),
    *("Qu'est-ce que j'ai fait hier ?", "Che cosa ho fatto ieri?", "O que fiz ontem?"),
    *("Wat heb ik gisteren gedaan?", "Co robiłem wczoraj?", "Vad gjorde jag i går?"),
    *("Hvad lavede jeg i går?", "Mitä tein eilen?", "Co jsem dělal včera?"),
    *("Dün ne yaptım?", "Что я делал вчера?", "Що я робив вчора?"),
    *("昨日何をした？", "我昨天做了什么？", "어제는 뭐 했지?"),
]
LAST_FRIDAY = [
    *("last Friday", "letzten Freitag", "vendredi dernier", "el viernes pasado"),
    *("venerdì scorso", "sexta-feira passada", "afgelopen vrijdag", "w zeszły piątek"),
    *("i fredags", "förra fredag", "sidste fredag", "viime perjantaina"),
    *("minulý pátek", "geçen cuma", "в прошлую пятницу"),
    *("先週の金曜日", "上周五", "지난 금요일"),
]
THREE_WEEKS_AGO = [
    *("three weeks ago", "vor drei Wochen", "il y a trois semaines"),
    *("hace 3 semanas", "tre settimane fa", "há três semanas", "3 weken geleden"),
    *("3 tygodnie temu", "för tre veckor sedan", "for tre uger siden"),
    *("kolme viikkoa sitten", "před 3 týdny", "3 hafta önce", "3 недели назад"),
    *("3週間前", "3周前", "3주 전"),
]
LAST_MONTH = [
    *("last month", "letzten Monat", "le mois dernier", "el mes pasado"),
    *("il mese scorso", "mês passado", "vorige maand", "w zeszłym miesiącu"),
    *("förra månaden", "viime kuussa", "minulý měsíc", "geçen ay"),
    *("в прошлом месяце", "先月", "上个月", "지난달"),
]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        *((text, "day 2026-02-19") for text in YESTERDAY),
        *((text, "day 2026-02-13") for text in LAST_FRIDAY),
        *((text, "day 2026-01-30") for text in THREE_WEEKS_AGO),
        *((text, "month 2026-01-01/2026-01-31") for text in LAST_MONTH),
    ],
)
def test_a_time_reckoned_from_the_day(text: str, meant: str) -> None:
    assert read(text) == [meant]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("May 7", "day 2025-05-07 2026-05-07"),
        ("the 9th of August", "day 2025-08-09 2026-08-09"),
        ("5月7日", "day 2025-05-07 2026-05-07"),
        ("5월", "month 2025-05-01/2025-05-31 2026-05-01/2026-05-31"),
        ("in March", "month 2025-03-01/2025-03-31 2026-03-01/2026-03-31"),
        ("im Mai 2023", "month 2023-05-01/2023-05-31"),
        ("2023-05", "month 2023-05-01/2023-05-31"),
        ("back in 1999", "year 1999-01-01/1999-12-31"),
        ("24/12/2025", "day 2025-12-24"),
        ("12/24/2025", "day 2025-12-24"),
        ("24.12.2025", "day 2025-12-24"),
        ("24-12-2025", "day 2025-12-24"),
        ("05/05/2025", "day 2025-05-05"),
        ("02/07/2025", "ambiguous 2025-02-07 2025-07-02"),
        ("02.07.2025", "day 2025-07-02"),  # with dots the day stands first
        ("03/2026", "month 2026-03-01/2026-03-31"),
        ("from 27/3 until 2/4", "span 2025-03-27/2025-04-02 2026-03-27/2026-04-02"),
        ("on 02/07", "ambiguous 2025-07-02 2026-02-07 2026-07-02 2027-02-07"),
        ("valid until 3 March 2031", "day 2031-03-03"),
        ("31 June 2025", "day"),
        ("29 February", "day 2024-02-29 2028-02-29"),
        ("from 12 to 15 June 2025", "span 2025-06-12/2025-06-15"),
        ("May 7-9, 2023", "span 2023-05-07/2023-05-09"),
        ("30 Dec to 2 January 2026", "span 2025-12-30/2026-01-02"),
        ("today", "day 2026-02-20"),
        ("in two weeks", "day 2026-03-06"),
        ("in 10 days", "day 2026-03-02"),
        ("a year ago", "day 2025-02-20"),
        ("last week", "span 2026-02-09/2026-02-15"),
        ("this week", "span 2026-02-16/2026-02-22"),
        ("next year", "year 2027-01-01/2027-12-31"),
        ("on Monday", "weekday 2026-02-16 2026-02-23"),
        ("Friday", "weekday 2026-02-13 2026-02-20 2026-02-27"),
        ("this Monday", "day 2026-02-23"),
        ("next Monday", "day 2026-02-23 2026-03-02"),
        ("every other Monday", "recurrence 2026-02-23"),
        ("last weekend", "span 2026-02-14/2026-02-15"),
        ("at 3:30", "clock 03:30 15:30"),
        ("at 7:30 p.m.", "clock 19:30"),
        ("9:00 to 17:00", "clock 09:00-17:00"),
        ("at 25:00", "clock"),
        ("at noon", "clock 12:00"),
    ],
)
def test_the_forms_of_english_and_of_figures(text: str, meant: str) -> None:
    assert read(text) == [meant]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "may I march on",
            "the sun in a second",
            "I think this may help",
            "open 24/7",
        ),
        *("Only 5 may attend", "5 out of 10", "version 1.5.2.9", "order 20231"),
        *(
            "Wo ist hier ein Restaurant?",
            "Guten Morgen!",
            "por la mañana",
            "Mardi gras",
        ),
        *("monday.com", "€15:00", "$2023", "the 3rd floor", "Santo Domingo"),
        *("24:12:2025", "24 / 12"),
        *(
            "on Mars",
            "2 1/2 cups",
            "1/2 (50%)",
            "0000-05",
            "12 people, 4.5 percent",
            "5 pro licences",
            "",
            " ",
            "\u0301",
        ),
    ],
)
def test_what_names_no_time(text: str) -> None:
    assert read(text) == []


def test_a_list_of_days_is_several() -> None:
    meant = ["day 2025-06-12", "day 2025-06-13", "day 2025-06-14"]
    assert read("12, 13 and 14 June 2025") == meant
    assert read("room 12, 23 April 2025") == ["day 2025-04-23"]
    assert read("on June 3 and 4 friends") == ["day 2025-06-03 2026-06-03"]
    assert read("June 3 and 4, 2025") == ["day 2025-06-03", "day 2025-06-04"]


def test_an_iso_time_with_an_offset_is_in_utc() -> None:
    day, clock = scan("2025-06-03T22:00-05:00", None)
    assert day.days[0].first == date(2025, 6, 4)
    assert (clock.clocks[0].start, clock.is_utc) == (time(3), True)


def test_the_words_are_known_by_their_place() -> None:
    text = "At 3pm on the 7th of May 2023, then yesterday."
    found = [text[moment.start : moment.end] for moment in scan(text, SAID)]
    assert found == ["3pm", "7th of May 2023", "yesterday"]


def test_without_the_day_only_full_dates_have_readings() -> None:
    assert read("7 May", None) == ["day"]
    assert read("yesterday", None) == ["day"]
    assert read("7 May 2023 at 15:00", None) == ["day 2023-05-07", "clock 15:00"]
    assert scan("7 May", None)[0].dates == (NamedDay(None, 5, 7),)


def test_a_time_of_the_day_is_as_good_as_the_day() -> None:
    late = datetime(2026, 2, 20, 23, 59)
    assert scan("yesterday", late) == scan("yesterday", SAID)


WORDS = sorted({*months(), *numbers(), *phrases().next})
pieces = st.sampled_from(WORDS) | st.sampled_from(
    "1 5 12 31 2023 0000 9999 / - . , : th of de the to and 月 日 年 am pm T Z +05:00 's "
    "ago in last next weeks days".split()
)
texts = st.lists(pieces | st.text(max_size=4), max_size=12).map(" ".join) | st.text()


@given(texts | st.lists(pieces, max_size=12).map("".join), st.none() | st.dates())
def test_any_text_is_read(text: str, said: date | None) -> None:
    found = scan(text, said)
    for moment in found:
        assert 0 <= moment.start < moment.end <= len(text)
        assert all(first <= last for first, last in moment.days)
    assert [moment.start for moment in found] == sorted(m.start for m in found)


def test_the_names_are_those_that_babel_has() -> None:
    for name in ("may", "mai", "maio", "toukokuuta", "мая", "mayıs"):
        assert months()[name].number == 5
    if version("babel") == MADE_WITH:
        assert month_names.WRITTEN.read_text(encoding="utf-8") == month_names.text()


def test_of_a_long_text_the_first_part_is_read() -> None:
    long = "2026-05-04 " + "x" * LONGEST_READ + " 2026-05-05"
    assert read(long) == read("2026-05-04")


def test_no_file_is_read_by_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may have no file descriptor left."""

    def fail(*_: object, **__: object) -> str:
        raise OSError("Too many open files")

    monkeypatch.setattr(Path, "read_text", fail)
    vocabulary._rows.cache_clear()
    assert vocabulary._rows()
