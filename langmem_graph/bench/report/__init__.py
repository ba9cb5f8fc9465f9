"""What a run came to: Markdown tables and plots."""
