"""What several test modules share: answers of models, builders, oracles, servers."""
