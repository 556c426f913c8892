"""A program is recorded no matter how it finds and imports torch."""

from __future__ import annotations

import textwrap
from pathlib import Path

import gpumemprof
import pytest
from capture_programs import run_command, run_recorded

ALLOCATE = "import torch\nkept = torch.zeros(250_000)\n"
WAYS = {
    "find_spec": "import importlib.util\nassert importlib.util.find_spec('torch')\n",
    "find_spec of a part": """
import importlib.util
try: importlib.util.find_spec('torch.no_such_part')
except ModuleNotFoundError: pass
""",
    "many lookups": """
import importlib.machinery, importlib.metadata, importlib.util, pkgutil, sys
for _ in range(5):
    assert importlib.util.find_spec('torch') == importlib.util.find_spec('torch')
    assert importlib.machinery.PathFinder.find_spec('torch')
    importlib.metadata.version('torch')
    assert any(m.name == 'torch' for m in pkgutil.iter_modules())
    [finder for finder in pkgutil.iter_importers()]
    importlib.invalidate_caches()
""",
    "a part that fails": """
try: import torch.no_such_part
except ModuleNotFoundError: pass
try: from torch import no_such_name
except ImportError: pass
""",
    "threads": """
import threading
gate = threading.Barrier(4)
def work():
    gate.wait()
    import torch
threads = [threading.Thread(target=work) for _ in range(4)]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
""",
    "a lazy importer": """
import importlib.util, sys
spec = importlib.util.find_spec('torch')
spec.loader = importlib.util.LazyLoader(spec.loader)
module = sys.modules['torch'] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
import json, colorsys
""",
    "executed by hand": """
import importlib.machinery, importlib.util, sys
spec = importlib.machinery.PathFinder.find_spec('torch')
module = sys.modules['torch'] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
import colorsys
""",
    "a finder of the program's own": """
import importlib.util, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name != 'torch' or self.is_busy: return None
        self.is_busy = True
        try: return importlib.util.find_spec(name)
        finally: self.is_busy = False
    is_busy = False
sys.meta_path.insert(0, Finder())
""",
    "a stranger of that name first": """
import sys, types
sys.modules['torch'] = types.ModuleType('torch')
import torch, colorsys
del sys.modules['torch']
""",
    "blocked first": """
import sys
sys.modules['torch'] = None
try: import torch
except ImportError: pass
del sys.modules['torch']
""",
    "a reload": "import importlib, torch\nimportlib.reload(torch)\n",
    "a changed meta_path": "import sys\nsys.meta_path = list(sys.meta_path)\n",
}


def fake_torch(folder: Path, text: str) -> None:
    """A fake torch, whose import can be watched and made to fail."""
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text(textwrap.dedent(text))


PROBE = """
import sys
sys.path.insert(0, '.')
from gpumemprof.torch_calls import readiness
import gpumemprof.torch_calls.import_watch as watch
seen = []
readiness.when_imported(lambda: seen.append(sys.modules['torch'].end))
"""


def run_probe(folder: Path, program: str) -> str:
    (folder / "probe.py").write_text(PROBE + textwrap.dedent(program))
    done = run_command(folder, ["probe.py"], None)
    assert done.returncode == 0, done.stderr
    return done.stdout


# The others are tried on a fake torch: importing the real one takes seconds.
@pytest.mark.parametrize("way", ["find_spec", "many lookups", "threads", "a lazy importer"])
def test_records_however_torch_is_found(tmp_path: Path, way: str) -> None:
    (tmp_path / "train.py").write_text(WAYS[way] + ALLOCATE)
    done = run_recorded(tmp_path, "--cpu", "-o", "run.gmp", "train.py")
    assert done.returncode == 0, done.stderr
    (device,) = gpumemprof.load(tmp_path / "run.gmp").devices
    assert device.peak.allocated_bytes == 1_000_000


@pytest.mark.parametrize("way", [way for way in WAYS if way != "many lookups"])
def test_notices_the_import_however_it_comes_about(tmp_path: Path, way: str) -> None:
    fake_torch(tmp_path, "import colorsys\ncuda = 1\nimport pyclbr\nend = 'end'\n")
    program = f"{WAYS[way]}\nassert not seen or 'torch' in sys.modules\nimport torch, this\n"
    assert run_probe(tmp_path, program + "print(torch.end, seen)").endswith("end ['end']\n")


def test_an_import_that_fails_is_watched_again(tmp_path: Path) -> None:
    fake_torch(tmp_path, "import os\ncuda = 1\nif 'READY' not in os.environ: 1 / 0\nend = 'end'\n")
    program = """
    import os
    for _ in range(2):
        try: import torch
        except ZeroDivisionError: print(seen)
    os.environ['READY'] = '1'
    import torch
    print(seen, type(torch.__spec__.loader), vars(torch.__spec__.loader).keys() - {'name', 'path'})
    print([finder for finder in sys.meta_path if type(finder) is watch.TorchWatch])
    """
    lines = run_probe(tmp_path, program).splitlines()
    assert lines[:2] == ["[]", "[]"]
    assert lines[2].startswith("['end'] <class ")
    assert lines[2].endswith("set()")
    assert lines[3] == "[]"


def test_a_lookup_imports_nothing(tmp_path: Path) -> None:
    fake_torch(tmp_path, "print('executed')\ncuda = 1\nend = 'end'\n")
    program = """
    import importlib.util
    spec = importlib.util.find_spec('torch')
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = sys.modules['torch'] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    readiness.has_cuda(), readiness.is_imported(), watch.torch_file()
    import colorsys
    print(seen)
    module.cuda
    import pyclbr
    print(seen)
    """
    assert run_probe(tmp_path, program).splitlines() == ["[]", "executed", "['end']"]


def test_nobody_is_told_in_the_middle_of_the_import(tmp_path: Path) -> None:
    fake_torch(tmp_path, "cuda = 1\nimport colorsys, pyclbr\nend = 'end'\n")
    assert run_probe(tmp_path, "import torch; print(seen)") == "['end']\n"


@pytest.mark.parametrize("error", ["ZeroDivisionError", "ImportError"])
def test_a_traceback_out_of_torch_has_no_frame_of_ours(tmp_path: Path, error: str) -> None:
    fake_torch(tmp_path, f"def fail():\n    raise {error}('mine')\nfail()\n")
    (tmp_path / "train.py").write_text("import torch\n")
    script = str(tmp_path / "train.py")
    plain = run_command(tmp_path, [script], None)
    recorded = run_recorded(tmp_path, script)
    assert plain.stderr in recorded.stderr
    assert recorded.returncode == plain.returncode == 1
