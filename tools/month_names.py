"""Writes the names that `langmem_graph/moments` reads, from CLDR's data in Babel.

`python tools/month_names.py` writes them, `--check` only says whether the file is what
Babel has now. Names that mean two months or weekdays in two languages are left out.
CLDR's words for today, yesterday and tomorrow are not in Babel: these are written by
hand, in `relative_words.txt`.
"""

import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from babel import Locale

LANGUAGES = "en de fr es it pt nl pl sv da nb fi cs tr ru uk ja zh ko".split()
IN_FIGURES = ("ja", "zh", "ko")  # their months are numbers: 5月
UNITS = ("day", "week", "month", "year")
WRITTEN = Path(__file__).parents[1] / "langmem_graph" / "moments" / "names.txt"


def months(locale: Locale) -> Iterator[tuple[str, str]]:
    """Rows `name 5` and `short 5` with their names."""
    wide = [locale.months[form]["wide"] for form in ("format", "stand-alone")]
    short = [locale.months[form]["abbreviated"] for form in ("format", "stand-alone")]
    full = {name.casefold() for names in wide for name in names.values()}
    for names in wide:
        for number, name in names.items():
            yield f"name {number}", name
    for names in short:
        for number, name in names.items():
            if name.casefold() not in full:
                yield f"short {number}", name.removesuffix(".")


def weekdays(locale: Locale) -> Iterator[tuple[str, str]]:
    """Rows `weekday 0`, a Monday, with their names."""
    for form in ("format", "stand-alone"):
        for number, name in locale.days[form]["wide"].items():
            yield f"weekday {number}", name


def distances(locale: Locale) -> Iterator[tuple[str, str]]:
    """Rows `ago day` and `ahead day` with phrases in which # is a number."""
    fields = locale._data["date_fields"]  # Babel has no public name for them
    for unit in UNITS:
        for row, direction in (("ago", "past"), ("ahead", "future")):
            for phrase in fields[unit][direction].values():
                if "{0}" in phrase:
                    yield f"{row} {unit}", phrase.replace("{0}", "#")


def rows() -> dict[str, dict[str, list[str]]]:
    """Of each row, each name with its languages."""
    found = defaultdict[str, dict[str, list[str]]](dict)
    meant = defaultdict[str, set[str]](set)
    for language in LANGUAGES:
        locale = Locale(language)
        every = [*weekdays(locale), *distances(locale)]
        if language not in IN_FIGURES:
            every += months(locale)
        for row, name in every:
            plain = " ".join(name.casefold().split())
            languages = found[row].setdefault(plain, [])
            if language not in languages:
                languages.append(language)
            kind, value = row.split()
            meant[plain].add(value if kind in ("name", "short") else row)
    for names in found.values():
        for name in [name for name in names if len(meant[name]) > 1]:
            del names[name]
    return found


def text() -> str:
    """The file: a row on a line, each name behind its languages, `|` between them."""
    lines = ["# Made by tools/month_names.py from CLDR's data in Babel."]
    for row, names in rows().items():
        listed = "|".join(f"{','.join(own)}:{name}" for name, own in names.items())
        lines.append(f"{row}\t{listed}")
    return "\n".join([lines[0], *sorted(lines[1:])]) + "\n"


def main() -> None:
    """Write the file, or say that it is another one."""
    if "--check" in sys.argv[1:]:
        is_same = WRITTEN.read_text(encoding="utf-8") == text()
        sys.exit(0 if is_same else f"{WRITTEN} is not what Babel has now.")
    WRITTEN.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
