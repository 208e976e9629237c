"""Output: what is in the way is refused and left as it was, and nothing is left behind."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from overlapbench.output import ResultError, deliver, replace_file, require_file, require_folder


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir], ids=["a pipe", "a folder"])
def test_a_special_file_is_not_replaced(make: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "out"
    make(path)
    before = path.stat()
    complaint = f"^{path}: cannot be written: it exists and is not a regular file$"
    with pytest.raises(ResultError, match=complaint):
        require_file(path)
    with pytest.raises(ResultError, match=complaint):
        replace_file(path, b"x")
    assert path.stat() == before
    assert list(tmp_path.iterdir()) == [path]


def test_asking_whether_a_place_can_be_written_leaves_nothing(tmp_path: Path) -> None:
    require_file(tmp_path / "out")
    require_folder(tmp_path / "a/b/c")
    assert not any(tmp_path.iterdir())


def test_each_is_delivered_even_where_others_cannot_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {tmp_path / "a": b"1", tmp_path / "no/b": b"2", tmp_path / "c": b"3"}
    with pytest.raises(ResultError, match=f"^{tmp_path}/no/b: cannot be written: No such file"):
        deliver("text\n", files)
    assert capsys.readouterr().out == "text\n"
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"1", "c": b"3"}
