"""Reads recordings: opens files, and returns reports and tables."""
