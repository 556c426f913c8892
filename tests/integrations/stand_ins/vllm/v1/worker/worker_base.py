"""What all workers have."""


class WorkerBase:
    def compile_or_warm_up_model(self) -> None:
        raise NotImplementedError
