"""The data sets, one file each. Nothing is downloaded: a missing file is named with its origin."""

from collections.abc import Callable
from pathlib import Path

from langmem_graph.bench.data.actmemeval import load_actmemeval
from langmem_graph.bench.data.locomo import load_locomo
from langmem_graph.bench.data.longmemeval import load_longmemeval
from langmem_graph.bench.data.mem2actbench import load_mem2actbench
from langmem_graph.bench.data.personamem import load_personamem
from langmem_graph.bench.data.realmem import load_realmem
from langmem_graph.bench.data.unique import told_apart
from langmem_graph.bench.items import DataSet

LOADERS: dict[str, Callable[[Path], DataSet]] = {
    "locomo": told_apart(load_locomo),
    "longmemeval": told_apart(load_longmemeval),
    "actmemeval": told_apart(load_actmemeval),
    "realmem": told_apart(load_realmem),
    "mem2actbench": told_apart(load_mem2actbench),
    "personamem": told_apart(load_personamem),
}
"""By the name that the command takes."""

__all__ = ["LOADERS"]
