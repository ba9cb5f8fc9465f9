"""Run other people's tests on ChromaStore: `python tools/foreign_suites.py --foreign DIR`.

Of LangGraph's repository, DIR holds the tests of the stores, whose imports of a store class read
`from shim import …`: `mem/tests` (libs/checkpoint), `sqlite/tests` (libs/checkpoint-sqlite) and
`pg/tests` (libs/checkpoint-postgres); no database is needed. `langmem/tests` and `deepagents/tests`
are those projects' tests, unchanged; where DIR lacks them they are looked for in the source
distributions. Everything is copied to a scratch folder first, and what the tests import besides is
installed there. Nothing of it is committed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ROOT / "tools" / "foreign"
NEEDED = "pytest-mock langgraph-checkpoint-postgres psycopg psycopg-binary psycopg-pool wcmatch"
PYTEST = "-o asyncio_mode=auto -o asyncio_default_fixture_loop_scope=function"
DIFFERENT = {
    r"test_no_running_loop": "calls from the event loop work; they block it",
    r"test_scores\[.*-l2\]": "only the cosine is offered as a distance",
    r"test_scores": "scores are half cosine, half BM25 (--dense: all pass)",
    r"test_nonnull_migrations": "the migrations are not a list of SQL texts",
    r"sql_injection|filter_keys_with_hyphens": "filter keys are plain keys of a dict, never SQL",
    r"test_batch_list_namespaces_ops": "a text as a namespace's path is refused",
    r"^pg: .*test_large_batches_async": "60,000 operations within 60 s (--seconds 900: passes)",
}
"""Tests that fail on purpose or for want of time, and why."""


@dataclass
class Ran:
    """What came of a suite."""

    name: str
    counts: Counter[str]
    failed: list[str]
    slow: list[str]


def main() -> None:
    """Run all suites that are there, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--foreign", type=Path, required=True, metavar="DIR")
    parser.add_argument("--only", nargs="*", help="names of suites")
    parser.add_argument("--seconds", type=int, default=60, help="that a test may take")
    parser.add_argument("--tests", default="", help="which, as for pytest's -k")
    parser.add_argument("--dense", action="store_true", help="rank by cosine alone")
    asked = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="foreign-suites-"))
    try:
        _pip(
            "install",
            "--quiet",
            "--no-deps",
            "--target",
            scratch / "extra",
            *NEEDED.split(),
        )
        ran = [
            _run(
                name,
                scratch,
                ["-k", asked.tests, f"--timeout={asked.seconds}"],
                dense=asked.dense,
            )
            for name in asked.only or ("mem", "sqlite", "pg", "langmem", "deepagents")
            if _fetch(name, asked.foreign.resolve(), scratch)
        ]
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    _show(ran)


def _pip(*given: object) -> bool:
    """Run pip, or uv in its place, where it can do the same."""
    fast = shutil.which("uv") if given[0] == "install" else None
    command = [fast, "pip"] if fast else [sys.executable, "-m", "pip"]
    return subprocess.run([*command, *map(str, given)], check=False).returncode == 0


def _fetch(name: str, foreign: Path, scratch: Path) -> bool:
    """Copy a suite to the scratch folder; if there is none, say why it is skipped."""
    suite = scratch / name
    if (foreign / name / "tests").is_dir():
        shutil.copytree(foreign / name, suite)
        return True
    if name not in ("langmem", "deepagents"):
        print(f"skipped {name}: there is no {foreign / name / 'tests'}")
        return False
    options = (
        "--quiet",
        "--no-deps",
        "--no-binary",
        ":all:",
        "--dest",
        scratch / "sources",
    )
    if not _pip("download", *options, name):
        print(f"skipped {name}: its source distribution could not be downloaded")
        return False
    [archive] = (scratch / "sources").glob(f"{name}-*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(scratch / "sources", filter="data")
    found = archive.with_name(archive.name.removesuffix(".tar.gz"))
    if not (found / "tests").is_dir():
        print(
            f"skipped {name}: {archive.name} carries no tests, nor is there {foreign / name}"
        )
        return False
    shutil.copytree(found, suite)
    return True


def _run(name: str, scratch: Path, options: list[str], *, dense: bool) -> Ran:
    suite = scratch / name
    if name in ("langmem", "deepagents"):
        _pip("install", "--quiet", "--no-deps", "--target", scratch / "extra", name)
    report = suite / "report.xml"
    path = os.pathsep.join(map(str, (TOOLS, suite, scratch / "extra", ROOT)))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "tests",
        "-q",
        *PYTEST.split(),
        "-p",
        "swap_store",
    ]
    print(f"running {name} …", flush=True)
    subprocess.run(
        [*command, *options, f"--junitxml={report}"],
        cwd=suite,
        env=os.environ
        | {"PYTHONPATH": path, "FOREIGN_RANKING": "dense" if dense else ""},
        stdout=subprocess.DEVNULL,
        check=False,
    )
    if not report.exists():
        return Ran(name, Counter(error=1), ["pytest itself failed"], [])
    cases = {
        f"{case.get('classname')}::{case.get('name')}": (
            _end(case),
            float(case.get("time", 0)),
        )
        for case in ElementTree.parse(report).iter("testcase")
    }
    failed = [case for case, (end, _) in cases.items() if end in ("failed", "error")]
    slow = [
        f"{case} took {seconds:.0f} s"
        for case, (_, seconds) in cases.items()
        if seconds > 30
    ]
    return Ran(name, Counter(end for end, _ in cases.values()), failed, slow)


def _end(case: ElementTree.Element) -> str:
    for tag, end in (("failure", "failed"), ("error", "error"), ("skipped", "skipped")):
        if case.find(tag) is not None:
            return end
    return "passed"


def _show(ran: list[Ran]) -> None:
    print(f"\n{'suite':12}{'passed':>8}{'failed':>8}{'skipped':>9}")
    for one in ran:
        failed = one.counts["failed"] + one.counts["error"]
        print(
            f"{one.name:12}{one.counts['passed']:8}{failed:8}{one.counts['skipped']:9}"
        )
    for one in ran:
        for case in one.failed:
            name = f"{one.name}: {case.split('.')[-1]}"
            reasons = (
                why for pattern, why in DIFFERENT.items() if re.search(pattern, name)
            )
            print(f"{name}: {next(reasons, 'UNEXPECTED')}")
        for case in one.slow:
            print(f"{one.name}: {case.split('.')[-1]}")


if __name__ == "__main__":
    main()
