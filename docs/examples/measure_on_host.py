"""A product beside a copy, and the two as a pipeline, on the CPU (docs/measuring-your-own.md)."""

import numpy as np

import overlapbench as ob

n = 768
rng = np.random.default_rng(0)
a, b = (rng.random((n, n), dtype=np.float32) for _ in range(2))
c = np.empty_like(a)
source = rng.random(4 << 20, dtype=np.float32)
target = np.empty_like(source)


def multiply() -> None:
    np.matmul(a, b, out=c)


def copy() -> None:
    np.copyto(target, source)


def poison() -> None:
    c.fill(np.nan)


def check() -> ob.Verdict:
    expected = a.astype(np.float64) @ b.astype(np.float64)
    error = float(np.abs(c - expected).max() / np.sqrt(np.mean(expected**2)))
    return ob.Verdict(max_rel_err=error, tolerance=1e-4)


ob.configure(backend="host", budget_ms=300)
product = ob.Work(multiply, reset=poison, verify=check)
transfer = ob.Work(copy, kind="copy")

with ob.results("mine.json"):
    print(ob.measure(comp=product, comm=transfer, n=n))
    steps = []
    for i in range(3):
        steps.append(ob.Step(f"copy{i}", "copies", transfer))
        steps.append(ob.Step(f"multiply{i}", "products", product, after=[f"copy{i}"]))
    print(ob.measure_schedule(steps, n=n))
    print(f"{ob.do_bench(product, n=n):.3f} ms")
