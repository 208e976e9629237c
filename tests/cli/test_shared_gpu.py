"""More ranks than GPUs: the steps of eight ranks fit behind the start gate.

Eight ranks enqueue four times as much as two do, and the queues that hold it do not grow.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Launcher


@pytest.mark.alone
@pytest.mark.parametrize("family", ["Fsdp/Prefetch", "Tp/ColumnParallel/model:llama8b/tokens:1024"])
def test_eight_ranks_by_copy_engine_are_gated(
    launcher: "Launcher", tmp_path: Path, family: str
) -> None:
    if launcher.alone("--query=gpus").stdout.strip() == "0":
        pytest.skip("there is no GPU")
    result = tmp_path / "result.json"
    done = launcher.run(
        *("--backend=cuda", "--share_gpu", "--budget_ms=1", "--timeout_s=30"),
        *("--axis", "transport=copy", f"--benchmark_filter=^{family}"),
        f"--benchmark_out={result}",
        ranks=8,
        timeout_s=240,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(result.read_text(encoding="utf-8"))["benchmarks"]
    assert rows
    assert [row["name"] for row in rows if "not gated" in row["reason"]] == []
