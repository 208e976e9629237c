"""Every source includes what it uses of the precompiled headers, which would hide that it does not.

Builds without precompiled headers (the preset asan, other people's builds) fail otherwise, and the
release build does not show it. A header counts if the source includes it, or a header of the
project that the source includes does.
"""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (
    *("benchmarks", "comm", "device", "docs/examples", "fixtures", "interface"),
    *("kernels", "launcher", "program", "ranks", "report", "tests", "workload"),
)
CODE = {".h", ".cc", ".cu", ".cuh"}
# Names that tell of a header's use; and other headers that contain it.
NAMES = {
    "algorithm": r"std::(ranges::\w+|(max|min|clamp|sort|copy_n|fill_n|any_of|all_of|none_of"
    r"|max_element|min_element|nth_element|count_if|find_if|transform)\()",
    "array": r"std::(array|to_array)\b",
    "chrono": r"std::chrono\b",
    "functional": r"std::(function|hash|plus|multiplies|less|greater|reference_wrapper|ref)\b",
    "map": r"std::(multi)?map\b",
    "memory": r"std::(unique_ptr|shared_ptr|weak_ptr|make_unique|make_shared)\b",
    "optional": r"std::(optional|nullopt)\b",
    "span": r"std::span\b",
    "string": r"std::(string|to_string|stoi|getline)\b",
    "vector": r"std::vector\b",
    "fmt/core.h": r"fmt::(format|print)\b",
    "gtest/gtest.h": r"\b(TEST|TEST_F|TEST_P|EXPECT_EQ|ASSERT_EQ)\(",
}
CONTAINED_IN = {"fmt/core.h": {"fmt/format.h"}, "gtest/gtest.h": {"gmock/gmock.h"}}

NOT_CODE = re.compile(r'//.*|"(\\.|[^"\\])*"')


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def reached(path: Path, seen: set[Path]) -> set[str]:
    """Return the headers of other projects that a source includes, itself or by ours."""
    seen.add(path)
    found = set(re.findall(r"^ *#include <(.+)>", text_of(path), re.MULTILINE))
    for name in re.findall(r'^ *#include "(.+)"', text_of(path), re.MULTILINE):
        for ours in (ROOT / name, path.parent / name):
            if ours.exists() and ours not in seen:
                found |= reached(ours, seen)
    return found


def lacking(path: Path) -> list[str]:
    code = NOT_CODE.sub("", text_of(path))
    there = reached(path, set())
    return [
        f"{path.relative_to(ROOT)}: <{header}> for {used[0]}"
        for header, names in NAMES.items()
        if there.isdisjoint({header} | CONTAINED_IN.get(header, set()))
        and (used := re.search(names, code))
    ]


def test_every_precompiled_header_is_known() -> None:
    lists = text_of(ROOT / "cmake/tiers.cmake") + text_of(ROOT / "tests/CMakeLists.txt")
    (named,) = re.findall(r"foreach\(header IN ITEMS ([^$]*)\$", lists)
    more = re.findall(r"overlapbench_precompile\(\w+ ([\w/]+\.h)\)", lists)
    assert {*named.split(), *more} == NAMES.keys()


@pytest.mark.parametrize("folder", FOLDERS)
def test_sources_include_what_they_use(folder: str) -> None:
    paths = [path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in CODE]
    assert paths
    assert [line for path in paths for line in lacking(path)] == []
