"""The data sets, one file each. Nothing is downloaded: a missing file is named with its origin."""

from collections.abc import Callable
from pathlib import Path

from langmem_graph.bench.data.actmemeval import load_actmemeval
from langmem_graph.bench.data.checks import checked
from langmem_graph.bench.data.locomo import load_locomo
from langmem_graph.bench.data.longmemeval import load_longmemeval
from langmem_graph.bench.data.mem2actbench import load_mem2actbench
from langmem_graph.bench.data.personamem import load_personamem
from langmem_graph.bench.data.realmem import load_realmem
from langmem_graph.bench.items import DataSet

LOADERS: dict[str, Callable[[Path], DataSet]] = {
    "locomo": checked(load_locomo),
    "longmemeval": checked(load_longmemeval),
    "actmemeval": checked(load_actmemeval),
    "realmem": checked(load_realmem),
    "mem2actbench": checked(load_mem2actbench),
    "personamem": checked(load_personamem),
}
"""By the name that the command takes."""

__all__ = ["LOADERS"]
