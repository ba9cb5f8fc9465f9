"""bench: how well a memory finds, answers and acts, on public data sets and beside others."""
