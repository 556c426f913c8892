"""Runs a program on fake CUDA tensors and drives the simulated device with what it allocates."""
