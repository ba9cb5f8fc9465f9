"""Search without a model: candidates, ranking, and the context that a model is shown."""
