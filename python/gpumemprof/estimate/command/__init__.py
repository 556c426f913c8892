"""``gpumemprof estimate``: predicts a program's GPU memory without a GPU, and prints the verdict."""
