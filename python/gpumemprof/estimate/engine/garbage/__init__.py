"""When Python looks for tensors that refer to each other and to nothing else."""
