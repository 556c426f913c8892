"""How large tensors would be computed from known values."""
