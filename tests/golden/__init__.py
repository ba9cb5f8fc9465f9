"""Conversations whose every prompt, report and answer is written down and compared."""
