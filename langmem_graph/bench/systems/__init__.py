"""Systems that are measured side by side. To add one, see `protocol.py`."""
