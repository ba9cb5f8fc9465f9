"""Benchmarks: how well and how fast the memory finds things, beside simpler and other
systems.
"""
