"""Convolutions: what torch copies, and the workspaces of cuDNN."""
