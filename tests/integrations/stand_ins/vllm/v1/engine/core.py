"""The process that owns the worker."""

import signal
from multiprocessing.connection import Connection


def run_engine_core(model: str, ready: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from vllm.plugins import load_general_plugins

    load_general_plugins()
    from vllm.v1.worker.gpu_worker import Worker

    worker = Worker()
    worker.init_device()
    assert worker.load_model(model, dummy=True) == model
    assert worker.determine_available_memory() == 64_000
    worker.initialize_from_config(None)
    worker.compile_or_warm_up_model()
    for _ in range(50):  # Requests.
        worker.execute_model(8)
    ready.send(True)
    ready.recv()
