"""``gpumemprof estimate``: predicts a program's GPU memory without a GPU; the command itself."""
