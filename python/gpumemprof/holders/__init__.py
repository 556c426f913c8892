"""Who holds memory: chains from names in the running program to the blocks they keep alive.

`search` finds them, `expected` and `watch` are what programs use, `leaks_of_run` is for
``gpumemprof run --leaks``.
"""
