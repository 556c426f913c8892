"""Loads what other packages register, once in each process."""

from importlib.metadata import entry_points

plugins_loaded = False


def load_general_plugins() -> None:
    global plugins_loaded
    if plugins_loaded:
        return
    plugins_loaded = True
    for plugin in entry_points(group="vllm.general_plugins"):
        plugin.load()()
