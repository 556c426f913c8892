"""Scaled dot product attention: which kernel torch chooses, and what it allocates."""
