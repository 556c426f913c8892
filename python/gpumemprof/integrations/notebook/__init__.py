"""Notebooks and IPython: ``%load_ext gpumemprof``, ``%%gpumemprof`` and the viewer in a cell."""
