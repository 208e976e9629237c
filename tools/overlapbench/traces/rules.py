"""The class of a span: an ordered table of patterns. The first match decides.

A rule is written PATTERN=CLASS. A pattern matches anywhere in a span's name, ignoring case; `*`
stands for any text, `?` for any character.
The prefixes `kernel:`, `memcpy:`, `peer:`, `memset:` and `other:` limit it to a category.

The user's rules come first, then the class that a file states for a span, as our own traces do,
then the defaults.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from overlapbench.traces.model import Category, Class, glob

# With peer copies, copy engines run collectives, pipelines and prefetches between GPUs.
# A kernel that only waits for a flag neither computes nor communicates. Nor does Hold, which fills
# the SMs while copies prove that they need none (device/cuda/sm_hold.h).
# Inductor names its kernels after the operators in them, and those that wait for a collective are
# among these.
_FIRST = """
peer:=COMM
memcpy:=MEM
memset:=MEM
kernel:wait_signal=WAIT
kernel:wait_until=WAIT
kernel:blocking_kernel=GATE
kernel:spinKernel=GATE
kernel:spin_kernel=GATE
kernel:overlapbench::*::Hold(=GATE
kernel:triton_???_fused_=COMP
kernel:nccl=COMM
kernel:nvshmem=COMM
kernel:msccl=COMM
kernel:deep_ep=COMM
kernel:hybrid_ep=COMM
kernel:userbuffers=COMM
"""
_COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all")
_FUSED = ("{}_epilogue", "{}*gemm", "{}*matmul", "gemm*{}", "matmul*{}")
_LAST = """
kernel:symm_mem=COMM
kernel:symmetric_memory=COMM
kernel:multimem=COMM
kernel:one_shot=COMM
kernel:two_shot=COMM
kernel:cross_device_reduce=COMM
"""
_CATEGORY = re.compile(rf"({'|'.join(Category)}):(?!:)")


@dataclass(frozen=True)
class Rule:
    category: Category | None  # None: any
    pattern: re.Pattern[str]
    kind: Class

    def matches(self, category: Category, name: str) -> bool:
        return self.category in (None, category) and self.pattern.search(name) is not None


@dataclass(frozen=True)
class Rules:
    """The user's rules, and the defaults after them."""

    own: Sequence[Rule] = ()
    _known: dict[tuple[Category, str, Class | None], Class] = field(default_factory=dict)

    def classify(self, category: Category, name: str, stated: Class | None = None) -> Class:
        """Return the class of a span; `stated` is the class in its file."""
        key = (category, name, stated)
        if key not in self._known:  # very many spans have few names
            chosen = _first(self.own, category, name) or stated
            chosen = chosen or _first(_DEFAULT_RULES, category, name)
            self._known[key] = chosen or Class.COMP
        return self._known[key]


def by_name(category: Category, name: str) -> Class | None:
    """Return the class in tools that use kernels' names; None for spans that they ignore."""
    if category in (Category.MEMCPY, Category.PEER, Category.MEMSET):
        return Class.MEM
    if category is Category.KERNEL:
        return Class.COMM if "nccl" in name else Class.COMP
    return None


def _first(rules: Iterable[Rule], category: Category, name: str) -> Class | None:
    return next((rule.kind for rule in rules if rule.matches(category, name)), None)


def parse_rule(text: str) -> Rule:
    """Read PATTERN=CLASS; ValueError says what is wrong."""
    pattern, equals, name = (part.strip() for part in text.rpartition("="))
    if not equals or not pattern:
        raise ValueError(f"{text!r} is not PATTERN=CLASS")
    if name.upper() not in Class.__members__:
        raise ValueError(f"{name!r} is not one of {', '.join(Class)}")
    category = _CATEGORY.match(pattern)
    sought = pattern[category.end() :] if category else pattern
    return Rule(Category(category[1]) if category else None, glob(sought), Class[name.upper()])


def _defaults() -> Iterator[str]:
    yield from _FIRST.split()
    spelled = [name for one in _COLLECTIVES for name in (one, one.replace("_", ""))]
    yield from (f"kernel:{form.format(name)}=FUSED" for name in spelled for form in _FUSED)
    yield from (f"kernel:{name}=COMM" for name in spelled)
    yield from _LAST.split()


_DEFAULT_RULES = [parse_rule(line) for line in _defaults()]
