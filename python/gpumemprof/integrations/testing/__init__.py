"""The pytest plugin: limits on the memory of tests, and a list of those that use most."""
