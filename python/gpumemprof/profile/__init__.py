"""Profilers: the exact memory use of functions and blocks of code, in the process itself."""
