"""Topic tracks and the profile: Markdown files over the records (NapMem)."""
