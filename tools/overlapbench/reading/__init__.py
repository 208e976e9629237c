"""Results: the one reader, the names and counters in them, and their other formats."""
