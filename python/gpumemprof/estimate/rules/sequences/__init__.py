"""Kernels that work on sequences: recurrent networks and the CTC loss."""
