"""Whether memory stays true over time: `python -m benchmarks truth` and `truth-judge`.

A case is a talk of several sessions in which something changes, or only seems to. It is
added to a memory that holds hundreds of other records of the same user, and a judge
compares what memory then holds with what the case's author wrote down.
"""
