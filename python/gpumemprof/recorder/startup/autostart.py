"""Runs when Python starts with GPUMEMPROF=1, through gpumemprof.pth: records what uses torch.

Nothing is imported until the program has imported torch. Any version of Python may run this file,
so it is written for all of them.
"""

# mypy: ignore-errors
# ruff: noqa: PTH118

import os
import sys


def _load(name, path):
    import _frozen_importlib_external

    module = type(sys)(name)
    module.__file__ = path
    _frozen_importlib_external.SourceFileLoader(name, path).exec_module(module)
    return module


def _join():
    try:
        from gpumemprof.recorder import automatic

        automatic.begin()
    except Exception:  # The program keeps running, unrecorded.
        pass


def begin(site_folder):
    """Wait for torch; `site_folder` is where the package is."""
    # Under `gpumemprof run`, that records it. Other versions of Python may share the environment.
    if "GPUMEMPROF_RUN" in os.environ or "_gpumemprof_import_watch" in sys.modules:
        return
    path = os.path.join(site_folder, "gpumemprof", "torch_calls", "import_watch.py")
    watch = _load("_gpumemprof_import_watch", path)
    sys.modules["_gpumemprof_import_watch"] = watch
    watch.waiting = watch.TorchWatch()
    watch.waiting.add(_join)
