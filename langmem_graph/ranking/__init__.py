"""Ranking: from a query to scored candidates, without a model."""
