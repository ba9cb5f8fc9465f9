"""Reading: search, and the context that a model is shown."""
