"""The schedule: when things happen, how often, how times are written and said, what may change."""
