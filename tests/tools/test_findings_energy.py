"""What findings say of energy."""

from pathlib import Path

import pytest

import samples
from findable import result
from overlapbench.cli import findings as command_line
from overlapbench.findings.energy import energy_answer


def saving(name: str, energy: float, reach: float = 0.01, time: float = 0.2) -> samples.Json:
    ends = {"energy_saved_low": energy - reach, "energy_saved_high": energy + reach}
    return samples.overlap(name, time_saved=time, energy_saved=energy, **ends)


def test_the_answer_on_energy_counts_what_is_certain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        saving("AllReduce+Gemm/bytes:1048576", 0.08, time=0.3),
        saving("AllGather+Gemm/bytes:1048576", 0.02, reach=0.03),
        saving("AllToAll+Gemm/bytes:1048576", -0.05),
        saving("Broadcast+Gemm/bytes:1048576", 0.3) | {"state": "control"},
        saving("SendRecv+Gemm/bytes:1048576", 0.3) | {"valid": 0.0},
        samples.overlap("Gather+Gemm/bytes:1048576", speedup=1.25),
        saving("A+B", 0.3) | samples.row("Pp/GPipe/Gemm"),
        saving("SecondDelay+Delay/delay_us:4000", 0.3),
    ]
    path = samples.write(tmp_path / "energy.json", samples.document(rows))
    command_line.main([str(path)])
    told = " ".join(capsys.readouterr().out.partition("Hiding ")[2].split())
    assert told == (
        "communication saves energy in 1 of 3 rows, costs energy in 1, 1 may save none. The median"
        " row saves 20.0 % of the time and 2.0 % of the energy. AllReduce beside Gemm, 1 MiB saves"
        " 6.8 to 9.2 % of the energy and 30.0 % of the time."
    )
    command_line.main([str(samples.write(tmp_path / "none.json", samples.document(rows[3:])))])
    assert "energy" not in capsys.readouterr().out


def answer(*rows: samples.Json) -> str:
    return energy_answer([result(*rows)])


def test_the_answer_on_energy_is_for_any_number_of_rows() -> None:
    one, other = (saving(f"{name}+Gemm/bytes:1048576", 0.08) for name in ("AllReduce", "AllGather"))
    alone = "AllReduce beside Gemm, 1 MiB saves 7.0 to 9.0 % of the energy and 20.0 % of the time."
    assert answer(one) == f"Hiding communication: {alone}"
    both = "Hiding communication saves energy in 2 of 2 rows. The median row saves 20.0 % of the"
    assert answer(one, other).startswith(f"{both} time and 8.0 % of the energy. AllReduce beside")
    # The surest row is the example, though another may save more.
    wide = saving("AllGather+Gemm/bytes:1048576", 0.08, reach=0.05)
    assert answer(wide, one).endswith("AllReduce beside Gemm, 1 MiB saves 6.9 to 9.1 % of the"
                                      " energy and 20.0 % of the time.")  # fmt: skip
    # An interval that ends at zero is no certain saving, and no certain loss.
    at_zero = (saving(f"{name}+Gemm/bytes:1", x, 0.01) for name, x in (("A", 0.01), ("B", -0.01)))
    assert "saves energy in 0 of 2 rows, 2 may save none. " in answer(*at_zero)
