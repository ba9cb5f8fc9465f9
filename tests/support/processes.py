"""Processes that start with what they need imported."""

import multiprocessing

PROCESSES = multiprocessing.get_context("forkserver")


PROCESSES.set_forkserver_preload(["tests.support.killed_writer", "chromadb"])
