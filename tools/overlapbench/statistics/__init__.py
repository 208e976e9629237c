"""Statistics: pure functions on arrays."""
