"""What watching costs: the share of a core that ``gpumemprof live`` takes while a file grows.

    python bench/live_cost.py RECORDING [--rate 1000000] [--seconds 20] [--json]

A copy of the recording (``make_long_run`` writes one of any length) grows as if a program wrote so
many events per second. ``gpumemprof live`` watches it on a terminal of 80 columns; its CPU time
comes from the kernel. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import resource
import select
import struct
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path

from gpumemprof import _core

TICK_SECONDS = 0.1
LAST_LOOK_SECONDS = 1.0


def count_events(path: Path) -> int:
    run = _core.FollowedRun(str(path))
    report = json.loads(run.read(1 << 40, 1, 1))
    return sum(device["events"] for device in report["devices"])


def grow(source: Path, target: Path, bytes_per_second: float, seconds: float) -> tuple[int, float]:
    """Append as the clock goes; returns the bytes written and how long it took."""
    begin = time.monotonic()
    written = target.stat().st_size
    with source.open("rb") as whole, target.open("ab") as part:
        whole.seek(written)
        while (passed := time.monotonic() - begin) < seconds:
            due = int(passed * bytes_per_second) - written
            if due > 0:
                text = whole.read(due)
                if not text:
                    break
                part.write(text)
                part.flush()
                written += len(text)
            time.sleep(TICK_SECONDS)
    return written, time.monotonic() - begin


def drain(descriptor: int, is_done: threading.Event) -> None:
    while not is_done.is_set():
        if select.select([descriptor], [], [], 0.2)[0]:
            try:
                os.read(descriptor, 1 << 16)
            except OSError:
                return


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("recording", type=Path)
    parser.add_argument("--rate", type=float, default=1e6, help="events per second")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--json", action="store_true", help="watch with --json, without a screen")
    options = parser.parse_args()
    events, size = count_events(options.recording), options.recording.stat().st_size
    with tempfile.TemporaryDirectory() as folder:
        growing = Path(folder) / "growing.gmp"
        growing.write_bytes(options.recording.read_bytes()[: 1 << 16])
        words = [sys.executable, "-m", "gpumemprof", "live", str(growing)]
        words += ["--json", "--interval", "0.25"] if options.json else []
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv(sys.executable, words)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        is_done = threading.Event()
        threading.Thread(target=drain, args=(terminal, is_done), daemon=True).start()
        time.sleep(3)  # It starts; that is no cost of watching.
        started = cpu_seconds(pid)
        speed = options.rate * size / events
        written, took = grow(options.recording, growing, speed, options.seconds)
        time.sleep(LAST_LOOK_SECONDS)
        used = cpu_seconds(pid) - started
        os.write(terminal, b"q" if not options.json else b"\x03")
        os.waitpid(pid, 0)
        is_done.set()
    seen = events * written / size
    print(
        json.dumps(
            {
                "events": round(seen),
                "seconds": round(took, 2),
                "events_per_second": round(seen / took),
                "cpu_seconds": round(used, 3),
                "share_of_a_core": round(used / (took + LAST_LOOK_SECONDS), 4),
                "ns_per_event": round(used * 1e9 / seen, 1),
                "peak_rss_mib": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024,
            }
        )
    )


def cpu_seconds(pid: int) -> float:
    """Of a process and all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
