"""Inputs whose allocations estimate_sweep.py records on a GPU."""
