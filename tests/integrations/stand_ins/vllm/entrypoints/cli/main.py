"""``vllm serve MODEL``: starts the engine's process, and serves until it is interrupted."""

import multiprocessing
import os
import signal
import sys
import threading


def main() -> None:
    from vllm.plugins import load_general_plugins

    load_general_plugins()
    import torch  # noqa: F401  As the server of requests does.

    from vllm.v1.engine.core import run_engine_core

    _, model = sys.argv[1:]
    stopped = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: stopped.set())
    method = os.environ.get("VLLM_WORKER_MULTIPROC_METHOD", "fork")
    context = multiprocessing.get_context(method)
    mine, theirs = context.Pipe()
    engine = context.Process(target=run_engine_core, args=(model, theirs), name="EngineCore")
    engine.start()
    mine.recv()
    print("Application startup complete.", flush=True)
    stopped.wait()
    mine.send(True)
    engine.join()


if __name__ == "__main__":
    main()
