"""Changed schedules: another bucket size, layers gathered further ahead, or other SMs.

A row of the wanted settings, measured or planned, is better. These are for files that have none,
and for schedules that the program cannot plan.
"""

from dataclasses import replace

from overlapbench.output import ResultError
from overlapbench.prediction.schedules import Row, Step


def with_buckets(row: Row, bucket_bytes: float) -> Row:
    """Sum the gradients in buckets of at least this size; the first bucket stays.

    A bucket's bytes come from the computations on which it waits, in equal parts.
    """
    old = row.own.steps
    sums = [i for i, step in enumerate(old) if row.works[step.work].collective == "AllReduce"]
    if not sums or any(len(old[i].after) != 1 for i in sums):
        raise ResultError(f"{row.name}: its sums are not buckets of gradients")
    atoms: list[tuple[int, float]] = []  # the step that makes a gradient, and its bytes
    first, begin = 0, -1
    for i in sums:
        (made,) = old[i].after
        makers = [k for k in range(begin + 1, made + 1) if old[k].work == old[made].work]
        bytes_ = row.works[old[i].work].wire_bytes * old[i].share
        atoms += [(maker, bytes_ / len(makers)) for maker in makers]
        first = first or len(makers)
        begin = made
    buckets = [atoms[:first]]
    for atom in atoms[first:]:
        if len(buckets) == 1 or sum(size for _, size in buckets[-1]) >= bucket_bytes:
            buckets.append([])
        buckets[-1].append(atom)
    sizes = {bucket[-1][0]: sum(size for _, size in bucket) for bucket in buckets}
    total = sum(sizes.values())
    work = replace(row.works[old[sums[0]].work], name="sum", wire_bytes=total)
    lane = old[sums[0]].lane
    steps: list[Step] = []
    places: dict[int, int] = {}
    made_sums: list[int] = []
    for i, step in enumerate(old):
        if i in sums:
            continue
        after = [places[k] for k in step.after if k not in sums]
        after += made_sums if set(step.after) & set(sums) else []
        places[i] = len(steps)
        steps.append(replace(step, after=tuple(after)))
        if i in sizes:
            made_sums.append(len(steps))
            steps.append(Step(len(row.works), lane, sizes[i] / total, (places[i],)))
    return _with(replace(row, works=(*row.works, work)), steps)


def with_prefetch(row: Row, ahead: int) -> Row:
    """Gather layers so many uses ahead, and no earlier than their memory is free."""
    old = row.own.steps
    gathers = [i for i, step in enumerate(old) if row.works[step.work].collective == "AllGather"]
    uses = [i for i, step in enumerate(old) if set(step.after) & set(gathers)]
    if not gathers or len(uses) != len(gathers):
        raise ResultError(f"{row.name}: its gathers are not one for each use of a layer")
    steps: list[Step] = []
    places: dict[int, int] = {}

    def add(i: int, after: tuple[int, ...]) -> None:
        places[i] = len(steps)
        steps.append(replace(old[i], after=tuple(places[k] for k in after)))

    others = [i for i in range(len(old)) if i not in gathers]
    gathered = 0
    for i in others:
        if i in uses:
            while gathered <= min(uses.index(i) + ahead, len(gathers) - 1):
                frees = gathered - ahead - 1
                add(gathers[gathered], (uses[frees],) if frees >= 0 else ())
                gathered += 1
        add(i, old[i].after)
    return _with(row, steps)


def with_sms(row: Row, sms: int) -> Row:
    """Return the row; ResultError if the kernels of its collectives cannot hold so many SMs."""
    collectives = [work for work in row.works if work.collective]
    of_nccl = [work for work in collectives if row.transport_of(work).startswith("nccl")]
    fits = sms in (1, 2) or sms % 4 == 0
    if any(work.collective == "AllToAll" for work in of_nccl):
        fits = sms & (sms - 1) == 0
    told = ""
    if not collectives or not all(row.by_kernel(work) for work in collectives):
        told = f"by {row.transport}, no kernel holds SMs while data moves: measure comm_sms:{sms}"
    elif {"comp_sms", "sm_target"} & {axis for axis, _ in row.name.axes}:
        told = f"its computation has SMs of its own: measure comm_sms:{sms}"
    elif not row.sms:
        told = "the SMs of its GPU are not known: give a result of this version"
    elif sms >= row.sms:
        told = f"comm_sms:{sms} leaves the computation none of {row.sms} SMs"
    elif of_nccl and not fits:
        told = "NCCL takes 1, 2 or a multiple of 4 CTAs, and for all-to-alls a power of two"
    if told:
        raise ResultError(f"{row.name}: {told}")
    return row


def _with(row: Row, steps: list[Step]) -> Row:
    own = replace(row.own, steps=tuple(steps), time=None, lanes_ms=())
    return replace(row, runs=(*row.runs[:-1], own))


CHANGES = {"bucket_bytes": with_buckets, "prefetch": with_prefetch, "comm_sms": with_sms}
