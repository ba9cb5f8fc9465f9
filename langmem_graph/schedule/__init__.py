"""Times, recurrence, and what may change on a schedule (RealMem)."""
