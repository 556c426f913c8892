"""Predicts a program's GPU memory on a machine without a GPU: see `engine.session`."""
