"""Search without a model: candidates, ranking, and the context for a model."""
