"""``python -m sglang.launch_server``: starts the scheduler anew, by spawn, and waits for it."""

import multiprocessing
import signal
import sys
import threading

from sglang.srt.managers.scheduler import run_scheduler_process
from sglang.srt.server_args import ServerArgs, prepare_server_args


def run_server(server_args: ServerArgs) -> None:
    stopped = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: stopped.set())
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    scheduler = context.Process(target=run_scheduler_process, args=(server_args, theirs))
    scheduler.start()
    assert mine.recv()["status"] == "ready"
    print("The server is fired up and ready to roll!", flush=True)
    stopped.wait()
    mine.send(None)
    scheduler.join()


if __name__ == "__main__":
    run_server(prepare_server_args(sys.argv[1:]))
