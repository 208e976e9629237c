"""What the counter tracks in traces of --trace_out hold.

    python3 docs/examples/counter_tracks.py traces

Of each row and rank: readings a sample, milliseconds from one to the next (median), the lowest and
the highest clock and power, milliseconds until the power is another one (median), the links'
highest rate, and what they sent in a sample: the mean of all but the first, if a reading was taken
in the pause between that one and the next.
"""

import json
import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

Track = list[tuple[float, float]]  # milliseconds, and the value or when a sample ended
READ_BEFORE_MS = 0.5  # the links' counters are read that long before the reading's time, at most
HEAD = ("readings", "apart", "MHz", "W", "renewed", "GB/s", "MiB sent")
LINE = "{:>8} {:>6} {:>10} {:>8} {:>8} {:>6} {:>9}  {}"


def tracks_of(trace: dict[str, Any]) -> dict[str, Track]:
    """Return the readings of each name, and the samples."""
    tracks: dict[str, Track] = defaultdict(list)
    for event in trace["traceEvents"]:
        at, name = event.get("ts", 0) / 1e3, event["name"]
        if event["ph"] == "C":
            tracks[name].append((at, event["args"]["value"]))
        elif name.startswith("sample "):
            tracks["sample"].append((at, at + event["dur"] / 1e3))
    return tracks


def sent_mib(moments: list[float], rates: Track, samples: Track) -> str:
    (_, first_end), (second_begin, _) = samples[:2]
    begin = first_end + READ_BEFORE_MS
    if not any(begin < moment < second_begin for moment in moments):
        return ""
    rate_of = dict(rates)
    sent = sum(rate_of.get(a, 0) * 1e6 * (b - a) for a, b in pairwise(moments) if a > begin)
    return f"{sent / 2**20 / (len(samples) - 1):.1f}"


def span(track: Track) -> str:
    values = [value for _, value in track]
    return f"{min(values):.0f}-{max(values):.0f}"


print(LINE.format(*HEAD, "row and rank"))
all_apart = []
for file in sorted(f for folder in sys.argv[1:] for f in Path(folder).glob("*.rank*.json")):
    tracks = tracks_of(json.loads(file.read_text()))
    power, links, samples = (tracks[n] for n in ("power_W", "nvlink_sent_GBps", "sample"))
    moments = [at for at, _ in power]
    if len(moments) < 2 or len(samples) < 2:
        continue  # no tracks (the host backend), or a trace that was cut to one sample
    apart = [b - a for a, b in pairwise(moments)]
    new = [at for (_, old), (at, value) in pairwise(power) if value != old]
    figures = [f"{len(power) / len(samples):.1f}", f"{median(apart):.1f}"]
    figures += [span(tracks["sm_clock_MHz"]), span(power)]
    figures += [f"{median(b - a for a, b in pairwise(new)):.1f}" if len(new) > 1 else ""]
    figures += [
        f"{max((rate for _, rate in links), default=0):.1f}",
        sent_mib(moments, links, samples),
    ]
    print(LINE.format(*figures, file.name.removesuffix(".json")))
    all_apart += apart
if not all_apart:
    sys.exit("counter_tracks: no counter tracks in any *.rank*.json of these folders")
low, middle, high = min(all_apart), median(all_apart), max(all_apart)
print(f"Readings are {low:.1f} to {high:.1f} ms apart, {middle:.1f} as a median.")
