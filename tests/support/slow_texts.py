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
"""Repetitions at which exponential time shows itself, which are tried one by one."""
FROZEN = 0.25
"""Seconds that no text of so few repetitions may take."""
MOST_EXAMPLES = 40
"""Texts that each part of a pattern matches, of which pumps are made."""
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
ASSERTIONS = {constants.ASSERT, constants.ASSERT_NOT}
REPEATS = {constants.MAX_REPEAT, constants.MIN_REPEAT, constants.POSSESSIVE_REPEAT}
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
        of_text = isinstance(texts[0], ast.Constant) and isinstance(texts[0].value, str)
        if not of_text:
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
        for pump in dict.fromkeys([*COMMON, *signs, *pairs, *_repeated_texts(tree)])
        if not any("\ud800" <= sign <= "\udfff" for sign in pump)
    ]


def _repeated_texts(tree: Any) -> Iterator[str]:
    """Texts that the parts match which a pattern repeats, such as words in a row."""
    for kind, value in tree:
        if kind in REPEATS and value[1] > 1:
            yield from filter(None, _examples(value[2]))
        for part in _inner(kind, value):
            yield from _repeated_texts(part)


def _examples(tree: Any) -> list[str]:
    """Texts that a parsed pattern matches: each branch, with what may be left out and
    without it.
    """
    texts = [""]
    for kind, value in tree:
        if kind in ASSERTIONS:
            continue
        inner = [text for part in _inner(kind, value) for text in _examples(part)]
        if not inner:
            inner = list(itertools.islice(_signs([(kind, value)]), 1))
        if kind in REPEATS and value[0] == 0:
            inner.append("")
        pairs = itertools.product(texts, inner or [""])
        texts = list(dict.fromkeys(map("".join, pairs)))[:MOST_EXAMPLES]
    return texts


def _inner(kind: Any, value: Any) -> list[Any]:
    """The patterns of which a node is made."""
    if kind is constants.BRANCH:
        return list(value[1])
    if kind is constants.SUBPATTERN:
        return [value[3]]
    if kind in ASSERTIONS:
        return [value[1]]
    if kind is constants.ATOMIC_GROUP:
        return [value]
    return [value[2]] if kind in REPEATS else []


def _signs(tree: Any) -> Iterator[str]:
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
        for part in _inner(kind, value):
            yield from _signs(part)


def repeated(pump: str, length: int) -> str:
    """The pump so often that the text is so long, and an end that lets matches fail."""
    return pump * (length // len(pump)) + "\x00\\"


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
    if _is_exponential(work, pump):
        return float("inf")
    first = seconds(work, repeated(pump, length))
    if first < 0.003:
        return 0.0
    return seconds(work, repeated(pump, 2 * length)) / first


def _is_exponential(work: Callable[[str], Any], pump: str) -> bool:
    fewer, most = SHORT
    times = dict[int, float]()
    for count in range(1, most + 1):
        times[count] = seconds(work, repeated(pump, count * len(pump)))
        if times[count] > FROZEN:
            return True
    return times[most] > 0.004 and times[most] > 8 * times[fewer]
