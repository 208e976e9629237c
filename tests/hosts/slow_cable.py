"""A cable with delay and loss between two network namespaces.

slow_cable.py PID PID DELAY_MS LOSS makes a TAP device `slow` in the namespace of each process, and
relays their frames, each DELAY_MS late, except for the share LOSS of them, which it drops. (Not
every kernel has sch_netem, which does the same.) Prints "up" once both devices exist; ends when it
is killed.
"""

import collections
import ctypes
import fcntl
import os
import random
import select
import struct
import sys
import time

_CLONE_NEWNET = 0x40000000
_TUNSETIFF = 0x400454CA
_IFF_TAP, _IFF_NO_PI = 0x0002, 0x1000
_FRAME_BYTES = 1 << 16


def _make_end(pid: int) -> int:
    space = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(space, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
    end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(end, _TUNSETIFF, struct.pack("16sH22x", b"slow", _IFF_TAP | _IFF_NO_PI))
    return end


def _relay(ends: tuple[int, int], delay_s: float, loss: float) -> None:
    queues: tuple[collections.deque[tuple[float, bytes]], ...]
    queues = (collections.deque(), collections.deque())  # what goes to each end, and when
    while True:
        dues = [queue[0][0] for queue in queues if queue]
        wait = max(0.0, min(dues) - time.monotonic()) if dues else None
        readable, _, _ = select.select(ends, (), (), wait)
        for end in readable:
            frame = os.read(end, _FRAME_BYTES)
            if random.random() >= loss:
                queues[1 - ends.index(end)].append((time.monotonic() + delay_s, frame))
        for end, queue in zip(ends, queues, strict=True):
            while queue and queue[0][0] <= time.monotonic():
                try:
                    os.write(end, queue.popleft()[1])
                except OSError:
                    continue  # the device is down, or its queue is full


def main() -> None:
    first, second, delay_ms, loss = sys.argv[1:]
    ends = (_make_end(int(first)), _make_end(int(second)))
    print("up", flush=True)
    _relay(ends, float(delay_ms) / 1000, float(loss))


if __name__ == "__main__":
    main()
