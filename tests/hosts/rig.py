"""Two hosts imitated on one machine, joined by one cable, and the jobs that run on them.

A host is a set of Linux namespaces, with a network, a name, processes, shared memory, /tmp and a
clock of its own. Each has a real sshd. On request, a real Slurm runs on both. They share the folder
/run/shared, which holds this checkout, its build, and a folder for each job.

Nothing of this has a name outside the namespaces, so several rigs may exist at once. They live as
long as the first process of each host, which the kernel kills when the process that made the rig
ends, for whatever reason: processes, mounts, devices and files then vanish by themselves. Needs
root, and the packages of the group `hosts` in tools/setup.sh.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from drill.job import RESULT, Ended

HERE = Path(__file__).resolve().parent
SHARED = "/run/shared"
BENCH = (f"{SHARED}/checkout/bench", f"--binary={SHARED}/build/overlapbench")
PROGRAM = f"{SHARED}/build/overlapbench"
MUNGE_FILES = ("key", "log", "pid", "seed")
# The clock of node2 is ahead by this.
SKEW_S = 5000
# How long processes and files may take to disappear after the end of a job.
GRACE_S = 15.0
_DIES_WITH_US = ("setpriv", "--pdeathsig", "KILL")
_SPACES = ("--mount", "--uts", "--ipc", "--net", "--pid", "--time")
_ENVIRONMENT = (
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    *("HOME=/root", f"SLURM_CONF={SHARED}/slurm/slurm.conf"),
    *("OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"),
)


def await_true(condition: Callable[[], bool], what: str, limit_s: float = 90) -> None:
    """Poll until the condition holds."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not after {limit_s:g} s")
        time.sleep(0.05)


@dataclass(frozen=True)
class Host:
    """One imitated host."""

    name: str
    init: int  # its first process, as seen from outside

    def command(self, *words: str, folder: str = "") -> list[str]:
        """Return the command that runs `words` there, in a folder of the shared one."""
        enter = ("nsenter", "--target", str(self.init), *_SPACES)
        run = ("env", "--ignore-environment", "--default-signal", f"--chdir={SHARED}/{folder}")
        return [*_DIES_WITH_US, *enter, *run, *_ENVIRONMENT, *words]

    def run(self, *words: str, folder: str = "", check: bool = True, limit_s: float = 90) -> str:
        """Run a command there and return its standard output."""
        command = self.command(*words, folder=folder)
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=check,
            timeout=limit_s,
        ).stdout  # fmt: skip

    def ip(self, *words: str) -> str:
        """Run ip in its network."""
        command = ["nsenter", "--target", str(self.init), "--net", "ip", *words]
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout

    def processes(self) -> dict[int, str]:
        """Return the processes there, as numbered outside, with their names."""
        space = Path(f"/proc/{self.init}/ns/pid").stat().st_ino
        found = {}
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                with contextlib.suppress(OSError):  # it has ended meanwhile
                    if (folder / "ns/pid").stat().st_ino == space:
                        found[int(folder.name)] = _living(folder)
        return {pid: name for pid, name in found.items() if name}

    def things(self) -> set[str]:
        """Describe what a job may leave there."""
        root = f"/proc/{self.init}/root"
        found = {f"{self.name}: {name} ({pid})" for pid, name in self.processes().items()}
        for top in ("/tmp", "/dev/shm"):
            # Unlike Path.rglob, it passes over a folder that vanishes meanwhile.
            for folder, folders, files in os.walk(root + top):
                place = f"{self.name}: {folder.removeprefix(root)}"
                found |= {f"{place}/{name}" for name in (*folders, *files)}
        return found


def _remove(path: Path) -> None:
    """Remove what is there; a process that has not ended yet may write or remove meanwhile."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _living(folder: Path) -> str:
    """Return the name of a process; "" if it has ended and waits for its parent."""
    name, _, numbers = (folder / "stat").read_text().partition("(")[2].rpartition(")")
    return "" if numbers.split()[0] == "Z" else name


def environment(pid: int) -> list[bytes]:
    """Return the environment of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


@dataclass
class Job:
    """A command that runs on a host, in a folder of its own that both see."""

    rig: "Rig"
    name: str
    process: "subprocess.Popen[str]"
    before: set[str]
    started: float = field(default_factory=time.monotonic)

    @property
    def folder(self) -> Path:
        return self.rig.path(self.name)

    def read(self, name: str) -> str:
        """Return what is in a file of the job; "" if there is none."""
        try:
            return (self.folder / name).read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def await_rows(self, count: int = 2, limit_s: float = 90) -> None:
        def enough() -> bool:
            rows = max(self.read(f"{RESULT}{end}").count('"real_time"') for end in ("", ".partial"))
            assert not self.process.poll(), f"it has ended: {self.read('err')}"
            return rows >= count

        await_true(enough, f"{count} rows", limit_s)

    def find(self, name: str, host: int, rank: int | None = None) -> list[int]:
        """Return the processes of that name, and of that rank, on a host."""
        pids = [pid for pid, comm in self.rig.hosts[host].processes().items() if comm == name]
        if rank is None:
            return pids
        wanted = {f"{key}={rank}".encode() for key in ("OMPI_COMM_WORLD_RANK", "PMIX_RANK")}
        return [pid for pid in pids if wanted & set(environment(pid))]

    def end(self, limit_s: float, grace_s: float = GRACE_S) -> Ended:
        """Wait until that time after the start for the end, then for what is left to disappear."""
        status: int | None
        try:
            status = self.process.wait(max(0.0, limit_s - (time.monotonic() - self.started)))
        except subprocess.TimeoutExpired:
            status = None
        seconds = time.monotonic() - self.started
        deadline = time.monotonic() + grace_s
        while (left := self.rig.things() - self.before) and time.monotonic() < deadline:
            time.sleep(0.1)
        files = {
            file.name: self.read(file.name) for file in self.folder.iterdir() if file.is_file()
        }
        stdout, stderr = files.pop("out"), files.pop("err")
        return Ended(status, seconds, stdout, stderr, files, sorted(left))

    def clean(self) -> None:
        """End what is left, so that the next test finds the hosts as this one did."""
        self.process.kill()
        self.process.wait()
        for host in self.rig.hosts:
            for pid, name in host.processes().items():
                if f"{host.name}: {name} ({pid})" not in self.before:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            for folder in ("tmp", "dev/shm"):
                for file in Path(f"/proc/{host.init}/root/{folder}").iterdir():
                    _remove(file)
        _remove(self.folder)


@dataclass
class Rig:
    """Two hosts and their cable."""

    hosts: tuple[Host, Host]
    jobs: int = 0

    def path(self, name: str) -> Path:
        """Return a file of the shared folder, as seen from outside."""
        return Path(f"/proc/{self.hosts[0].init}/root{SHARED}") / name

    def things(self) -> set[str]:
        return self.hosts[0].things() | self.hosts[1].things()

    @contextlib.contextmanager
    def start(self, *words: str, **files: str) -> Iterator[Job]:
        """Start a command on node1, with files in its folder."""
        self.jobs += 1
        name = f"job{self.jobs}"
        folder = self.path(name)
        folder.mkdir()
        for file, text in files.items():
            (folder / file).write_text(text, newline="")
        before = self.things()
        with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
            process = subprocess.Popen(
                self.hosts[0].command(*words, folder=name),
                stdin=subprocess.DEVNULL, stdout=out, stderr=err, text=True, start_new_session=True,
            )  # fmt: skip
        job = Job(self, name, process, before)
        try:
            yield job
        finally:
            job.clean()

    def run(self, *words: str, limit_s: float = 90, **files: str) -> Ended:
        """Run a command on node1 to its end."""
        with self.start(*words, **files) as job:
            return job.end(limit_s)

    @contextlib.contextmanager
    def unplugged(self) -> Iterator[None]:
        """Cut the cable."""
        self.hosts[0].ip("link", "set", "cable", "down")
        try:
            yield
        finally:
            self.hosts[0].ip("link", "set", "cable", "up")

    @contextlib.contextmanager
    def filtering(self, rule: str, host: int = 1) -> Iterator[None]:
        """Let a host's network apply a rule of nftables to what comes in."""
        nft = ["nsenter", "--target", str(self.hosts[host].init), "--net", "nft"]
        table = f"table inet rig {{\nchain in {{\ntype filter hook input priority 0; {rule}\n}}\n}}"
        subprocess.run([*nft, table], check=True)
        try:
            yield
        finally:
            subprocess.run([*nft, "delete table inet rig"], check=True)

    @contextlib.contextmanager
    def slow_cable(self, delay_ms: float, loss: float) -> Iterator[None]:
        """Replace the cable by one with that delay, each way, and loss."""
        pids = [str(host.init) for host in self.hosts]
        command = [*_DIES_WITH_US, sys.executable, str(HERE / "slow_cable.py"), *pids]
        with subprocess.Popen(
            [*command, str(delay_ms), str(loss)], stdout=subprocess.PIPE, text=True
        ) as cable:
            try:
                _await_up(cable.stdout)
                self._plug("cable", "slow")
                yield
            finally:
                cable.kill()
                self._plug("slow", "cable")

    def _plug(self, old: str, new: str) -> None:
        for number, host in enumerate(self.hosts, start=1):
            with contextlib.suppress(subprocess.CalledProcessError):  # the device may be gone
                host.ip("addr", "flush", "dev", old)
            host.ip("addr", "add", f"10.77.0.{number}/24", "dev", new)
            host.ip("link", "set", new, "up")

    def start_slurm(self) -> None:
        """Start Slurm's daemons, and wait until both nodes can be used."""
        for folder in ("ctl", "node1", "node2"):
            self.path(f"slurm/{folder}").mkdir(parents=True)
        shutil.copy(HERE / "slurm.conf", self.path("slurm"))
        self.path("slurm/cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        self.path("slurm/key").write_bytes(os.urandom(1024))
        folder = "/run/munge"
        munged = ["munged", *(f"--{name}-file={folder}/{name}" for name in MUNGE_FILES)]
        for host in self.hosts:
            host.run("install", "-o", "munge", "-m", "400", f"{SHARED}/slurm/key", f"{folder}/key")
            host.run("setpriv", "--reuid=munge", "--regid=munge", "--clear-groups", *munged)
        self.hosts[0].run("slurmctld", "-c")
        for host in self.hosts:
            host.run("slurmd", "-N", host.name)
        state = ("sinfo", "--noheader", "--format=%D %T")
        await_true(lambda: self.hosts[0].run(*state, check=False) == "2 idle\n", "Slurm starts")


def _await_up(output: IO[str] | None) -> None:
    assert output is not None
    if output.readline() != "up\n":
        raise RuntimeError("it did not start; the reason is on standard error")


def _start_host(name: str, within: int | None, *folders: Path) -> "subprocess.Popen[str]":
    """Start a host; `within` is a process whose mounts it inherits."""
    skew_s = str(SKEW_S if within else 0)
    # Its mounts include /proc, where unshare would not find itself.
    inherit = ("nsenter", "--target", str(within), "--mount", "unshare", "--mount-proc")
    clock = ("--monotonic", skew_s, "--boottime", skew_s)
    unshare = ("unshare", *_SPACES, *clock, "--fork", "--kill-child", "--mount-proc")
    # A host has its own /tmp, where it would not find a checkout.
    folder = Path(f"{SHARED}/checkout/tests/hosts") if within else HERE
    script = ("bash", str(folder / "host.sh"))
    process = subprocess.Popen(
        [*_DIES_WITH_US, *(inherit if within else ()), *unshare, *script, name, *map(str, folders)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        _await_up(process.stdout)
    except BaseException:
        process.kill()
        raise
    return process


@contextlib.contextmanager
def two_hosts(checkout: Path, build: Path) -> Iterator[Rig]:
    """Imitate two hosts that have these folders; end all that runs there at the end."""
    hosts: list[Host] = []
    with contextlib.ExitStack() as clean_up:
        for name, folders in (("node1", (checkout, build)), ("node2", ())):
            within = hosts[0].init if hosts else None
            process = clean_up.enter_context(_start_host(name, within, *folders))
            clean_up.callback(process.kill)
            (init,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            hosts.append(Host(name, int(init)))
        rig = Rig((hosts[0], hosts[1]))
        ends = [("cable", "netns", str(host.init)) for host in hosts]
        link = ["ip", "link", "add", *ends[0], "type", "veth", "peer", "name", *ends[1]]
        subprocess.run(link, check=True)
        for number, host in enumerate(hosts, start=1):
            host.ip("addr", "add", f"10.77.0.{number}/24", "dev", "cable")
            for device in ("lo", "cable"):
                host.ip("link", "set", device, "up")
        yield rig


def result(ended: Ended) -> dict[str, Any]:
    """Return the result of a job; empty if it has none."""
    assert RESULT in ended.files, ended.stderr
    loaded: dict[str, Any] = json.loads(ended.files[RESULT])
    return loaded


def last_line(ended: Ended) -> str:
    """Return the last line on stderr, but for the number of rows kept and the launcher's frames."""
    lines = [line for line in ended.stderr.splitlines() if line.strip("-")]
    return next((line for line in reversed(lines) if not re.match(r"\S+: kept \d+", line)), "")
