"""What settings mean outside this suite: commands, variables, fields, and other steps.

There is a table of transports, and a few lines on each other setting. NCCL has no equivalent of our
own transports; for those, a line says what to do instead.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from overlapbench.tune.space import Wish, axis_flags

_WINDOWS = (
    "both buffers must be symmetric memory: ncclMemAlloc, then"
    " ncclCommWindowRegister(..., NCCL_WIN_COLL_SYMMETRIC)"
)
_KERNEL = "a kernel that {} the peers' memory, with few blocks (comm/cuda/peer_move.h has ours)"


@dataclass(frozen=True)
class Advice:
    """What to set, and what else to do."""

    variables: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)  # fields of ncclConfig_t
    notes: tuple[str, ...] = ()


_TRANSPORTS: Mapping[str, Advice] = {
    "nccl_ce": Advice(
        {"NCCL_CTA_POLICY": "2"},
        {"CTAPolicy": "NCCL_CTA_POLICY_ZERO"},
        (_WINDOWS, "NCCL 2.28 or later, one node; anything else falls back to SMs silently"),
    ),
    "nccl_sym": Advice(notes=(_WINDOWS, "NCCL 2.28 or later; 2.28.7 fixes a data corruption")),
    "copy": Advice(
        notes=(
            "NCCL cannot do this for every collective: copy peer to peer with cudaMemcpyPeerAsync"
            " (its own copy engine path is transport:nccl_ce)",
        )
    ),
    "sm_load": Advice(notes=("NCCL cannot do this: write " + _KERNEL.format("reads"),)),
    "sm_store": Advice(notes=("NCCL cannot do this: write " + _KERNEL.format("writes"),)),
    "sm_bulk": Advice(
        notes=("NCCL cannot do this: write " + _KERNEL.format("writes by cp.async.bulk"),)
    ),
}
_PRIORITY = "the {}'s stream: cudaStreamCreateWithPriority, {{}} above the lowest"
_NOTES: Mapping[str, str] = {
    "first": "order: {} starts first",
    "comm_sms": "the communication's kernel takes {} SMs",
    "engine": "the copy: a kernel that reads and writes (comm/sm_copy.h has ours)",
    "sm_target": "the product: CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET = {}",
    "comp_sms": "the computation's stream: a green context of {} SMs (cuGreenCtxCreate)",
    "comp_priority": _PRIORITY.format("computation"),
    "comm_priority": _PRIORITY.format("communication"),
    "connections": "CUDA_DEVICE_MAX_CONNECTIONS={} in the environment",
}
_ORDERS = {"comp": "the computation", "comm": "the communication", "none": "either"}


def advise(settings: Mapping[str, str]) -> Advice:
    """Return what the settings mean; default settings are omitted."""
    of_transport = _TRANSPORTS.get(settings.get("transport", ""), Advice())
    variables, config = dict(of_transport.variables), dict(of_transport.config)
    notes = list(of_transport.notes)
    if ctas := settings.get("comm_ctas"):
        variables |= {"NCCL_MIN_CTAS": ctas, "NCCL_MAX_CTAS": ctas}
        config |= {"minCTAs": ctas, "maxCTAs": ctas}
    for setting, text in _NOTES.items():
        if setting in settings:
            value = settings[setting]
            notes.append(text.format(_ORDERS.get(value, value) if setting == "first" else value))
    return Advice(variables, config, tuple(notes))


def command_of(command: Sequence[str], wish: Wish, settings: Mapping[str, str]) -> str:
    """Return the command that measures these settings."""
    return shlex.join([*command, *wish.flags, *axis_flags(settings)])
