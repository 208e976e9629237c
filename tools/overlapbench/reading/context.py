"""What a result file says about its run: whether it is one of this suite, and can be trusted."""

from collections.abc import Mapping

from overlapbench.output import harmless
from overlapbench.reading.source import Document, Fields, short

SCHEMA = "2"
BACKENDS = ("cuda", "host")
_KEY = "overlapbench_schema"


def is_own(context: Fields) -> bool:
    """Tell whether this suite wrote the file, and no other Google Benchmark program."""
    return _KEY in context.values


def check_context(context: Fields) -> str:
    """Return the backend of a result of this suite; ResultError for any other file."""
    if not is_own(context):
        raise context.error(_KEY, "missing: not a result of overlapbench")
    schema = context.text(_KEY)
    if schema != SCHEMA:
        raise context.error(_KEY, f"{schema!r} is not supported: must be {SCHEMA!r}")
    backend = context.text("backend")
    if backend not in BACKENDS:
        raise context.error("backend", f"{backend!r} is not one of {', '.join(BACKENDS)}")
    return backend


def read_incomplete(document: Document) -> str:
    """Return why the run ended before all rows were measured; "" if all were."""
    reason = document.values.get("incomplete", "")
    if not isinstance(reason, str):
        raise document.error(f"incomplete: {short(reason)} is not text", None)
    return harmless(reason)


def failed_self_test(context: Mapping[str, object]) -> bool:
    """Tell whether known delays were measured wrong, so that no figure of the file is trusted."""
    return str(context.get("self_test", "")).startswith("failed")
