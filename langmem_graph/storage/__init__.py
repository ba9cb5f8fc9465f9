"""Storage: the ledger keeps everything, the vector index finds it."""
