"""Cut a stretch of time out of an export of Nsight Systems: what test_nsys_exports.py reads.

    nsys export --type sqlite all.0.nsys-rep
    python tests/data/cut_nsys.py all.0.sqlite BEGIN_NS END_NS tests/data/nsys/reduce.rank0.sqlite

The files in tests/data/nsys are of Nsight Systems 2025.5.2, CUDA 13 and two H100, of 25 November
2026. Two rows were profiled as docs/timelines.md shows, the second with `--axis transport=copy`:

    reduce   Overlap/AllReduce+CublasGemm/bytes:67108864/n:8192/precision:bf16/cache:cold
    copy     Overlap/AllToAll+Gemm/bytes:67108864/transport:copy/n:4096/grid:8x8/work:tile/
             cache:cold

    reduce.rank0   2609427836 2623567978   six samples of the warm-up: two of the run `empty`, one
    reduce.rank1   2612842785 2626984051   of `comp`, one of `comm`, two of `overlap`
    copy.rank0     1332197000 1392364373   three copies to the host, the proof that copies need no
                                           SMs, and 15 samples: 11 empty ones, then as above

Tables keep their schema and columns. A row is kept if it is within the time. Left out are the
tables of the machine and its processes, other records of the host, and thousands of calls of
cudaEventQuery.
"""

import argparse
import sqlite3
from contextlib import closing
from pathlib import Path

_PREFIX = "CUPTI_ACTIVITY_KIND_"
_WORK = (f"{_PREFIX}KERNEL", f"{_PREFIX}MEMCPY", f"{_PREFIX}MEMSET")
_CALLS = f"{_PREFIX}RUNTIME"
_NAMES = {  # the columns that refer to StringIds
    _WORK[0]: ("demangledName", "shortName", "mangledName"),
    _CALLS: ("nameId",),
    "NVTX_EVENTS": ("textId", "jsonTextId"),
}
_WHOLE = ("TARGET_INFO_SESSION_START_TIME", "ENUM_CUDA_MEMCPY_OPER")
_POLLS = "SELECT id FROM StringIds WHERE value LIKE 'cudaEventQuery%'"


def _conditions(begin_ns: int, end_ns: int) -> dict[str, str]:
    """Return which rows are kept, by table; names of domains and categories have no end."""
    within = f"start >= {begin_ns} AND end <= {end_ns}"
    names = " UNION ".join(
        f"SELECT {column} FROM cut.{table}"
        for table, columns in _NAMES.items()
        for column in columns
    )
    return {
        **dict.fromkeys(_WORK, within),
        _CALLS: f"{within} AND nameId NOT IN ({_POLLS})",
        "NVTX_EVENTS": f"({within}) OR end IS NULL",
        **dict.fromkeys(_WHOLE, "1"),
        "StringIds": f"id IN ({names})",
    }


def _cut(source: Path, begin_ns: int, end_ns: int, target: Path) -> None:
    target.unlink(missing_ok=True)
    with closing(sqlite3.connect(target)) as new:
        new.execute("PRAGMA page_size = 1024")  # most tables have few rows
        new.execute("VACUUM")
    with closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as old:
        old.execute("ATTACH ? AS cut", (str(target),))
        for table, condition in _conditions(begin_ns, end_ns).items():
            found = old.execute("SELECT sql FROM main.sqlite_master WHERE name = ?", (table,))
            for (schema,) in found.fetchall():
                old.execute(schema.replace(f"CREATE TABLE {table}", f"CREATE TABLE cut.{table}"))
                old.execute(f"INSERT INTO cut.{table} SELECT * FROM main.{table} WHERE {condition}")
        for table in _WORK:
            known = f"SELECT correlationId FROM cut.{_CALLS}"
            lost = f"SELECT count(*) FROM cut.{table} WHERE correlationId NOT IN ({known})"
            if old.execute(lost).fetchone() != (0,):
                raise SystemExit(f"{table}: work is within the time, and its call is not")
        old.commit()


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=Path)
    parser.add_argument("begin_ns", type=int)
    parser.add_argument("end_ns", type=int)
    parser.add_argument("target", type=Path)
    options = parser.parse_args()
    _cut(options.source, options.begin_ns, options.end_ns, options.target)


if __name__ == "__main__":
    _main()
