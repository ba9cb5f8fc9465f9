"""The schedule: when things happen (times), how often (recurrence), and what may change (rules)."""
