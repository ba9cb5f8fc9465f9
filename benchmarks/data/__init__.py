"""The data sets, one file each. Nothing is downloaded: a missing file is named with its
origin.
"""

from collections.abc import Callable
from pathlib import Path

from benchmarks.data.beam import load_beam
from benchmarks.data.chats import load_chats
from benchmarks.data.files import checked
from benchmarks.data.haystacks import load_actmemeval, load_longmemeval
from benchmarks.data.items import DataSet
from benchmarks.data.locomo import load_locomo
from benchmarks.data.mem2actbench import load_mem2actbench
from benchmarks.data.personamem import load_personamem
from benchmarks.data.prefeval import load_prefeval
from benchmarks.data.realmem import load_realmem
from benchmarks.data.vehiclemem import load_vehiclemem

LOADERS: dict[str, Callable[[Path], DataSet]] = {
    "beam": checked(load_beam),
    "chats": checked(load_chats),
    "locomo": checked(load_locomo),
    "longmemeval": checked(load_longmemeval),
    "actmemeval": checked(load_actmemeval),
    "realmem": checked(load_realmem),
    "mem2actbench": checked(load_mem2actbench),
    "personamem": checked(load_personamem),
    "prefeval": checked(load_prefeval),
    "vehiclemem": checked(load_vehiclemem),
}
"""By the name that the command takes."""

__all__ = ["LOADERS"]
