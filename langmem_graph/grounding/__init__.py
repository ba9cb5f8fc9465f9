"""A tool call's arguments from memory, each with where it comes from (Mem2ActBench)."""
