"""The grammar of benchmark names: what is read, what is refused, and that nothing gets lost."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlapbench.reading.names import BenchmarkName, chooser, family_of, part_name, spell_sizes

PAIRS = ("Overlap", "Priority", "Lab/Partition", "Lab/Matrix", "Lab/Attribution")
SINGLES = ("Lab/Link", "Lab/Knee", "Pp/GPipe", "Pp/OneFOneB", "Pp/Interleaved")

_words = st.from_regex(r"[A-Z][A-Za-z0-9]{0,11}", fullmatch=True)
_keys = st.from_regex(r"[a-z][a-z0-9_]{0,9}", fullmatch=True).filter(
    lambda key: key not in {"iterations", "repeats", "threads"}
)
_values = st.from_regex(r"[A-Za-z0-9.:+-]{1,12}", fullmatch=True)
_families = st.one_of(_words, st.tuples(_words, _words).map("/".join)).filter(
    lambda family: family not in {*PAIRS, *SINGLES, "Lab/Triple"}
)
_axes = st.lists(st.tuples(_keys, _values), max_size=6, unique_by=lambda axis: axis[0])
_names = st.one_of(
    st.builds(BenchmarkName, st.sampled_from(PAIRS), st.tuples(_words, _words), _axes.map(tuple)),
    st.builds(
        BenchmarkName,
        st.sampled_from(("Overlap", "Lab/Triple")),
        st.tuples(_words, _words, _words),
        _axes.map(tuple),
    ),
    st.builds(BenchmarkName, st.sampled_from(SINGLES), st.tuples(_words), _axes.map(tuple)),
    st.builds(
        BenchmarkName,
        _families,
        st.one_of(st.tuples(_words), st.tuples(_words, _words)),
        _axes.map(tuple),
    ),
)
_SUFFIXES = (
    "iterations:10",
    "manual_time",
    "min_time:0.500",
    "min_warmup_time:1.000",
    "process_time",
    "real_time",
    "repeats:3",
    "threads:2",
)


@given(_names)
def test_writing_and_parsing_are_inverses(name: BenchmarkName) -> None:
    parsed = BenchmarkName.parse(str(name))
    assert parsed == name == str(name)
    parts = (parsed.family, parsed.workloads, parsed.axes)
    assert parts == (name.family, name.workloads, name.axes)


@given(_names, st.lists(st.sampled_from(_SUFFIXES), max_size=4))
def test_suffixes_of_google_benchmark_are_not_part_of_a_name(
    name: BenchmarkName, suffixes: list[str]
) -> None:
    assert BenchmarkName.parse("/".join((str(name), *suffixes))) == name


@given(_names)
def test_a_names_text_tells_its_family(name: BenchmarkName) -> None:
    words, axes = part_name(str(name))
    assert words == [*name.family.split("/"), "+".join(name.workloads)]
    assert axes == [f"{axis}:{value}" for axis, value in name.axes]
    assert family_of(str(name)) == name.family


@pytest.mark.parametrize(
    ("text", "words", "family"),
    [
        ("BM_Memcpy", ["BM_Memcpy"], "BM_Memcpy"),
        ("BM_Memcpy/8/64", ["BM_Memcpy"], "BM_Memcpy"),
        ("BM_Sort/8/repeats:2", ["BM_Sort"], "BM_Sort"),
        ("BM_Memcpy/real_time", ["BM_Memcpy", "real_time"], "BM_Memcpy"),
        ("8/bytes:1", [], "8"),
        ("", [], ""),
    ],
)
def test_a_foreign_name_has_a_family_too(text: str, words: list[str], family: str) -> None:
    assert part_name(text)[0] == words
    assert family_of(text) == family
    name = BenchmarkName.foreign(text)
    assert (name, name.family, name.workloads, name.axes) == (text, family, (), ())


@given(st.text())
def test_parting_loses_nothing(text: str) -> None:
    words, axes = part_name(text)
    assert "/".join((*words, *axes)) == text


@given(st.text())
def test_any_text_is_a_name_or_a_value_error(text: str) -> None:
    try:
        name = BenchmarkName.parse(text)
    except ValueError:
        return
    assert text.startswith(str(name))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not Family/Workload"),
        ("Overlap", "'Overlap' is not Family/Workload/axis:value/..."),
        ("Comm/repeats:3", "is not Family/Workload"),
        ("Comm/All Reduce", "'All Reduce' is not the name of a family or a workload"),
        ("Comm/A_b", "'A_b' is not the name"),
        ("Comm/A/n", "'n' is not axis:value"),
        ("Comm/A/N:1", "'N:1' is not axis:value"),
        ("Comm/A+B+C", "Comm takes 1 or 2 workloads, not 'A+B+C'"),
        ("Overlap/AllToAll", "Overlap takes 2 or 3 workloads, not 'AllToAll'"),
        ("Overlap/AllToAll+", "'' is not the name"),
        ("Priority/ShortBlocks", "Priority takes 2 workloads, not 'ShortBlocks'"),
        ("Overlap/A+B+C+D", "Overlap takes 2 or 3 workloads, not 'A+B+C+D'"),
        ("Lab/Triple/A+B", "Lab/Triple takes 3 workloads, not 'A+B'"),
        ("Lab/Link/A+B", "Lab/Link takes 1 workload, not 'A+B'"),
        ("Lab/Matrix/AllGather", "Lab/Matrix takes 2 workloads, not 'AllGather'"),
        ("Lab/Link/Broadcast/Gemm/bytes:1", "'Gemm' is not axis:value"),
        ("Lab Notes/Link/Broadcast", "'Lab Notes' is not the name"),
        ("Comm/AllReduce/8192", "'8192' is not axis:value"),
        ("Comm/AllReduce/bytes:", "'bytes:' is not axis:value"),
        ("Comm/AllReduce/bytes:1/bytes:2", "axis 'bytes' is given twice"),
    ],
)
def test_malformed_names_are_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        BenchmarkName.parse(text)


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("Comm/AllToAll/bytes:64M/cache:cold", "Comm/AllToAll/bytes:67108864/cache:cold"),
        ("*bytes:1G*", "*bytes:1073741824*"),
        ("bytes:(4K|67108864)$", "bytes:(4096|67108864)$"),
        ("matrix_bytes:2G", "matrix_bytes:2147483648"),
        ("n:64Max/16x16K/B2M/tf32", "n:64Max/16x16K/B2M/tf32"),
        ("64MB x64M _64M 64m 1234567890K", "64MB x64M _64M 64m 1234567890K"),
        ("123456789K/0K", f"{123456789 << 10}/0"),
    ],
)
def test_sizes_are_found_in_either_form(text: str, spelled: str) -> None:
    assert spell_sizes(text) == spelled
    assert spell_sizes(spelled) == spelled


PAIR = "Overlap/AllReduce+Gemm/bytes:67108864/n:4096"


@pytest.mark.parametrize(
    ("expression", "chosen"),
    [
        ("", True),
        ("AllReduce.Gemm", True),
        ("^AllReduce", False),
        ("AllReduce+Gemm/bytes:64M", True),  # a part of the name, whose + is no operator
        ("AllReduce+Gemm/.*4K$", False),  # here it is one
        (r"AllReduce\+Gemm/.*4K$", True),
        ("bytes:(1M|64M)", True),
        ("allreduce", False),
        ("-Overlap", False),
        ("-Comm", True),
    ],
)
def test_names_are_chosen_as_by_benchmark_filter(expression: str, chosen: bool) -> None:
    assert chooser(expression)(PAIR) is chosen
    assert chooser(expression)(PAIR.replace("67108864", "64M")) is chosen
