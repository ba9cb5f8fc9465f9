"""The upper layers of memory: topic tracks and the profile, as Markdown files over the records."""
