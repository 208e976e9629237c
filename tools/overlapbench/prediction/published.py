"""Tables that others published, and the law of scale that they give.

A step on p ranks takes T(p) = T(p0) + log2(p / p0) (a collectives + b T(p0)): what one host cannot
tell. The law's two numbers are a prior, fitted to the table of llm-foundry.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Scaled:
    """A model's step on several numbers of H100, at the same batch of each GPU."""

    model: str
    layers: int
    collectives: int  # of a layer in a step
    tokens: int  # of a GPU in a step
    per_gpu: dict[int, float]  # tokens a second of a GPU, by their number

    def step_ms(self, gpus: int) -> float:
        return self.tokens / self.per_gpu[gpus] * 1e3


# llm-foundry (github.com/mosaicml/llm-foundry, scripts/train/benchmarking/README.md at 8c8dd48f,
# "H100 80GB BF16", 2,048 tokens a sequence). FULL_SHARD gathers a layer twice and sums it once,
# SHARD_GRAD_OP gathers it once.
LLM_FOUNDRY = (
    Scaled("70b", 80, 3, 8 * 2048, {128: 1058, 256: 1035, 512: 1007}),
    Scaled("30b", 48, 3, 8 * 2048, {128: 2199, 256: 2148, 512: 2115}),
    Scaled("13b", 40, 3, 16 * 2048, {128: 5080, 256: 4989, 512: 4952}),
    Scaled("7b", 32, 3, 6 * 2048, {128: 10475, 256: 10119, 512: 9670}),
    Scaled("3b", 32, 2, 8 * 2048, {128: 23422, 256: 22772, 512: 21664}),
    Scaled("1b", 24, 2, 12 * 2048, {128: 44123, 256: 42555, 512: 39837}),
)


def fit_scale(models: Sequence[Scaled]) -> tuple[float, float]:
    """Return a, in ms of a collective, and b, a share: both for a doubling, by least squares."""
    rows, wanted = [], []
    for model in models:
        first = model.step_ms(128)
        for gpus, doublings in ((256, 1), (512, 2)):
            rows.append([doublings * model.layers * model.collectives / first, doublings])
            wanted.append(model.step_ms(gpus) / first - 1)
    a, b = np.linalg.lstsq(np.array(rows), np.array(wanted), rcond=None)[0]
    return max(float(a), 0.0), max(float(b), 0.0)
