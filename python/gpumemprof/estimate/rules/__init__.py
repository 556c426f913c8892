"""What CUDA kernels allocate beside their results: one file per kind of operation."""
