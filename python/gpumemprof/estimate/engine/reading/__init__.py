"""What the program reads from tensors, and in which place of its code."""
