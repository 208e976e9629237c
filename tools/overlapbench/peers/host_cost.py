"""The host's time per call: the time until the call returns, which the device must not increase.

A call on few elements takes less time on the device than on the host, so the host never waits for
the device. Batches of calls alternate in a fixed order, and the device is idle when each begins.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from overlapbench.peers.cases import summarize

_CALLS = 200  # per batch: enough to hide the clock's error, few enough for the device's queue
_ELEMENTS = 4096


@dataclass(frozen=True)
class HostCost:
    """Microseconds of one call: the median of batches, and the batches' 5th and 95th percentile."""

    us: float
    low_us: float
    high_us: float


def time_calls(
    works: Mapping[str, Callable[[], object]], synchronize: Callable[[], object], batches: int
) -> dict[str, HostCost]:
    """Time every work in turn, `batches` times over; the first round is warmup."""
    us: dict[str, list[float]] = {name: [] for name in works}
    for batch in range(1 + batches):
        for name, work in works.items():
            synchronize()
            begin_ns = time.perf_counter_ns()
            for _ in range(_CALLS):
                work()
            if batch:
                us[name].append((time.perf_counter_ns() - begin_ns) / 1e3 / _CALLS)
    synchronize()
    return {name: HostCost(*summarize(values)) for name, values in us.items()}


def works_on_gpu() -> dict[str, Callable[[], object]]:
    """Return the calls to compare, by their names in the table."""
    import torch

    from overlapbench import torch_kernels as kernels
    from overlapbench import torch_operators

    operators = torch_operators.load()
    x = torch.randn((32, _ELEMENTS // 32), device="cuda", dtype=torch.bfloat16)
    weight, out = x.clone().requires_grad_(), torch.empty_like(x)
    gelu, softmax = torch.nn.functional.gelu, torch.nn.functional.softmax
    return {
        "GELU, PyTorch": lambda: gelu(x),
        "GELU, our operator": lambda: operators.gelu(x, "erf"),
        "GELU, PyTorch, gradient": lambda: gelu(weight),
        "GELU, our operator, gradient": lambda: operators.gelu(weight, "erf"),
        "GELU, torch_kernels": lambda: kernels.gelu(x, "erf", out=out),
        "softmax, PyTorch": lambda: softmax(x, dim=-1),
        "softmax, our operator": lambda: operators.softmax(x),
        "softmax, PyTorch, gradient": lambda: softmax(weight, dim=-1),
        "softmax, our operator, gradient": lambda: operators.softmax(weight),
        "softmax, torch_kernels": lambda: kernels.softmax(x, out=out),
    }


def render(costs: Mapping[str, HostCost]) -> str:
    """Write the table."""
    lines = [f"{'us of host time per call':<32} {'median':>7} {'5 %':>7} {'95 %':>7}"]
    lines += [
        f"{name:<32} {cost.us:>7.2f} {cost.low_us:>7.2f} {cost.high_us:>7.2f}"
        for name, cost in costs.items()
    ]
    return "\n".join(lines) + "\n"
