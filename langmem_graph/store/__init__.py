"""Storage: the ledger keeps, Chroma finds."""
