"""Compares ranks: who with whom (`groups`), and what is unusual about which.

`outliers` are single ranks, `uneven` finds places of the mesh that differ as a whole, `steps` those
in which one rank needs more; `failures` says who failed first, `leaks` who leaks, and `clocks`
which hosts have another time.
"""
