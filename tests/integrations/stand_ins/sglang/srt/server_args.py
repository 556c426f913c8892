"""What the command line asks for."""

from dataclasses import dataclass


@dataclass
class ServerArgs:
    model_path: str


def prepare_server_args(argv: list[str]) -> ServerArgs:
    flag, model = argv
    assert flag == "--model-path"
    return ServerArgs(model)
