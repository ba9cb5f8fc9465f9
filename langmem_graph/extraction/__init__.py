"""The write graph: a model reads new messages and proposes records; code
verifies them.
"""
