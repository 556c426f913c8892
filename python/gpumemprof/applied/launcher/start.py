"""Starts ``gpumemprof.applied`` as a script.

``python -m`` would put the current folder before everything else, and any file there that is named
as a module of Python's own would run. A script's folder comes first instead: this one, in which
there is nothing else, until the program's own takes its place.
"""

import sys
from pathlib import Path

# Where this package lies, should it have been found by way of the current folder.
_PACKAGES = str(Path(__file__).resolve().parents[3])
if _PACKAGES not in sys.path:
    sys.path.append(_PACKAGES)

from gpumemprof.applied.__main__ import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
