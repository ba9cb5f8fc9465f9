"""Writing: today `append`, the raw layer."""
