"""Texts made to be slow for regular expressions, and the patterns and functions to try.

Python's `re` backtracks: a pattern in which one text can be matched in many ways takes
quadratic or exponential time, and while it runs no other thread does.
"""

import ast
import importlib
import inspect
import itertools
import pkgutil
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from re import _constants as constants  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from time import thread_time
from types import ModuleType
from typing import Any

import langmem_graph

COMMON = [
    *(
        "1",
        "1 ",
        "1,",
        "1.",
        "a",
        "a ",
        "A",
        "A.",
        "aA ",
        "-",
        " ",
        "\t",
        "\n",
        "(",
        "[",
    ),
    *(
        "{",
        "'",
        '"',
        ":",
        "é",
        "a\u0301",
        "十",
        "1月",
        "1:11 ",
        "1/2/3 ",
        "2026-03-04 ",
    ),
    *(
        "+1",
        "\u00a0",
        "1 and ",
        "monday ",
        "may 1, ",
        "every ",
        "twenty-",
        "half past ",
    ),
    *("x/", "$1 ", "1% ", "a-", "1 hour ", "from 1 to ", "a.b@", "😀"),
]
NUMBERS = ["1.200 ", "$1,200 ", "1 000 ", "1-", "1/", "1:30 ", "monday, "]
"""Of these a reader compares each with the whole text, or may begin at each of them."""
SHORT = (13, 19)
"""Lengths at which a pattern of exponential time shows itself before it freezes."""
TEXT_PACKAGES = (
    *(
        "values",
        "moments",
        "schedule",
        "grounding",
        "reasoning",
        "extraction",
        "retrieval",
        "topics",
    ),
    *("llm.forgiving_answers", "llm.prompts", "messages", "trust", "ids_and_times"),
    *("storage.words", "filters", "metadata", "graphs.conversation_messages", "rooms"),
)
ANCHORED = {"match", "fullmatch"}
USES = ("search", "match", "fullmatch", "finditer", "findall", "sub", "split")


def modules() -> Iterator[ModuleType]:
    """All modules of the package whose extras are installed."""
    for module in pkgutil.walk_packages(langmem_graph.__path__, "langmem_graph."):
        if not module.name.endswith(("__main__", "testing")):
            try:
                yield importlib.import_module(module.name)
            except ImportError:
                continue


def patterns() -> dict[str, tuple[re.Pattern[str], str]]:
    """Every pattern of the package by where it stands, and by which method it is used."""
    found = dict[str, tuple[re.Pattern[str], str]]()
    for module in modules():
        source = Path(str(module.__file__)).read_text(encoding="utf-8")
        named = list(_module_patterns(module))
        for name, pattern in named:
            used = {use for use in USES if f"{name}.{use}(" in source}
            use = used.pop() if len(used) == 1 and used <= ANCHORED else "finditer"
            found[f"{module.__name__}.{name} {pattern.pattern[:60]}"] = pattern, use
        for use, pattern in _inline_patterns(source):
            if pattern in [one for _, one in named]:
                continue
            found[f"{module.__name__} {pattern.pattern[:60]}"] = pattern, use
    return found


def _module_patterns(module: ModuleType) -> Iterator[tuple[str, re.Pattern[str]]]:
    left: list[tuple[str, Any]] = list(vars(module).items())
    while left:
        name, value = left.pop()
        if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
            yield name, value
        elif isinstance(value, dict):
            left += [(name, part) for part in (*value, *value.values())]
        elif isinstance(value, tuple | list | frozenset) and len(value) < 1_000:
            left += [(name, part) for part in value]


def _inline_patterns(source: str) -> Iterator[tuple[str, re.Pattern[str]]]:
    """Those that are written where they are used: `re.sub(r"…", …)`."""
    for call in ast.walk(ast.parse(source)):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
            continue
        of, texts = call.func.value, call.args
        if not (isinstance(of, ast.Name) and of.id == "re" and texts):
            continue
        if not isinstance(texts[0], ast.Constant):
            continue
        flags = 0
        for given in (*texts[1:], *(word.value for word in call.keywords)):
            if isinstance(given, ast.Attribute):
                flags |= getattr(re, given.attr, 0)
        use = call.func.attr if call.func.attr in ANCHORED else "finditer"
        yield use, re.compile(texts[0].value, flags)


def text_functions() -> dict[str, Callable[[str], Any]]:
    """Every function of the text packages that takes one text and nothing else."""
    found = dict[str, Callable[[str], Any]]()
    for module in modules():
        part = module.__name__.removeprefix("langmem_graph.")
        if not part.startswith(TEXT_PACKAGES):
            continue
        for name, function in vars(module).items():
            is_own = getattr(function, "__module__", None) == module.__name__
            if inspect.isfunction(function) and is_own and _takes_a_text(function):
                found[f"{part}.{name}"] = function
    return found


def _takes_a_text(function: Callable[..., Any]) -> bool:
    if inspect.iscoroutinefunction(function):
        return False
    given = list(inspect.signature(function).parameters.values())
    needed = [one for one in given if one.default is one.empty]
    return len(needed) == 1 and given[0].annotation in (str, "str")


def pumps(pattern: re.Pattern[str]) -> list[str]:
    """Short texts whose repetition may make this pattern slow."""
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)
    signs = list(dict.fromkeys(_signs(tree)))[:14]
    pairs = [one + other for one, other in itertools.pairwise(signs)]
    return [
        pump
        for pump in dict.fromkeys([*COMMON, *signs, *pairs])
        if not any("\ud800" <= sign <= "\udfff" for sign in pump)
    ]


def _signs(tree: Any) -> Iterator[str]:  # noqa: C901  # one branch a kind of node
    """A character for each literal and each class of a parsed pattern."""
    classes = {
        constants.CATEGORY_DIGIT: "1",
        constants.CATEGORY_SPACE: " ",
        constants.CATEGORY_WORD: "a",
    }
    for kind, value in tree:
        if kind in (constants.LITERAL, constants.NOT_LITERAL):
            yield chr(value)
        elif kind is constants.RANGE:
            yield chr(value[0])
        elif kind is constants.CATEGORY:
            yield classes.get(value, "!")
        elif kind is constants.IN:
            yield from _signs(value)
        elif kind is constants.BRANCH:
            for part in value[1]:
                yield from _signs(part)
        elif kind is constants.SUBPATTERN:
            yield from _signs(value[3])
        elif kind in (constants.ASSERT, constants.ASSERT_NOT):
            yield from _signs(value[1])
        elif kind is constants.ATOMIC_GROUP:
            yield from _signs(value)
        elif kind in (
            constants.MAX_REPEAT,
            constants.MIN_REPEAT,
            constants.POSSESSIVE_REPEAT,
        ):
            yield from _signs(value[2])


def repeated(pump: str, length: int) -> str:
    """The pump so often that the text is so long, and an end that lets matches fail."""
    return pump * (length // len(pump)) + "\x00"


def seconds(work: Callable[[str], Any], text: str) -> float:
    """The shorter of two times of this thread alone, as the machine may be busy."""
    shortest = float("inf")
    for _ in range(2):
        start = thread_time()
        work(text)
        shortest = min(shortest, thread_time() - start)
    return shortest


def growth(work: Callable[[str], Any], pump: str, length: int) -> float:
    """How many times as long it takes for a text that is twice as long.

    0.0 where the shorter one is too quick to be timed. Exponential time is infinite.
    """
    times = [seconds(work, repeated(pump, short)) for short in SHORT]
    if times[-1] > 0.004 and times[-1] > 8 * times[0]:
        return float("inf")
    first = seconds(work, repeated(pump, length))
    if first < 0.003:
        return 0.0
    return seconds(work, repeated(pump, 2 * length)) / first
