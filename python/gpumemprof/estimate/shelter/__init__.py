"""Keeps the files of the user as they are, whatever a predicted program or its children do.

Three layers; each is enough, and the first that this machine allows is used:

1. `overlay`: the program sees the machine's files through overlays. What it writes lands in a
   scratch folder, and the program sees it there.
2. `redirect`: a preloaded library does the same for calls of the C library.
3. `landlock`: the kernel refuses to write anywhere but in the scratch folder. It guards the second
   layer against what that misses.
"""
