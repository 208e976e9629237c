"""The command `overlapbench` and the scripts of tools/: one manual, one table, the same answers."""

import io
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

import fault_drill
import overlapbench
import samples
from overlapbench import cli, installation
from overlapbench.cli import command_line
from overlapbench.cli.command_line import COMMANDS
from overlapbench.judge.history import open_history
from overlapbench.judge.session import read_stored
from overlapbench.measurement.interface import MeasureError, load_library
from overlapbench.output import ResultError

Capture = pytest.CaptureFixture[str]
ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = {"benchmark_compare": "compare", "perf_gate": "gate", "slowdown_chart": "chart"}
# Modules that are slow to import, or missing in a Python without the packages.
HEAVY = {"altair", "jinja2", "numpy", "orjson", "rich", "scipy", "sqlite3", "vl_convert"}
SLOWEST_HELP_S = 0.3


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def help_of(capsys: Capture, *arguments: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        cli.main([*arguments, "--help"])
    assert stopped.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_help_tells_of_each_command_within_the_screen(
    columns: int, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    _, commands_told = help_of(capsys).split("commands:\n")
    assert max(map(len, commands_told.splitlines())) <= columns
    expected = " ".join(f"{name} {command_line.summary(name)}" for name in COMMANDS)
    assert commands_told.split() == expected.split()
    for name in COMMANDS:
        assert re.fullmatch(r"[A-Z].*\.", command_line.summary(name)), name


def test_a_command_has_one_name() -> None:
    """`overlapbench COMMAND`, in documents, manuals and messages; one table has them all."""
    texts = {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for folder, pattern in (("", "*.md"), ("docs", "**/*.md"), ("docs", "**/*.yml"),
                                ("docs", "**/*.py"), ("tools", "**/*.py"), ("dev", "**/*.py"))
        for path in (ROOT / folder).glob(pattern)
    }  # fmt: skip
    del texts["CHANGELOG.md"]
    scripts = re.compile(r"(?<!tests/)tools/(?!build_backend|torch_)\w+\.py")
    assert {
        name: scripts.findall(text) for name, text in texts.items() if scripts.search(text)
    } == {"docs/package.md": [f"tools/{script}.py" for script in SCRIPTS]}
    table = texts["docs/package.md"]
    rows = re.findall(r"^\| `overlapbench (\w+)` \|", table, re.MULTILINE)
    assert tuple(rows) == COMMANDS


def test_the_table_has_all_modules() -> None:
    folder = Path(command_line.__file__).parent
    modules = {path.stem for path in folder.glob("*.py") if "\n@command\n" in path.read_text()}
    assert {*COMMANDS} == modules


@pytest.mark.parametrize("name", sorted({*COMMANDS} - {"run"}))  # whose help is the program's
def test_each_command_has_a_manual(name: str, capsys: Capture) -> None:
    parser = command_line.load(name).make_parser(f"overlapbench {name}")
    assert parser.prog == f"overlapbench {name}"
    assert (parser.description or "").split() == command_line.summary(name).split()
    assert "Exit status" in (parser.epilog or "")
    assert f"overlapbench {name} " in (parser.epilog or "")


@pytest.mark.parametrize("script", SCRIPTS)
def test_an_older_script_is_its_command(script: str) -> None:
    path = samples.TOOLS / f"{script}.py"
    assert os.access(path, os.X_OK)
    done = subprocess.run(
        [sys.executable, path, "--help"], capture_output=True, text=True, check=True, cwd="/"
    )
    assert done.stdout.startswith(f"usage: overlapbench {SCRIPTS[script]} ")


def test_help_is_quick_and_imports_little() -> None:
    program = "import sys; from overlapbench import cli\ntry: cli.main(['--help'])\n"
    program += "except SystemExit: print(*sys.modules)"
    times_s = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONPATH": str(samples.TOOLS)},
            capture_output=True,
            text=True,
            check=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        # CPU time: a busy machine does not count.
        times_s.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert not HEAVY & {*done.stdout.splitlines()[-1].split()}
    assert min(times_s) < SLOWEST_HELP_S


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["nonsense"], "argument COMMAND: invalid choice: 'nonsense' (choose from"),
        (["--odd", "compare"], "unrecognized arguments: --odd"),
    ],
)
def test_usage_errors_have_status_2(arguments: list[str], complaint: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(arguments)
    assert stopped.value.code == 2
    assert f"overlapbench: error: {complaint}" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0", "1", "-2", "2.5", "two", ""])
def test_numbers_below_the_least_are_refused(text: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as stopped:
        fault_drill.main([f"--ranks={text}"])
    assert stopped.value.code == 2
    refusal = f"argument --ranks: {text!r} is not a whole number of at least 2\n"
    assert capsys.readouterr().err.endswith(refusal)


def test_a_command_gets_its_arguments_and_names_itself(tmp_path: Path, capsys: Capture) -> None:
    good = samples.write(
        tmp_path / "good.json", samples.document([samples.row("Compute/Gemm/n:1")])
    )
    assert cli.main(["compare", str(good), str(good)]) == 0
    assert cli.main(["compare", str(good), "missing.json"]) == 2
    error = capsys.readouterr().err
    assert (
        error == "overlapbench compare: missing.json: cannot be read: No such file or directory\n"
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_an_interruption_is_one_line(
    name: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_line.load(name), "make_parser", interrupt, raising=False)
    monkeypatch.setattr("subprocess.run", interrupt)  # what `run --help` begins with
    with pytest.raises(SystemExit) as stopped:
        cli.main([name, "--help"])
    assert stopped.value.code == 130
    assert capsys.readouterr().err == f"overlapbench {name}: interrupted\n"


def test_advice_names_what_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkout builds; an installed package is installed again."""
    assert installation.way_to_build() == "`./bench --build-only` builds it"
    monkeypatch.setattr(installation, "_PACKAGE", tmp_path / "site-packages/overlapbench")
    assert "bench" not in installation.way_to_build()
    with (
        pytest.raises(ResultError, match=r"yet: overlapbench history add creates it$"),
        open_history(tmp_path / "none"),
    ):
        pass
    with pytest.raises(ResultError, match=r"json; overlapbench gate baseline records one$"):
        read_stored(tmp_path)
    with pytest.raises(MeasureError, match=r"is missing: `pip install CHECKOUT .*` installs it;"):
        load_library(tmp_path / "none.so")


def interrupt(*_: object, **__: object) -> NoReturn:
    raise KeyboardInterrupt


def test_the_version_is_that_of_cmake(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["--version"])
    assert stopped.value.code == 0
    (version,) = re.findall(r"project\(\w+ VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())
    assert capsys.readouterr().out == f"overlapbench {version}\n"
    assert overlapbench.__version__ == version


@pytest.mark.parametrize(
    ("stream", "variables", "coloured"),
    [
        (Terminal, {}, True),
        (Terminal, {"NO_COLOR": "1"}, False),
        (Terminal, {"TERM": "dumb"}, False),
        (io.StringIO, {}, False),
    ],
)
def test_only_a_terminal_gets_colours(
    stream: type[io.StringIO],
    variables: dict[str, str],
    coloured: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    output = stream()
    monkeypatch.setattr(sys, "stdout", output)
    for name, value in ({"NO_COLOR": "", "TERM": "xterm"} | variables).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    assert ("\x1b[1m" in output.getvalue()) == coloured


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with its scripts, where nothing is built and no package is installed."""
    root = tmp_path / "checkout"
    shutil.copytree(samples.TOOLS, root / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("bench", "CMakeLists.txt"):
        (root / name).touch()
    return root


def bare(tools: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command with a Python that has no packages but that of the checkout."""
    command = [sys.executable, "-S", "-m", "overlapbench", *arguments]
    environment = os.environ | {"PYTHONPATH": str(tools)}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.parametrize("name", ["chart", "report", "timeline"])
def test_what_draws_has_help_without_the_packages_of_charts(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture, tmp_path: Path
) -> None:
    for package in ("jinja2", "markupsafe", "vl_convert"):
        monkeypatch.setitem(sys.modules, package, None)
    for module in ("page", "report.render"):
        monkeypatch.delitem(sys.modules, f"overlapbench.view.{module}", raising=False)
    with pytest.raises(SystemExit) as ended:
        cli.main([name, "--help"])
    assert (ended.value.code, capsys.readouterr().err) == (0, "")
    assert cli.main([name, "none.json", "-o", str(tmp_path / "a.html")]) == 2
    assert capsys.readouterr().err.endswith(
        "is not installed: pip install 'overlapbench[charts]'\n"
    )


@pytest.mark.parametrize("name", ["compare", "chart"])
def test_a_python_without_the_packages_names_them(name: str, checkout: Path) -> None:
    done = bare(checkout / "tools", name)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert re.match(rf"overlapbench {name}: package \w+ is not installed: pip install ", line)


def test_the_build_is_searched_for(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable, the package's own folder, and then the checkout."""
    for name in ("BINARY", "LIBRARY", "KERNELS"):
        monkeypatch.delenv(f"OVERLAPBENCH_{name}", raising=False)
    package = tmp_path / "site-packages/overlapbench"
    monkeypatch.setattr(installation, "_PACKAGE", package)
    monkeypatch.chdir(tmp_path)
    suite = package / "suite"
    built = Path("build/release")
    assert installation.binary_path() == suite / built / "overlapbench"
    (checkout / "docs").mkdir()
    monkeypatch.chdir(checkout / "docs")
    assert installation.binary_path() == checkout / built / "overlapbench"
    assert installation.bench_path(installation.binary_path()) == checkout / "bench"
    for root in (checkout, suite):
        (root / built).mkdir(parents=True)
        (root / built / "liboverlapbench.so").touch()
        assert installation.library_path() == root / built / "liboverlapbench.so"
    (suite / "bench").touch()
    assert installation.bench_path(installation.binary_path()) == checkout / "bench"
    assert installation.bench_path(Path("/elsewhere/overlapbench")) == suite / "bench"
    another = tmp_path / "another"
    monkeypatch.setattr(installation, "_PACKAGE", another / "tools/overlapbench")
    another.mkdir()
    for name in ("bench", "CMakeLists.txt"):
        (another / name).touch()
    assert installation.library_path() == another / built / "liboverlapbench.so"
    monkeypatch.setenv("OVERLAPBENCH_KERNELS", "/named.so")
    assert installation.kernels_path() == Path("/named.so")
