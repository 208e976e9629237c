"""The sections of a report: a new family is one entry of SECTIONS.

`counters` are the columns that a section's table shows at once, as far as its rows have them; all
others are shown on request. `notable` is the counter whose largest figure the summary names.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
    """One entry of the table."""

    name: str  # of its anchor
    title: str
    families: tuple[str, ...]
    about: str
    counters: tuple[str, ...]
    notable: str = ""
    notable_words: str = ""


SECTIONS = (
    Section(
        "overlap",
        "Overlap",
        ("Overlap",),
        "A computation beside a communication or copy: C and M alone, T both together. slowdown is"
        " T / max(C, M), 1.00 perfect; efficiency is 1 perfect, 0 one after the other.",
        ("comp_ms", "comm_ms", "overlap_ms", "slowdown", "efficiency"),
        "slowdown",
        "worst slowdown",
    ),
    Section(
        "communication",
        "Communication alone",
        ("Comm",),
        "Every collective and copy by itself, in the definitions of nccl-tests.",
        ("time", "algbw_GBps", "busbw_GBps", "GBps"),
        "busbw_GBps",
        "highest bus bandwidth",
    ),
    Section(
        "computation",
        "Computation alone",
        ("Compute",),
        "Every computation by itself.",
        ("time", "TFLOPs", "pct_of_peak", "fixed_cost_share", "GBps"),
        "TFLOPs",
        "highest compute rate",
    ),
    Section(
        "copies",
        "Copies and pipelines",
        ("Copy",),
        "Bandwidth of every route, pipelines of copies and kernels against their ideal, and many"
        " small copies against one.",
        (
            *("time", "GBps", "speedup", "pct_of_ideal", "sync_cost_ms"),
            *("fragmented_slowdown", "us_per_fragment"),
        ),
        "GBps",
        "highest bandwidth",
    ),
    Section(
        "priority",
        "Stream priority",
        ("Priority",),
        "Latency of the work that matters: alone, beside a load, and beside it with priority."
        " priority:equal is the negative control.",
        (
            *("latency_alone_ms", "latency_equal_ms", "latency_ms", "gain"),
            *("work_slowdown", "load_slowdown"),
        ),
        "gain",
        "largest gain",
    ),
    Section(
        "supply",
        "Data supply",
        ("Supply",),
        "Host threads that feed a device, against what making and consuming alone predict.",
        (
            *("batches_per_s", "predicted_batches_per_s", "prediction_error_pct"),
            "device_idle_share",
        ),
        "batches_per_s",
        "most batches per second",
    ),
    Section(
        "launches",
        "Launching kernels",
        ("Launch",),
        "What a launch costs the host and the device, and how short a kernel may be.",
        (
            *("time", "host_us_per_launch", "device_us_per_launch", "round_trip_us"),
            *("kernel_us", "pieces_slowdown", "dominated_below_us"),
        ),
        "launches_per_s",
        "most launches per second",
    ),
    Section(
        "kernels",
        "GELU and softmax against the copy line",
        ("Gelu", "Softmax"),
        "Fused and unfused kernels; 100 % is a device copy of as many bytes as the kernel must"
        " move, in the same run.",
        ("time", "pct_of_copy", "GBps", "fused_speedup", "predicted_speedup"),
        "fused_speedup",
        "largest speedup of fusing",
    ),
    Section(
        "training",
        "Training a network",
        ("Mlp",),
        "Launches against a recorded graph, a kernel of its own against a fused epilogue.",
        ("train_ms", "loop_ms", "kernel_ms", "graph_speedup", "epilogue_speedup"),
        "graph_speedup",
        "largest speedup of a graph",
    ),
)
OTHER = Section("other", "Other families", (), "Families that this report has no section for.", ())
