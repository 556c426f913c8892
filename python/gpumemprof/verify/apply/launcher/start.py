"""Starts ``gpumemprof.verify.apply`` as a script.

``python -m`` would put the current folder first on the path, so any file there with the name of a
standard module would run. With a script, the script's folder comes first instead: this one, which
contains nothing else, until the program's own folder replaces it.
"""

import sys
from pathlib import Path

# Where this package is, in case it was found through the current folder.
_PACKAGES = str(Path(__file__).resolve().parents[4])
if _PACKAGES not in sys.path:
    sys.path.append(_PACKAGES)

from gpumemprof.verify.apply.__main__ import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
