"""Values in texts: where they begin and end, and whether a source contains them."""
