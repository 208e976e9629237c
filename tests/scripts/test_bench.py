"""./bench and ./check: what they install, build and start, and what they say (conftest.py)."""

import fcntl
import shutil
import threading
from pathlib import Path

import pytest
from tests.scripts.conftest import APT_GET, Outcome, World

LAUNCHERS = (
    {"OMPI_COMM_WORLD_RANK": "0"},
    {"PMIX_RANK": "1"},
    {"PMI_RANK": "0"},
    {"SLURM_STEP_ID": "0", "SLURM_PROCID": "3"},
)


@pytest.mark.parametrize(
    ("flags", "start"),
    [
        ([], "--start=bench --"),
        (["--backend", "host", "--ranks", "3"], "--start=bench --ranks=3 -- --backend=host"),
        (["--ranks=1024", "--x"], "--start=bench --ranks=1024 -- --x"),
        (["--hostfile", "/dev/null"], "--start=bench --hostfile=/dev/null --"),
    ],
)
def test_the_program_launches_its_ranks(world: World, flags: list[str], start: str) -> None:
    outcome = world.run("bench", *flags)
    assert (outcome.status, outcome.lines) == (0, [])
    assert outcome.starts() == [start]


def test_a_host_file_that_is_not_there_is_refused(world: World) -> None:
    outcome = world.run("bench", "--hostfile=missing")
    assert outcome.status == 2
    assert outcome.lines == ["bench: --hostfile: cannot read missing"]
    assert outcome.starts() == []


@pytest.mark.parametrize(
    ("flags", "passed_on"),
    [
        (["--benchmark_filter=A|B", "--axis=grid=1x1,2x2"], None),
        (["--axis", "grid=1x1", "--x"], ["--axis=grid=1x1", "--x"]),
        (["--name=two words", "", "*"], None),
        (["--ranks", "2", "--no-install", "--x"], ["--x"]),
        (
            ["--ranks=2", "--no_install", "--list-axes", "--benchmark-filter=a_b-c"],
            ["--list_axes", "--benchmark_filter=a_b-c"],
        ),
        (["--backend", "host", "--x"], ["--backend=host", "--x"]),
        (["--backend=host"], ["--backend=host"]),
        (["--ranks", "2", "--name", "two words"], ["--name", "two words"]),
    ],
)
def test_arguments_of_the_binary(
    world: World, flags: list[str], passed_on: list[str] | None
) -> None:
    expected = "".join(f"[{argument}]" for argument in passed_on or flags)
    assert world.run("bench", *flags).output == expected


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--ranks=two"], "--ranks takes a whole number from 1 to 1024, not 'two'"),
        (["--ranks", "0"], "--ranks takes a whole number from 1 to 1024, not '0'"),
        (["--ranks", "-1"], "--ranks takes a whole number from 1 to 1024, not '-1'"),
        (["--ranks", "1025"], "--ranks takes a whole number from 1 to 1024, not '1025'"),
        (["--ranks"], "--ranks needs a value; see --help"),
        (["--backend", "metal"], "unknown backend 'metal' (auto, cuda or host)"),
        (["--backend="], "unknown backend '' (auto, cuda or host)"),
    ],
)
def test_bad_flags(world: World, flags: list[str], complaint: str) -> None:
    outcome = world.run("bench", *flags)
    assert (outcome.status, outcome.lines) == (2, [f"bench: {complaint}"])
    assert outcome.calls("cmake") == []


@pytest.mark.parametrize("status", [0, 1, 2, 77])
def test_the_binary_decides_the_exit_status(world: World, status: int) -> None:
    assert world.run("bench", STATUS=str(status)).status == status


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_under_a_launcher_it_only_becomes_the_binary(
    world: World, launcher: dict[str, str]
) -> None:
    (world.bin / "ninja").unlink()
    outcome = world.run("bench", "--ranks=4", "--x", STATUS="3", **launcher)
    assert (outcome.status, outcome.output, outcome.lines) == (3, "[--x]", [])
    assert outcome.calls("cmake") == outcome.starts() == []


def test_under_a_launcher_it_never_builds(world: World) -> None:
    world.binary.unlink()
    outcome = world.run("bench", PMIX_RANK="0")
    assert outcome.status == 1
    assert outcome.lines == [f"bench: {world.binary} is not built; first run ./bench --build-only"]


@pytest.mark.parametrize("step", ["4294967290", "4294967291", "4294967294", ""])
def test_a_shell_inside_an_allocation_is_no_launched_rank(world: World, step: str) -> None:
    outcome = world.run("bench", SLURM_STEP_ID=step, SLURM_PROCID="0")
    assert len(outcome.starts()) == 1


def test_a_complete_machine_is_left_alone(world: World) -> None:
    world.fake(world.bin / "apt-get", APT_GET)
    outcome = world.run("bench", "--build-only")
    assert (outcome.status, outcome.lines, outcome.output) == (0, [], "")
    assert outcome.calls("apt-get") == outcome.calls("python3") == []
    assert outcome.calls("cmake") == [
        f"--build {world.binary.parent} --target overlapbench_and_libraries"
    ]


def test_a_run_does_not_wait_for_the_library_of_the_kernels(world: World) -> None:
    outcome = world.run("bench")
    assert outcome.calls("cmake") == [f"--build {world.binary.parent} --target overlapbench"]


def test_two_runs_do_not_set_up_at_once(world: World) -> None:
    with (world.repository / "build/setup.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        threading.Timer(0.5, fcntl.flock, (lock, fcntl.LOCK_UN)).start()
        outcome = world.run("bench", "--build-only")
    assert outcome.status == 0
    assert outcome.lines == ["bench: waiting for another run that is setting up or building"]


def test_help_neither_installs_nor_builds(world: World) -> None:
    (world.bin / "ninja").unlink()
    outcome = world.run("bench", "--help")
    assert outcome.status == 0
    assert "--no-install" in outcome.output
    assert outcome.output.endswith("the flags of the binary\n")
    assert max(map(len, outcome.output.splitlines())) <= 80
    world.binary.unlink()
    outcome = world.run("bench", "-h")
    assert outcome.status == 0
    assert outcome.output.startswith("usage: ./bench")


def test_version_neither_installs_nor_builds(world: World) -> None:
    (world.bin / "ninja").unlink()
    outcome = world.run("bench", "--version")
    assert (outcome.status, outcome.output) == (0, "the version of the binary\n")
    world.binary.unlink()
    outcome = world.run("bench", "--version")
    assert outcome.status == 1
    assert outcome.lines == [f"bench: {world.binary} is not built; first run ./bench --build-only"]


def test_a_missing_package_is_installed(world: World) -> None:
    (world.bin / "ninja").unlink()
    world.fake(world.bin / "apt-get", APT_GET)
    outcome = world.run("bench")
    assert outcome.status == 0
    assert outcome.lines[0].startswith("bench: installing packages: ninja-build (log: ")
    update, install = outcome.calls("apt-get")
    assert update.endswith("update")
    assert install.endswith("install ninja-build")


@pytest.mark.parametrize(
    ("flags", "environment"), [(["--no-install"], {}), ([], {"OVERLAPBENCH_NO_INSTALL": "1"})]
)
def test_no_install_names_missing_packages(
    world: World, flags: list[str], environment: dict[str, str]
) -> None:
    (world.bin / "ninja").unlink()
    (world.bin / "mpirun").unlink()
    world.fake(world.bin / "apt-get", APT_GET)
    outcome = world.run("bench", *flags, **environment)
    assert outcome.status == 1
    assert outcome.lines == [
        "bench: missing: ninja mpirun; install with: apt-get install ninja-build openmpi-bin"
    ]
    assert outcome.calls("apt-get") == outcome.calls("cmake") == []


QUESTION = "bench: install ninja-build with sudo apt-get? [y/N] "
NAMED = "bench: missing: ninja; install with: sudo apt-get install ninja-build"


@pytest.mark.parametrize(
    ("answer", "is_yes"), [("y", True), ("Yes", True), ("", False), ("n", False)]
)
def test_someone_at_a_terminal_is_asked_before_sudo(
    world: World, answer: str, is_yes: bool
) -> None:
    (world.bin / "ninja").unlink()
    world.fake(world.bin / "apt-get", APT_GET)
    outcome = world.answer(f"{answer}\n", "bench", USER_ID="1000")
    assert QUESTION in "\n".join(outcome.lines)
    assert outcome.lines[-1].endswith(NAMED) == (not is_yes)
    assert (outcome.status == 0) == is_yes
    assert bool(outcome.calls("apt-get")) == is_yes
    assert [call for call in outcome.calls("sudo") if call == "-v"] == ["-v"] * is_yes


def test_a_password_that_sudo_refuses_installs_nothing(world: World) -> None:
    (world.bin / "ninja").unlink()
    world.fake(world.bin / "apt-get", APT_GET)
    (world.bin / "sudo.fails").touch()
    outcome = world.answer("y\n", "bench", USER_ID="1000")
    assert outcome.status == 1
    assert outcome.lines[-1].endswith(NAMED)
    assert outcome.calls("apt-get") == []


# Nobody can answer there.
def test_without_a_terminal_the_command_is_named(world: World) -> None:
    (world.bin / "ninja").unlink()
    world.fake(world.bin / "apt-get", APT_GET)
    outcome = world.run("bench", USER_ID="1000")
    assert (outcome.status, outcome.lines) == (1, [NAMED])
    assert outcome.calls("sudo") == outcome.calls("apt-get") == []


@pytest.mark.parametrize("environment", [{"USER_ID": "1000", "CI": "true"}, {"USER_ID": "0"}])
def test_ci_and_root_are_not_asked(world: World, environment: dict[str, str]) -> None:
    (world.bin / "ninja").unlink()
    world.fake(world.bin / "apt-get", APT_GET)
    outcome = world.answer("n\n", "bench", **environment)
    assert (outcome.status, QUESTION in "\n".join(outcome.lines)) == (0, False)
    assert bool(outcome.calls("sudo")) == (environment["USER_ID"] != "0")


def test_nobody_is_asked_for_what_is_not_needed(world: World) -> None:
    outcome = world.answer("n\n", "bench", USER_ID="1000")
    assert (outcome.status, QUESTION in "\n".join(outcome.lines)) == (0, False)


def test_where_there_is_no_apt(world: World) -> None:
    (world.bin / "ninja").unlink()
    outcome = world.run("bench")
    assert outcome.status == 1
    assert outcome.lines == [
        "bench: missing: ninja; install them with this system's package manager "
        "(the Debian packages are: ninja-build)"
    ]


@pytest.mark.parametrize(
    ("fails", "reason"), [(True, "E: apt-get failed"), (False, "no reason given")]
)
def test_an_installation_that_brings_nothing(world: World, fails: bool, reason: str) -> None:
    (world.bin / "ninja").unlink()
    world.fake(world.bin / "apt-get")
    if fails:
        (world.bin / "apt-get.fails").touch()
    outcome = world.run("bench")
    assert outcome.status == 1
    assert len(outcome.lines) == 2
    assert outcome.lines[1].startswith("bench: missing: ninja; ")
    assert f"apt-get install ninja-build failed: {reason} (log: " in outcome.lines[1]
    assert outcome.calls("cmake") == []


def test_the_python_environment_is_made_once(world: World) -> None:
    shutil.rmtree(world.venv)
    outcome = world.run("bench")
    assert outcome.status == 0
    assert outcome.lines[0].startswith(f"bench: installing Python packages in {world.venv} (log: ")
    assert (world.venv / "made-from/requirements.txt").read_text() == "package==1.0\n"
    assert world.run("bench").lines == []


def test_an_environment_whose_python_is_gone_is_made_again(world: World) -> None:
    (world.venv / "bin/python").unlink()
    assert world.run("bench").status == 0
    assert (world.venv / "bin/python").exists()


def test_measuring_goes_on_without_python_packages(world: World) -> None:
    shutil.rmtree(world.venv)
    (world.bin / "pip.fails").touch()
    first, second = world.run("bench"), world.run("bench")
    assert first.status == second.status == 0
    assert "no charts" in first.lines[1]
    assert "No matching distribution found" in first.lines[1]
    assert second.lines[0] == (
        "bench: no charts: Python packages could not be installed; ./bench --build-only tries again"
    )
    assert second.calls("python3") == []
    assert not world.venv.exists()

    (world.bin / "pip.fails").unlink()
    assert world.run("bench", "--build-only").status == 0
    assert world.run("bench").lines == []


def test_charts_are_drawn_of_the_result_of_this_run_alone(world: World, tmp_path: Path) -> None:
    charts = tmp_path / "charts"
    charts.mkdir()
    (charts / "result.json").write_text("of an earlier run")
    listing = world.run("bench", "--charts", str(charts), "--list_axes")
    assert listing.status == 0
    assert listing.calls("python") == []

    world.fake(
        world.binary,
        'for flag; do [[ $flag != --benchmark_out=* ]] || echo new >"${flag#*=}"; done',
    )
    measuring = world.run("bench", "--backend=host", "--charts", str(charts))
    assert measuring.status == 0
    _, call = measuring.calls("python")  # after the findings
    assert call.endswith(f"-m overlapbench chart {charts}/result.json -o {charts}")


def test_a_failed_update_leaves_the_old_environment(world: World) -> None:
    (world.repository / "tools/requirements.txt").write_text("package==2.0\n")
    (world.bin / "pip.fails").touch()
    outcome = world.run("bench")
    assert outcome.status == 0
    assert (world.venv / "made-from/requirements.txt").read_text() == "package==1.0\n"
    assert (world.venv / "bin/ruff").exists()


def test_no_install_measures_without_python_packages(world: World) -> None:
    shutil.rmtree(world.venv)
    outcome = world.run("bench", "--no-install")
    assert outcome.status == 0
    assert outcome.lines[0] == (
        "bench: no charts: .venv is missing or out of date, and installing is turned off"
    )
    assert outcome.calls("python3") == []
    assert "installing" in world.run("bench").lines[0]


@pytest.mark.parametrize(
    ("file", "key"),
    [
        ("build.ninja", ""),
        ("CMakeCache.txt", "CMAKE_HOME_DIRECTORY"),
        ("CMakeCache.txt", "CMAKE_CACHEFILE_DIR"),
    ],
)
def test_configures_where_this_was_not_done_or_done_elsewhere(
    world: World, file: str, key: str
) -> None:
    directory = world.binary.parent
    content = (directory / file).read_text()
    (directory / file).unlink()
    if key:
        elsewhere = content.replace(f"{key}:INTERNAL=", f"{key}:INTERNAL=/elsewhere")
        (directory / file).write_text(elsewhere)
    outcome = world.run("bench")
    assert outcome.calls("cmake") == [
        f"--fresh -S {world.repository} --preset release -B {directory}",
        f"--build {directory} --target overlapbench",
    ]


def test_a_long_build_is_heard_of_now_and_then(world: World) -> None:
    world.fake(world.bin / "cmake", 'echo "[3/7] half of it"; read -rt 2 <> <(:) || :')
    outcome = world.run("bench", "--build-only", OVERLAPBENCH_TELL_S="0.5")
    assert outcome.status == 0
    assert 2 <= len(outcome.lines) <= 4
    assert set(outcome.lines) == {"bench: still at it: [3/7] half of it"}


def test_builds_where_it_is_told(world: World) -> None:
    outcome = world.run("bench", "--build-only", f"--build-dir={world.repository}/elsewhere")
    assert outcome.calls("cmake")[1] == (
        f"--build {world.repository}/elsewhere --target overlapbench_and_libraries"
    )


def test_a_failed_build_starts_nothing(world: World) -> None:
    (world.bin / "cmake.fails").touch()
    outcome = world.run("bench")
    assert outcome.status == 1
    assert outcome.lines == [
        "E: cmake failed",
        f"bench: the build failed (log: {world.binary.parent}/build.log)",
    ]
    assert outcome.starts() == []


def summary(outcome: Outcome) -> dict[str, str]:
    """Return each step of ./check with its verdict."""
    rows = [line.split() for line in outcome.output.splitlines()[:-1]]
    return {row[3]: row[0] for row in rows}


def test_check_counts_its_steps(world: World) -> None:
    outcome = world.run("check")
    assert outcome.status == 0
    assert set(summary(outcome).values()) == {"passed"}
    assert "--no-tests=error" in outcome.calls("ctest")[0]
    assert outcome.output.splitlines()[-1] == f"{len(summary(outcome))} passed, 0 failed, 0 skipped"


@pytest.mark.parametrize(
    ("tool", "step"),
    [
        ("bin/ctest", "ctest"),
        ("bin/shellcheck", "shellcheck"),
        ("repository/build/release/overlapbench", "end-to-end"),
        ("repository/.venv/bin/clang-format", "clang-format"),
        ("repository/.venv/bin/run-clang-tidy.py", "clang-tidy"),
        ("repository/.venv/bin/mypy", "mypy"),
    ],
)
def test_one_failing_step_fails_the_check_and_stops_no_other(
    world: World, tool: str, step: str
) -> None:
    (world.repository / "kernel.cc").touch()
    (world.bin.parent / f"{tool}.fails").touch()
    outcome = world.run("check")
    assert outcome.status == 1
    assert [name for name, verdict in summary(outcome).items() if verdict != "passed"] == [step]
    assert outcome.output.splitlines()[-1].endswith(" passed, 1 failed, 0 skipped")


def test_check_skips_steps_whose_tools_are_missing(world: World) -> None:
    shutil.rmtree(world.venv)
    offline = {"OVERLAPBENCH_NO_INSTALL": "1"}
    skipped = {
        name
        for name, verdict in summary(world.run("check", **offline)).items()
        if verdict == "skipped"
    }
    assert skipped == {"clang-format", "clang-tidy", "ruff", "ruff-format", "mypy"}
    assert world.run("check", **offline).status == 0

    in_ci = world.run(".ci/run", CI="true", **offline)
    assert in_ci.status == 1
    assert {name for name, verdict in summary(in_ci).items() if verdict == "failed"} == skipped


def test_check_tests_the_report_in_any_chromium_there_is(world: World, tmp_path: Path) -> None:
    (world.bin / "chromium").unlink()
    offline = {"OVERLAPBENCH_NO_INSTALL": "1"}
    outcome = world.run("check", **offline)
    assert summary(outcome)["browser"] == "skipped"
    assert "no Chromium" in outcome.output
    assert outcome.lines[0].startswith("check: missing: chromium; install them with")
    (tmp_path / ".cache/ms-playwright/chromium-1234").mkdir(parents=True)
    assert summary(world.run("check", HOME=str(tmp_path), **offline))["browser"] == "passed"


def test_check_quick_leaves_clang_tidy_out(world: World) -> None:
    outcome = world.run("check", "--quick")
    assert outcome.status == 0
    assert [name for name, verdict in summary(outcome).items() if verdict == "skipped"] == [
        "clang-tidy"
    ]


@pytest.mark.parametrize(
    ("changed", "read"),
    [
        ({}, [r"\.cc$"]),
        ({"CHANGED": "README.md"}, []),
        ({"CHANGED": "README.md a/b.cc tests/c.cc"}, ["/a/b.cc$|/tests/c.cc$"]),
        ({"CHANGED": "a/b.h a/b.cc"}, [r"\.cc$"]),
        ({"CHANGED": "CMakeLists.txt"}, [r"\.cc$"]),
    ],
)
def test_check_reads_the_sources_that_may_have_new_findings(
    world: World, changed: dict[str, str], read: list[str]
) -> None:
    def patterns(*command: str) -> list[str]:
        outcome = world.run(*command, **changed)
        assert outcome.status == 0
        return [call.split()[-1] for call in outcome.calls("run-clang-tidy.py")]

    assert patterns("check") == read
    assert patterns(".ci/run") == [r"\.cc$"]


def test_check_runs_the_sanitizers_when_asked_as_ci_does(world: World) -> None:
    assert not {"asan", "tsan"} & summary(world.run("check")).keys()
    for command in (("check", "--sanitizers"), (".ci/run",)):
        steps = summary(world.run(*command))
        assert steps["asan"] == steps["tsan"] == "passed"


def test_check_refuses_unknown_flags(world: World) -> None:
    outcome = world.run("check", "--fast")
    assert (outcome.status, outcome.output) == (2, "")
    assert outcome.lines == ["check: unknown flag '--fast'; ./check takes --quick or --sanitizers"]


def test_tuning_builds_and_starts_the_tuner(world: World) -> None:
    outcome = world.run(
        *("bench", "--backend", "host", "--tune", "A+B/bytes:1M", "A+C", "--ranks=3"),
        *(
            "--build-dir",
            str(world.binary.parent),
            "--runs",
            "4",
            "--",
            "--host_cores=2",
            "--backend=none",
        ),
    )
    assert outcome.status == 0
    assert len(outcome.calls("cmake")) == 1
    assert not outcome.starts()
    (call,) = outcome.calls("python")
    same = f"'--ranks=3' '--build-dir={world.binary.parent}' '--backend=host'"
    command = f"'{world.repository}/bench' '--no-build' {same}"
    assert call == (
        f"-P -m overlapbench tune --command {command} A+B/bytes:1M A+C"
        " --runs 4 -- --host_cores=2 --backend=none"
    )


def test_a_named_program_is_run_and_tuned_without_a_build(world: World) -> None:
    mine = world.binary.with_name("mine")
    world.binary.rename(mine)
    outcome = world.run("bench", "--binary", str(mine), "--backend=host", "--x")
    assert (outcome.status, outcome.output) == (0, "[--backend=host][--x]")
    assert not outcome.calls("cmake")
    (call,) = world.run("bench", f"--binary={mine}", "--tune", "A+B").calls("python")
    assert f"--command '{world.repository}/bench' '--no-build' '--binary={mine}' A+B" in call
    outcome = world.run("bench", f"--binary={mine.parent}")
    assert outcome.status == 1
    assert outcome.lines == [f"bench: --binary: {mine.parent} is missing or not executable"]
    assert world.run("bench", f"--binary={mine}", "--build-only").status == 2


def test_without_a_build_nothing_is_built_or_installed(world: World) -> None:
    outcome = world.run("bench", "--no-build", "--backend=host", "--x")
    assert outcome.status == 0
    assert outcome.output == "[--backend=host][--x]"
    assert not outcome.calls("cmake")
    world.binary.unlink()
    outcome = world.run("bench", "--no-build")
    assert outcome.status == 1
    assert outcome.lines[-1].endswith("is not built; first run ./bench --build-only")


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_tuning_is_not_for_one_rank_of_many(world: World, launcher: dict[str, str]) -> None:
    outcome = world.run("bench", "--tune", "A+B", **launcher)
    assert outcome.status == 2
    assert outcome.lines == ["bench: --tune starts the ranks itself: call it without a launcher"]


def test_tuning_draws_no_charts(world: World, tmp_path: Path) -> None:
    outcome = world.run("bench", "--tune", "A+B", "--charts", str(tmp_path / "charts"))
    assert outcome.status == 2
    assert outcome.lines == ["bench: --charts does not go with --tune; use --output FILE.json"]
    assert not outcome.calls("python")


@pytest.mark.parametrize("script", ["bench", "check"])
def test_a_symbolic_link_to_a_script_is_the_script(
    world: World, tmp_path: Path, script: str
) -> None:
    near = world.repository / "near"
    near.symlink_to(script)
    far = tmp_path / "elsewhere" / "far"
    far.parent.mkdir()
    far.symlink_to("../repository/near")
    outcome = world.run(str(far), "--help")
    assert (outcome.status, outcome.lines) == (0, [])
    assert outcome.output == world.run(script, "--help").output


def test_a_symbolic_link_to_bench_measures(world: World, tmp_path: Path) -> None:
    link = tmp_path / "measure"
    link.symlink_to(world.repository / "bench")
    outcome = world.run(str(link), "--backend=host", "--x")
    assert outcome.status == 0
    assert outcome.starts() == ["--start=measure -- --backend=host --x"]
    assert outcome.output == "[--backend=host][--x]"
