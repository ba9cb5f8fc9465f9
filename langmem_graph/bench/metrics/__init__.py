"""The measures, as pure functions; each is checked against an example worked out by hand."""
