"""Reductions: how torch launches them, and the buffers in which blocks meet."""
