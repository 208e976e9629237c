"""What charts of pairs in cells, and of the laboratory, share: which rows, and texts of cells."""

from overlapbench.result import Row

SM_AXES = ("comm_sms", "comm_ctas")
_UNKNOWN = "?"


def has_pair(row: Row, family: str, *counters: str) -> bool:
    """Tell whether a row is of the family and has the counters, or failed: its cell says so."""
    return row.name.family == family and (
        not row.counters or all(row.counters.get(key, 0.0) > 0 for key in counters)
    )


def two_digits(row: Row, counter: str) -> str:
    """Write a ratio for a cell."""
    return f"{row.counters[counter]:.2f}" if counter in row.counters else _UNKNOWN


def state_text(row: Row) -> str:
    """Write why a cell has no figure."""
    return "passed" if row.passed_control else row.state.value
