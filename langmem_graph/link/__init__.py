"""Linking what is stored: today `causal`, which pairs of records are cause and effect."""
