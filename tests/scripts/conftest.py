"""An environment of fakes: ./bench and ./check make their decisions with nothing installed.

Each test gets a copy of the scripts and a PATH of its own: the few system tools that the scripts
call, and fakes for everything that would install, build or start ranks. A fake writes its name and
arguments down; a file NAME.fails beside it makes it fail. A test takes things away and looks at
what was called, at the exit status and at every line that the user sees.
"""

import contextlib
import os
import pty
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What the scripts themselves call; everything else that they need is a fake.
SYSTEM_TOOLS = (
    *("bash", "cat", "chmod", "cmp", "cp", "dirname", "env", "find", "flock", "grep", "mkdir"),
    *("mv", "nproc", "realpath", "rm", "sed", "stat", "tail", "tee", "touch", "xargs"),
)
# What two imitated hosts need.
HOST_TOOLS = (
    *("ip", "unshare", "setpriv", "sshd", "ssh"),
    *("munged", "slurmctld", "slurmd", "srun", "nft"),
)
BUILD_TOOLS = ("g++", "cmake", "ninja", "git", "mpicxx")
CHECK_TOOLS = ("clang-format", "run-clang-tidy.py", "ruff", "mypy")
RECORD = """echo "${0##*/} $*" >>"$CALLS"
[[ ! -e $0.fails ]] || { echo "E: ${0##*/} failed"; exit 1; }"""
APT_GET = '[[ $* != *install* ]] || cp "$PATH/g++" "$PATH/ninja"'
GIT = """case $1 in
  merge-base) [[ ${CHANGED+set} ]] && echo base ;;
  diff) printf '%s\\n' $CHANGED ;;
esac"""
# As the program, which starts the ranks itself: it shows what it would pass on to them.
BINARY = """case $1 in
  --query=gpus) echo "$GPUS" ;;
  --version) echo "the version of the binary" ;;
  --help) echo "the flags of the binary" ;;
  --start=*)
    while [[ $1 != -- ]]; do
      [[ $1 != --done=* ]] || echo done >&"${1#*=}"
      shift
    done
    shift
    printf '[%s]' "$@"; exit "$STATUS" ;;
  *) printf '[%s]' "$@"; exit "$STATUS" ;;
esac"""
# Making an environment gives it a Python whose pip fails where the test says so.
PYTHON = """if [[ $2 == venv ]]; then
  mkdir -p "$3/bin" && cp "$0" "$3/bin/python"
elif [[ $2 == pip && -e $PATH/pip.fails ]]; then
  echo "ERROR: No matching distribution found"
  exit 1
fi"""


class World:
    """A copy of the scripts, complete: nothing is missing and everything is built."""

    def __init__(self, folder: Path) -> None:
        self.repository = folder / "repository"
        self.bin = folder / "bin"
        self.venv = self.repository / ".venv"
        self.binary = self.repository / "build/release/overlapbench"
        self.calls_file = folder / "calls"
        self.environment = {
            "PATH": str(self.bin),
            "CALLS": str(self.calls_file),
            "CMAKE_PREFIX_PATH": str(folder),
            "GPUS": "0",
            "STATUS": "0",
        }
        self._copy_scripts()
        self._make_system(folder)
        self._make_venv()
        self._make_build()

    def _copy_scripts(self) -> None:
        for name in ("bench", "check", ".ci/run", "tools/setup.sh", "dev/check_setup.sh"):
            (self.repository / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.repository / name)
        for name in ("requirements.txt", "requirements-dev.txt"):
            (self.repository / "tools" / name).write_text("package==1.0\n")

    def _make_system(self, folder: Path) -> None:
        self.bin.mkdir()
        for name in SYSTEM_TOOLS:
            found = shutil.which(name)
            assert found, f"these tests need {name}"
            (self.bin / name).symlink_to(found)
        for name in (*BUILD_TOOLS, *HOST_TOOLS, "ctest", "shellcheck", "chromium"):
            self.fake(self.bin / name)
        self.fake(self.bin / "git", GIT)
        self.fake(self.bin / "mpirun")
        self.fake(self.bin / "python3", PYTHON)
        self.fake(self.bin / "sudo", '[[ $1 == -v ]] || exec "$@"')
        self.fake(self.bin / "id", 'echo "${USER_ID:-0}"')
        for header in ("benchmark/benchmark.h", "gtest/gtest.h", "fmt/core.h"):
            (folder / "include" / header).parent.mkdir(parents=True)
            (folder / "include" / header).touch()

    def _make_venv(self) -> None:
        for name in ("python", "overlapbench", *CHECK_TOOLS):
            self.fake(self.venv / "bin" / name)
        shutil.copytree(
            self.repository / "tools",
            self.venv / "made-from",
            ignore=shutil.ignore_patterns("*.sh"),
        )

    def _make_build(self) -> None:
        self.fake(self.binary, BINARY)
        (self.binary.parent / "build.ninja").touch()
        (self.binary.parent / "CMakeCache.txt").write_text(
            f"CMAKE_HOME_DIRECTORY:INTERNAL={self.repository}\n"
            f"CMAKE_CACHEFILE_DIR:INTERNAL={self.binary.parent}\n"
        )

    def fake(self, path: Path, what: str = "") -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!{self.bin}/bash\n{RECORD}\n{what}\n")
        path.chmod(0o755)

    def run(self, command: str, *arguments: str, **environment: str) -> "Outcome":
        self.calls_file.write_text("")
        done = subprocess.run(
            [self.repository / command, *arguments],
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return Outcome(done, self.calls_file.read_text().splitlines())

    def answer(self, answer: str, command: str, **environment: str) -> "Outcome":
        """Run a command on a terminal where someone types an answer."""
        self.calls_file.write_text("")
        master, slave = pty.openpty()
        os.write(master, answer.encode())
        done = subprocess.run(
            [self.repository / command],
            env=self.environment | environment,
            stdin=slave,
            stdout=subprocess.PIPE,
            stderr=slave,
            text=True,
            timeout=60,
            check=False,
        )
        os.close(slave)
        said = b""
        with contextlib.suppress(OSError):  # the end
            while some := os.read(master, 4096):
                said += some
        os.close(master)
        done.stderr = said.decode()
        return Outcome(done, self.calls_file.read_text().splitlines())


class Outcome:
    """What a run of a script did: status, output, the user's lines, the fakes it called."""

    def __init__(self, done: subprocess.CompletedProcess[str], calls: list[str]) -> None:
        self.status = done.returncode
        self.output = done.stdout
        self.lines = done.stderr.splitlines()
        self._calls = calls

    def calls(self, name: str) -> list[str]:
        return [
            call.removeprefix(f"{name} ") for call in self._calls if call.startswith(f"{name} ")
        ]

    def starts(self, program: str = "overlapbench") -> list[str]:
        """Return what the program was asked to start, without the numbers of each run."""
        return [
            re.sub(r"--(parent|done)=\d+ ", "", call)
            for call in self.calls(program)
            if call.startswith("--start=")
        ]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path.resolve())
