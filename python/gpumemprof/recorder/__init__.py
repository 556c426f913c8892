"""Records this process, and the programs that ``gpumemprof run`` starts.

Not called ``record``: that is the name of the class in `gpumemprof`.
"""
