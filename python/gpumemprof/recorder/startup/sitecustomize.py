"""Runs at startup of a recorded process and of those it starts, before the program itself.

``gpumemprof run`` puts this folder first on PYTHONPATH. This file removes the folder from
``sys.path`` again, and the program's own ``sitecustomize`` runs as if this one did not exist.
Nothing else is imported until torch is, so a process that never uses torch is unaffected. Any
version of Python may run this file, so it is written for all of them; only the one that was started
is recorded.
"""

# mypy: ignore-errors
# ruff: noqa: PTH100, PTH118, PTH120, SIM105

import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = os.path.dirname(os.path.dirname(_FOLDER))


def _load(name, path):
    # As an import would, with the compiled file if there is one; importlib.util is large.
    import _frozen_importlib_external

    module = type(sys)(name)
    module.__file__ = path
    _frozen_importlib_external.SourceFileLoader(name, path).exec_module(module)
    return module


def _package():
    """The very package that started this, wherever the program's own path would lead."""
    if "gpumemprof" not in sys.modules:
        import importlib.machinery
        import importlib.util

        folder = os.path.dirname(_PACKAGE)
        spec = importlib.machinery.PathFinder.find_spec("gpumemprof", [folder])
        module = importlib.util.module_from_spec(spec)
        sys.modules["gpumemprof"] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules["gpumemprof"]
            raise
    from gpumemprof.recorder import processes

    return processes


def _join():
    """In a process started by another one: record it from torch's import on."""
    try:
        _package().join()
    except Exception:  # The program keeps running, unrecorded.
        pass


def _begin():
    words = os.environ.get("GPUMEMPROF_RUN", "").split(" ", 2)
    if len(words) < 3 or words[1] != getattr(sys.implementation, "cache_tag", None):
        return
    if words[0] == str(os.getpid()):
        _package().begin()
        return
    path = os.path.join(_PACKAGE, "torch_calls", "import_watch.py")
    watch = _load("_gpumemprof_import_watch", path)
    sys.modules["_gpumemprof_import_watch"] = watch
    watch.waiting = watch.TorchWatch()
    watch.waiting.add(_join)


sys.path[:] = [entry for entry in sys.path if entry != _FOLDER]
sys.path_importer_cache.pop(_FOLDER, None)
if hasattr(sys, "implementation"):
    _begin()
# If there is none, this fails as it would without us, and Python handles that as usual.
sys.modules.pop("sitecustomize", None)
import sitecustomize  # noqa: E402, F401
