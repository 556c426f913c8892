"""``--nproc``: the ranks of a program that torchrun would start."""
