"""Looking after a memory: doctor, rebuild, erase."""
