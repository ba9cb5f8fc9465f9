"""Change one line of safety-relevant code at a time, and see whether the tests of its area notice.

`python tools/mutants.py` tries some changes of every module below; `--only deletion` of one;
`--change deletion OLD NEW` makes one of your own. `--whole 200 --covered FILE` draws changes from the
whole package, and runs of the tests that reach the changed line those that reach least else. FILE is
what `pytest --cov=langmem_graph --cov-context=test` writes (pytest-cov). The working copy is not
touched: everything happens in a copy of it. A change with which the tests do not end in time counts
as noticed.
"""

import argparse
import ast
import compileall
import importlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path
from py_compile import PycInvalidationMode

ROOT = Path(__file__).resolve().parents[1]
# seconds for the tests of one change; three times as long as without it, if more
LIMIT = 90.0
FIRST_TESTS = 25  # that are run of those which reach a changed line
MOST_TESTS = 400  # that are run if the first ones notice nothing
OPTIONS = (
    "-x -q -p no:cacheprovider -p no:xdist -W ignore::pytest.PytestAssertRewriteWarning"
)
FAST = "not small_add and not chroma_once and not handler"  # all but the slowest tests
MODULES = {
    "storage/deletion.py": "extraction/test_forget_and_undo reliability/test_forget_beside_readers "
    "reliability/test_cascades::test_nothing_that_was_made_of_it_is_left storage/test_index_faults "
    "storage/test_erase_and_close::test_a_damaged_ledger_is_a_clear_error_and_can_be_erased "
    "storage/test_erase_and_close::test_reading_of_nobody_makes_nobody",
    "storage/expiry.py": "storage/test_expiry",
    "storage/records_by_hand.py:hide,unhide,_switch,_hide,_show": "extraction/test_hide",
    "trust.py": "extraction/test_hostile_texts",
    "storage/user_room.py": "reliability/test_forget_beside_readers reliability/test_signals "
    "storage/test_index_faults storage/test_erase_and_close",
    "storage/memory_directory.py": "storage/test_users_beside_each_other "
    "storage/test_directory_faults storage/test_forks_and_copies storage/test_erase_and_close "
    "reliability/test_one_writer reliability/test_unknown_users "
    "storage/test_processes_and_threads::test_read_only_changes_nothing_and_says_so",
    "storage/memory_services.py": "storage/test_call_log storage/test_interrupts "
    "reliability/test_forget_beside_readers storage/test_erase_and_close "
    "reliability/test_unknown_users",
    "storage/add_messages.py": "storage/test_add_messages storage/test_sent_again "
    "storage/test_origins_and_times storage/test_embedder_faults",
    "storage/superseded_labels.py": "storage/test_labels retrieval/test_labelled_recall",
    "threads.py": "reliability/test_exits reliability/test_hanging_embedder",
    "embeddings/embedder.py:embed,embed_query,_ask,spans,_checked": "storage/test_embedder_faults "
    "reliability/test_hanging_embedder",
    "extraction/commit_records.py": "extraction/test_changes extraction/test_write_graph "
    "extraction/test_forget_and_undo extraction/test_many_ends "
    "extraction/test_changes_within_a_batch extraction/test_schedule_step",
    "extraction/check_changes.py": "extraction/test_refused_changes extraction/test_changes",
    "grounding/verify_values.py": "grounding/test_nothing_invented grounding/test_filled_calls "
    "grounding/test_current_sources grounding/test_value_kinds grounding/test_type_conversion",
    "grounding/value_kinds.py": "grounding/test_value_kinds grounding/test_nothing_invented",
    "grounding/fill_arguments.py": "grounding/test_filled_calls grounding/test_grounding_faults",
    "grounding/decide_call.py": "grounding/test_filled_calls grounding/test_nothing_invented "
    "grounding/test_tool_call_grounding grounding/test_current_sources",
    "grounding/evidence_sources.py": "grounding/test_current_sources "
    "grounding/test_nothing_invented grounding/test_filled_calls",
    "grounding/tool_schema.py:read_arguments,converted,_is_time,problem,errors": "grounding/"
    "test_type_conversion",
    "store/writer.py": "surfaces/store/test_group_commit surfaces/store/test_store_faults",
    "messages.py:_with_handoffs,_hands_over,_origin": "surfaces/test_agent_frameworks "
    "storage/test_origins_and_times",
    "store/items.py:write,_store,sweep,get,namespaces,newest,under,_fields": "surfaces/store/"
    "test_store_ttl surfaces/store/test_store_isolation surfaces/store/test_chroma_store",
    "mcp/transports.py": "integration/test_mcp_http "
    "integration/test_mcp_stdio::test_an_interrupt_ends_it_though_the_client_is_silent",
    "graphs/user_identity.py": "surfaces/test_node_users",
}
"""The tests that have to notice a change of a module, or of these functions of it."""
LONG = ("mcp/transports.py", "storage/deletion.py")  # whose tests marked `long` run too
ENDS = {"failed": "killed", "late": "late", "": "SURVIVED"}
PAIRS = {
    ast.Eq: ast.NotEq,
    ast.Lt: ast.LtE,
    ast.Gt: ast.GtE,
    ast.Is: ast.IsNot,
    ast.In: ast.NotIn,
}
SWAPPED: dict[type, type] = {**PAIRS, **{new: old for old, new in PAIRS.items()}}


def changed(node: ast.AST) -> ast.AST | None:
    """Another node for the place of this one, if there is one that does something else."""
    match node:
        case ast.Compare(left, [op], values) if type(op) in SWAPPED:
            return ast.Compare(left, [SWAPPED[type(op)]()], values)
        case ast.BoolOp(op, values):
            return ast.BoolOp(
                ast.Or() if isinstance(op, ast.And) else ast.And(), values
            )
        case ast.UnaryOp(ast.Not(), operand):
            return operand
        case ast.If(test, yes, no) | ast.IfExp(test, yes, no) if not isinstance(
            test, ast.Compare
        ):
            return type(node)(ast.UnaryOp(ast.Not(), test), yes, no)
        case ast.Raise() | ast.Expr(ast.Call()) if "_log." not in ast.unparse(node):
            return ast.Pass()
        case ast.Constant(bool(value)):
            return ast.Constant(not value)
        case ast.Constant(int(value) | float(value)):
            return ast.Constant(value + 1)
        case ast.With(items, body) if not any(item.optional_vars for item in items):
            return ast.If(ast.Constant(value=True), body, [])
    return None


def mutants(
    module: str, wanted: Collection[str] | None = None
) -> Iterator[tuple[str, str]]:
    """What is changed, as `:LINE OLD -> NEW`, and the module's text with this change, or
    with those that are `wanted`, as it takes long.
    """
    file, _, names = module.partition(":")
    tree = ast.parse((ROOT / "langmem_graph" / file).read_text())
    functions = [
        n
        for n in ast.walk(tree)
        if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    chosen = (f for f in functions if not names or f.name in names.split(","))
    for parent in (node for function in chosen for node in ast.walk(function)):
        for field, value in ast.iter_fields(parent):
            nodes = value if isinstance(value, list) else [value]
            for place, node in enumerate(nodes):
                if not isinstance(node, ast.AST) or (new := changed(node)) is None:
                    continue
                put = [
                    *nodes[:place],
                    ast.copy_location(new, node),
                    *nodes[place + 1 :],
                ]
                setattr(parent, field, put if isinstance(value, list) else new)
                old, said = (" ".join(ast.unparse(n).split())[:60] for n in (node, new))
                what = f":{getattr(node, 'lineno', 0)} {old} -> {said}"
                is_wanted = wanted is None or what in wanted
                fixed = ast.fix_missing_locations(tree)
                yield what, ast.unparse(fixed) if is_wanted else ""
                setattr(parent, field, value)


def tests_by_line(file: Path) -> dict[tuple[str, int], list[str]]:
    """The tests that reach a line of a module, those first that reach the fewest lines."""
    from coverage import CoverageData

    data = CoverageData(basename=str(file))
    data.read()
    reached: dict[str, int] = Counter()
    found: dict[tuple[str, int], set[str]] = defaultdict(set)
    for path in data.measured_files():
        module = path.partition("/langmem_graph/")[2]
        for line, contexts in data.contexts_by_lineno(path).items():
            tests = {name.partition("|")[0] for name in contexts if name}
            found[module, line] |= tests
            reached.update(tests)
    return {
        place: sorted(tests, key=lambda test: (reached[test], test))
        for place, tests in found.items()
    }


def drawn(count: int, seed: int) -> list[tuple[str, str, str]]:
    """Changes of the whole package: the module, what is changed, and its text."""
    package = ROOT / "langmem_graph"
    modules = [str(path.relative_to(package)) for path in package.rglob("*.py")]
    every = {(name, what) for name in modules for what, _ in mutants(name, ())}
    some = random.Random(seed).sample(sorted(every), count)
    chosen: dict[str, set[str]] = defaultdict(set)
    for name, what in some:
        chosen[name].add(what)
    texts = {name: dict(mutants(name, whats)) for name, whats in chosen.items()}
    return [(name, what, texts[name][what]) for name, what in some]


def statement_at(module: str, line: int) -> int:
    """The first line of the statement that a line is of: coverage counts that one."""
    tree = ast.parse((ROOT / "langmem_graph" / module).read_text())
    begun = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(begun, default=line)


def try_whole(
    made: list[tuple[str, str, str]], tests: dict[tuple[str, int], list[str]]
) -> None:
    """Print what became of each change, and how many were noticed."""
    ends: Counter[str] = Counter()
    for module, what, text in made:
        line = statement_at(module, int(what[1:].partition(" ")[0]))
        chosen = tests.get((module, line), [])[:MOST_TESTS]
        end = "NO TEST"
        for some in filter(None, (chosen[:FIRST_TESTS], chosen[FIRST_TESTS:])):
            limit = LIMIT if len(some) <= FIRST_TESTS else 5 * LIMIT
            end = ENDS[noticed(module, text, limit, some)]
            if end != ENDS[""]:
                break
        ends[end] += 1
        print(f"{end:8}", module + what, flush=True)
    killed = ends["killed"] + ends["late"]
    print(f"{killed} of {len(made)} killed, {ends['late']} of them by time")


def noticed(
    module: str, text: str | None, limit: float, tests: list[str] | None = None
) -> str:
    """Run tests, by default the module's, with this text: "failed", "late", or nothing
    if all of them pass.
    """
    path = Path("langmem_graph", module.partition(":")[0])
    before = path.read_text()
    path.write_text(text or before)
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.dup2(os.open("out.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        os.dup2(1, 2)
        marked = ["-k", FAST, *(["-m", "not stress"] if module in LONG else [])]
        files = tests or []
        if tests is None:
            parts = [file.partition("::") for file in MODULES[module].split()]
            files = [f"tests/{file}.py{colons}{test}" for file, colons, test in parts]
        os._exit(
            int(
                importlib.import_module("pytest").main(
                    [*OPTIONS.split(), *marked, *files]
                )
            )
        )
    ended, status, until = 0, 1, time.monotonic() + limit
    while not ended and time.monotonic() < until:
        time.sleep(0.1)
        ended, status = os.waitpid(child, os.WNOHANG)
    if not ended:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    path.write_text(before)
    return "failed" if ended and status else "" if ended else "late"


def main() -> None:
    """Try the changes, print which were not noticed, and count."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--only", nargs="*", default=[""], help="parts of modules' names"
    )
    parser.add_argument("--each", type=int, default=4, help="changes of a module")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--change", nargs=3, action="append", metavar=("MODULE", "OLD", "NEW")
    )
    parser.add_argument(
        "--whole", type=int, metavar="N", help="changes of the whole package"
    )
    parser.add_argument(
        "--covered", type=Path, help="a file of coverage, with contexts"
    )
    asked, made = parser.parse_args(), list[tuple[str, str, str]]()
    by_line = tests_by_line(asked.covered.resolve()) if asked.whole else {}
    for part, old, new in asked.change or ():
        [module] = [name for name in MODULES if part in name]
        text = (
            (ROOT / "langmem_graph" / module.partition(":")[0])
            .read_text()
            .replace(old, new)
        )
        made.append((module, f" {old!r} -> {new!r}", text))
    if asked.whole:
        made = drawn(asked.whole, asked.seed)
    for module in () if asked.change or asked.whole else MODULES:
        if any(part in module for part in asked.only):
            found = sorted(set(mutants(module)))
            some = random.Random(asked.seed).sample(found, min(asked.each, len(found)))
            made += [(module, *one) for one in some]
    copied = Path(tempfile.mkdtemp(prefix="mutants-"))
    shutil.copytree(
        ROOT, copied, ignore=shutil.ignore_patterns(".*"), dirs_exist_ok=True
    )
    compileall.compile_dir(
        copied, quiet=1, invalidation_mode=PycInvalidationMode.CHECKED_HASH
    )
    os.chdir(copied)
    os.environ |= {"PYTHONPATH": str(copied), "PYTHONDONTWRITEBYTECODE": "1"}
    sys.path[0], sys.dont_write_bytecode = str(copied), True
    for name in ("chromadb", "langchain.agents", "mcp", "onnxruntime", "pytest"):
        importlib.import_module(name)
    if asked.whole:
        try_whole(made, by_line)
        shutil.rmtree(copied)
        return
    ends: Counter[str] = Counter()
    limits: dict[str, float] = {}
    for module, what, text in made:
        if module not in limits:
            begun = time.monotonic()
            good = not noticed(module, None, 10 * LIMIT)
            limits[module] = good * max(LIMIT, 3 * (time.monotonic() - begun))
        limit = limits[module]
        end = (
            ENDS[noticed(module, text, limit)] if limit else "NOT TRIED, its tests fail"
        )
        ends[end] += 1
        print(f"{end:8}", module.partition(":")[0] + what, flush=True)
    print(
        f"{ends['killed'] + ends['late']} of {len(made)} killed, {ends['late']} of them by time"
    )
    shutil.rmtree(copied)


if __name__ == "__main__":
    main()
