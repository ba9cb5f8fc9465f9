"""A tool call's arguments from memory, each with its source (Mem2ActBench)."""
