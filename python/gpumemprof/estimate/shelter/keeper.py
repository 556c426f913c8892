"""Makes the namespace of a predicted program, and keeps it until standard input is closed.

A process of its own, since only one without threads can leave its namespaces. It prints a line of
JSON when the namespace is there, and one with all changes for each line that it reads.
"""

import json
import os
import sys
from pathlib import Path

_PACKAGES = str(Path(__file__).resolve().parents[3])
if _PACKAGES not in sys.path:
    sys.path.append(_PACKAGES)

from gpumemprof.estimate.shelter import kernel  # noqa: E402
from gpumemprof.estimate.shelter.changes import overlay_changes  # noqa: E402
from gpumemprof.estimate.shelter.overlay import View  # noqa: E402

_ALL_USERS = ["0", "0", str(2**32 - 1)]


def _leave_namespaces() -> bool:
    """Returns whether this is the machine's root."""
    user, group = os.geteuid(), os.getegid()
    try:
        kernel.unshare(kernel.CLONE_NEWNS)
        is_privileged = Path("/proc/self/uid_map").read_text(encoding="ascii").split() == _ALL_USERS
    except PermissionError:
        kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS)
        is_privileged = False
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            Path(f"/proc/self/{name}").write_text(text, encoding="ascii")
    kernel.mount("none", "/", "", kernel.MS_REC | kernel.MS_SLAVE)
    return is_privileged


def main(order: dict[str, list[str]]) -> None:
    """`order` has what `Overlay` in `shelter.py` writes."""
    view = View(order["root"][0], order["scratch"], _leave_namespaces())
    view.build(order["real"], order["writable"])
    print(json.dumps({"read_only": view.read_only}), flush=True)
    for _ in sys.stdin:
        print(json.dumps(overlay_changes(view.layers, order["root"][0]).to_json()), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
