"""The process that runs the model."""

from multiprocessing.connection import Connection

from sglang.srt.model_executor.model_runner import ModelRunner
from sglang.srt.server_args import ServerArgs


def run_scheduler_process(server_args: ServerArgs, pipe: Connection) -> None:
    runner = ModelRunner()
    runner.load_model()
    runner.init_memory_pool(2_000_000)
    pipe.send({"status": "ready", "model": server_args.model_path})
    pipe.recv()
