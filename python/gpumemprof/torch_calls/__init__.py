"""Calls into torch; only this package and `verify.apply` import it, never before the program does.

torch is used only after the program itself has imported it, and CUDA only after the program has
initialised it: earlier calls would create contexts on the wrong card and break programs that fork.
"""
