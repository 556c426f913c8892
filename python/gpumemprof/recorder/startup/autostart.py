"""Runs when Python starts with GPUMEMPROF=1, through gpumemprof.pth: records what uses torch.

Nothing is imported until the program has imported torch. Any version of Python may run this file,
so it is written for all of them.
"""

# mypy: ignore-errors
# ruff: noqa: PTH118, SIM105

import atexit
import os
import sys

# Where the first process keeps the registry, for those it starts.
_FIRST = "GPUMEMPROF_FIRST"


def _load(name, path):
    import _frozen_importlib_external

    module = type(sys)(name)
    module.__file__ = path
    _frozen_importlib_external.SourceFileLoader(name, path).exec_module(module)
    return module


def _join():
    try:
        from gpumemprof.recorder import automatic

        automatic.begin(os.environ.get(_FIRST, ""))
    except Exception:  # The program keeps running, unrecorded.
        pass


def _become_first(site_folder):
    """The first process of all speaks for those that it starts, whether it uses torch or not."""
    path = os.path.join(site_folder, "gpumemprof", "recorder", "registry.py")
    registry = _load("_gpumemprof_registry", path)
    if registry.is_there(os.environ.get(_FIRST, "")):
        return
    os.environ.pop(_FIRST, None)
    place = os.environ[_FIRST] = registry.make()
    atexit.register(_finish, registry, place)


def _finish(registry, place):
    """At the very end: this was registered before anything in the program."""
    try:
        if registry.is_mine(place) and len(registry.read(place)) > 1:
            from gpumemprof.recorder import processes

            processes.finish_family(place)
    except Exception:
        pass


def begin(site_folder):
    """Wait for torch; `site_folder` is where the package is."""
    # Under `gpumemprof run`, that records it. Other versions of Python may share the environment.
    if "GPUMEMPROF_RUN" in os.environ or "_gpumemprof_import_watch" in sys.modules:
        return
    try:
        _become_first(site_folder)
    except Exception:  # Then each process speaks for itself.
        pass
    path = os.path.join(site_folder, "gpumemprof", "torch_calls", "import_watch.py")
    watch = _load("_gpumemprof_import_watch", path)
    sys.modules["_gpumemprof_import_watch"] = watch
    watch.waiting = watch.TorchWatch()
    watch.waiting.add(_join)
