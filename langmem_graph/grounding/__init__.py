"""The grounding graph: a tool call's arguments from memory, with their sources
(Mem2ActBench).
"""
