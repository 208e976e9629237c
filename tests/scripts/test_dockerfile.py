"""The Dockerfile, without building it: it names what CMake and tools/setup.sh name."""

import json
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Not needed for the image's build: for tests, for the revision (an argument), and for running.
NOT_TO_BUILD = {"libgtest-dev", "git", "openmpi-bin"}


def stages() -> list[list[tuple[str, str]]]:
    """Return the instructions of each stage, with their arguments."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.M)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    made: list[list[tuple[str, str]]] = [[]]
    for line in filter(None, lines):
        instruction, _, arguments = line.partition(" ")
        if instruction == "FROM":
            made.append([])
        made[-1].append((instruction, arguments))
    return made[1:]


def ran(stage: list[tuple[str, str]]) -> str:
    return "\n".join(arguments for instruction, arguments in stage if instruction == "RUN")


def packages(stage: list[tuple[str, str]]) -> set[str]:
    (installed,) = re.findall(r"apt-get install -y --no-install-recommends (.*?) &&", ran(stage))
    return {*installed.split()}


def needed() -> dict[str, str]:
    """Return what tools/setup.sh needs for a build: the package of each command and header."""
    script = '. tools/setup.sh; printf %s "$needs"'
    done = subprocess.run(
        ["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("build ")]
    return {name: package for _, _, name, package in rows}


def test_it_builds_what_cmake_has() -> None:
    build, _ = map(ran, stages())
    presets = json.loads((ROOT / "CMakePresets.json").read_text(encoding="utf-8"))
    lists = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    (configured,) = re.findall(r"cmake --preset (\S+)", build)
    (built,) = re.findall(r"cmake --build --preset (\S+)", build)
    (folder,) = re.findall(r"cmake --install (\S+)", build)
    (configure,) = (one for one in presets["configurePresets"] if one["name"] == configured)
    (preset,) = (one for one in presets["buildPresets"] if one["name"] == built)
    assert preset["configurePreset"] == configured
    assert configure.get("binaryDir", "build/${presetName}").endswith(("${presetName}", folder))
    assert Path(folder).name == configured
    (target,) = re.findall(r"--target (\S+)", build)
    assert f"add_custom_target({target} " in lists
    for option in re.findall(r"-D(OVERLAPBENCH_\w+)=", build):
        assert re.search(rf"\b{option}\b", lists), option


def test_the_program_is_where_it_was_installed() -> None:
    build, run = stages()
    (prefix,) = re.findall(r"cmake --install \S+ --prefix (\S+)", ran(build))
    (copied,) = (arguments for instruction, arguments in run if instruction == "COPY")
    assert copied == f"--from=build {prefix}/bin/overlapbench /usr/local/bin/"
    assert any(arguments.endswith(" AS build") for _, arguments in build[:1])


def test_it_does_not_run_as_root() -> None:
    run = stages()[-1]
    users = [arguments for instruction, arguments in run if instruction == "USER"]
    assert len(users) == 1
    assert int(users[0]) > 0
    assert f"useradd --create-home --uid {users[0]} " in ran(run)
    after = run[run.index(("USER", users[0])) :]
    assert not any(instruction in ("RUN", "COPY") for instruction, _ in after)


def test_its_packages_are_those_of_the_setup() -> None:
    build, run = map(packages, stages())
    assert build == {*needed().values()} - NOT_TO_BUILD
    assert needed()["mpirun"] in run
    # Each library that the program is linked to, without the headers.
    linked = {name.removesuffix("-dev") for name in build if name.startswith("lib")} - {
        "libopenmpi"
    }
    assert linked == {re.sub(r"[\d.]+$", "", name) for name in run if name.startswith("lib")}


def test_the_revision_is_an_argument_that_the_build_reads() -> None:
    build = stages()[0]
    names = [a.partition("=")[0] for instruction, a in build if instruction == "ARG"]
    script = (ROOT / "cmake/git_revision.cmake").read_text(encoding="utf-8")
    assert names == ["OVERLAPBENCH_REVISION"]
    assert "$ENV{OVERLAPBENCH_REVISION}" in script
    order = [instruction for instruction, _ in build]
    assert order.index("ARG") < max(i for i, one in enumerate(order) if one == "RUN")
