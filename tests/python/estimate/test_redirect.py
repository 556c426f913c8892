"""The redirecting library: programs change files as they like, and no real file changes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import gpumemprof
import pytest
from estimate.writing_ways import WAYS, make_precious, missing

LIBRARY = Path(gpumemprof.__file__).parent / "data" / "_redirect.so"

# What a program sees of a folder: names, kinds, modes and contents.
LIST = """
import hashlib, json, os, stat, sys
def walk(folder):
    for entry in sorted(os.scandir(folder), key=lambda entry: os.fsencode(entry.name)):
        status = entry.stat(follow_symlinks=False)
        assert entry.is_dir(follow_symlinks=False) == stat.S_ISDIR(status.st_mode)
        assert entry.is_symlink() == stat.S_ISLNK(status.st_mode)
        content = None
        if entry.is_symlink():
            content = os.readlink(entry.path)
        elif stat.S_ISREG(status.st_mode):
            with open(entry.path, 'rb') as file:
                content = hashlib.sha256(file.read()).hexdigest()
        yield ascii(entry.path), status.st_mode, content
        if stat.S_ISDIR(status.st_mode):
            yield from walk(entry.path)
json.dump(list(walk('.')), sys.stdout)
"""


def manifest(folder: Path) -> dict[str, object]:
    """Everything about a folder that must not change, the times of its files' nodes included."""
    found: dict[str, object] = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        status = path.lstat()
        content: object = None
        if path.is_symlink():
            content = path.readlink()
        elif stat.S_ISREG(status.st_mode):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        times = status.st_mtime_ns, status.st_ctime_ns
        found[str(path)] = status.st_mode, status.st_size, status.st_ino, *times, content
    return found


class Redirected:
    """A precious folder, and programs that run in it with the library."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "redirected" / "work"
        self.scratch = root / "scratch"
        self.folder.mkdir(parents=True)
        self.scratch.mkdir()
        make_precious(self.folder)
        self.before = manifest(self.folder)
        self.variables = {"GPUMEMPROF_REDIRECT": str(self.scratch)}

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return run(self.folder, *command, LD_PRELOAD=str(LIBRARY), **self.variables)

    def python(self, source: str) -> str:
        done = self.run(sys.executable, "-c", source)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def is_unchanged(self) -> bool:
        return manifest(self.folder) == self.before


def run(folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.fixture
def redirected(tmp_path: Path) -> Redirected:
    return Redirected(tmp_path)


@pytest.mark.parametrize("way", WAYS)
def test_way_to_write_changes_nothing_real_and_shows_what_it_would(
    redirected: Redirected, tmp_path: Path, way: str
) -> None:
    if needs := missing(WAYS[way]):
        pytest.skip(f"not available: {', '.join(needs)}")
    real = tmp_path / "real" / "work"
    real.mkdir(parents=True)
    make_precious(real)

    expected = run(real, sys.executable, "-c", WAYS[way])
    assert expected.returncode == 0, expected.stderr
    assert redirected.python(WAYS[way]) == expected.stdout
    assert redirected.is_unchanged()
    # Another process sees what that one left.
    seen = json.loads(redirected.python(LIST))
    assert seen == json.loads(run(real, sys.executable, "-c", LIST).stdout)
    assert not (redirected.scratch / "refused").exists()


def test_library_does_nothing_without_a_scratch_folder(redirected: Redirected) -> None:
    redirected.variables = {"GPUMEMPROF_REDIRECT": ""}
    redirected.python("open('notes.txt', 'w').write('real')")
    assert (redirected.folder / "notes.txt").read_text() == "real"


def test_scratch_folder_shows_what_was_written_and_removed(redirected: Redirected) -> None:
    redirected.python("import os; open('new.txt', 'w').write('x'); os.remove('notes.txt')")
    below = redirected.folder.relative_to("/")
    assert (redirected.scratch / "written" / below / "new.txt").read_text() == "x"
    assert (redirected.scratch / "removed" / below / "notes.txt").is_file()


def test_real_prefixes_are_written_for_real(redirected: Redirected, tmp_path: Path) -> None:
    real = tmp_path / "outside"
    real.mkdir()
    (real / "back").symlink_to(redirected.folder)
    redirected.variables["GPUMEMPROF_REDIRECT_REAL"] = f"/nowhere:{real}"
    redirected.python(
        f"import os, shutil; from pathlib import Path; real = Path({str(real)!r})\n"
        "(real / 'made').write_text('x'); (real / 'back' / 'notes.txt').write_text('y')\n"
        "os.rename('log.txt', real / 'log.txt'); os.rename(real / 'made', 'from_outside')\n"
        "assert Path('from_outside').read_text() == 'x' and not os.path.exists('log.txt')\n"
        "(real / 'made').write_text('again')"
    )
    assert (real / "made").read_text() == "again"
    assert (real / "log.txt").read_text() == "started\n"
    assert redirected.is_unchanged()


def compiled(folder: Path, *flags: str) -> Path:
    """A program that overwrites notes.txt."""
    if shutil.which("gcc") is None:
        pytest.skip("there is no C compiler")
    source = folder / "program.c"
    source.write_text('#include <stdio.h>\nint main(void) { return !fopen("notes.txt", "w"); }\n')
    program = folder / "program"
    built = run(folder, "gcc", *flags, str(source), "-o", str(program))
    if built.returncode != 0:
        pytest.skip(f"no program can be built with {' '.join(flags)}")
    return program


def refused(redirected: Redirected) -> list[str]:
    return (redirected.scratch / "refused").read_text().splitlines()


def test_program_is_not_started_after_the_scratch_folder_is_gone(redirected: Redirected) -> None:
    redirected.scratch.rmdir()
    done = redirected.run("sh", "-c", "echo spoiled > notes.txt")
    assert done.returncode == 126
    assert "the folder for redirected writes is gone" in done.stderr
    assert redirected.is_unchanged()


def test_static_program_is_not_started(redirected: Redirected, tmp_path: Path) -> None:
    program = compiled(tmp_path, "-static")
    redirected.python(
        f"import os, subprocess, errno\nprogram = {str(program)!r}\n"
        "for start in (lambda: subprocess.run([program]), lambda: os.execv(program, ['x']),\n"
        "              lambda: os.posix_spawn(program, ['x'], {})):\n"
        "    try: start()\n"
        "    except PermissionError as error: assert error.errno == errno.EACCES\n"
        "    else: raise AssertionError\n"
        "assert subprocess.run(f'{program} 2>/dev/null', shell=True).returncode == 126"
    )
    assert redirected.is_unchanged()
    assert refused(redirected) == [str(program)] * 4


def test_static_program_runs_where_something_else_guards(
    redirected: Redirected, tmp_path: Path
) -> None:
    redirected.variables["GPUMEMPROF_REDIRECT_LETS_STATIC"] = "1"
    assert redirected.run(str(compiled(tmp_path, "-static"))).returncode == 0
    assert redirected.run("sh", "-c", str(tmp_path / "program")).returncode == 0


def test_set_uid_program_is_not_started(redirected: Redirected, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a program that belongs to somebody else")
    program = compiled(tmp_path)
    os.chown(program, 65534, 65534)
    program.chmod(0o4755)
    assert redirected.run("sh", "-c", str(program)).returncode == 126
    assert redirected.is_unchanged()
    assert refused(redirected) == [str(program)]


def test_dynamic_program_is_redirected(redirected: Redirected, tmp_path: Path) -> None:
    assert redirected.run("sh", "-c", str(compiled(tmp_path))).returncode == 0
    assert redirected.is_unchanged()
    assert redirected.run("cat", "notes.txt").stdout == ""


# Which calls fail, and how, for somebody whom the folder does not belong to.
FORBIDDEN = """
import os
for call in (
    lambda: open('notes.txt', 'w'), lambda: open('new', 'w'), lambda: os.remove('notes.txt'),
    lambda: os.mkdir('x'), lambda: os.chmod('notes.txt', 0), lambda: os.rmdir('empty'),
    lambda: os.rename('notes.txt', 'x'), lambda: open('secret/x'), lambda: os.symlink('x', 'y'),
    lambda: os.truncate('notes.txt', 0), lambda: os.utime('notes.txt', (1, 1)),
    lambda: os.link('notes.txt', 'x'), lambda: os.listdir('secret'),
    lambda: os.rename('open_to_all', 'x'), lambda: os.remove('sticky/file'),
):
    try: call(); print('done')
    except OSError as error: print(error.errno)
open('open_to_all/new', 'w').write('new'); os.mkdir('open_to_all/folder')
open('open_to_all/folder/x', 'w').close(); print(sorted(os.listdir('open_to_all')))
print(os.access('.', os.W_OK), os.access('open_to_all', os.W_OK), os.access('notes.txt', os.W_OK))
try: open('new', 'w')
except OSError as error: print(error.errno)
"""

BECOME_NOBODY = """
import os, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
os.environ.update(eval(sys.argv[2])); os.execl(sys.executable, 'python', '-c', sys.argv[1])
"""


def test_what_the_user_may_not_write_stays_forbidden() -> None:
    if os.geteuid() != 0 or not Path("/usr/bin/python3").exists():
        pytest.skip("only root can run a program, that all may run, as somebody else")
    # A folder that others can enter; those of pytest are its user's.
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        library = shutil.copy(LIBRARY, root / "library.so")
        redirected = Redirected(root)
        redirected.scratch.chmod(0o777)
        real = root / "real" / "work"
        real.mkdir(parents=True)
        make_precious(real)
        for folder in (real, redirected.folder):
            (folder / "secret").mkdir(mode=0o700)
            (folder / "open_to_all").mkdir()
            (folder / "open_to_all").chmod(0o777)
            (folder / "sticky").mkdir()
            (folder / "sticky" / "file").touch()
            (folder / "sticky").chmod(0o1777)
        before = manifest(redirected.folder)
        python = "/usr/bin/python3"
        as_nobody = python, "-c", BECOME_NOBODY, FORBIDDEN
        variables = {"LD_PRELOAD": str(library), **redirected.variables}
        seen = run(redirected.folder, *as_nobody, repr(variables))
        assert seen.returncode == 0, seen.stderr
        assert seen.stdout == run(real, *as_nobody, "{}").stdout
        assert manifest(redirected.folder) == before


def test_shared_memory_of_others_stays(redirected: Redirected) -> None:
    shared = Path("/dev/shm") / f"gpumemprof-test-{os.getpid()}"
    if not shared.parent.is_dir():
        pytest.skip("there is no shared memory")
    shared.write_bytes(b"precious")
    try:
        redirected.python(
            "from multiprocessing import resource_tracker\n"
            "from multiprocessing.shared_memory import SharedMemory\n"
            f"memory = SharedMemory({shared.name!r}); memory.buf[0] = 0\n"
            "memory.close(); memory.unlink()\n"
            f"import os; assert not os.path.exists({str(shared)!r})\n"
        )
        assert shared.read_bytes() == b"precious"
    finally:
        shared.unlink()


def test_writes_that_are_in_progress_do_not_mix(redirected: Redirected) -> None:
    """Each of many processes and threads copies the same files at once."""
    work = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "def work(number):\n"
        "    with open('weights.bin', 'r+b') as file: file.seek(number * 16); file.write(b'!')\n"
        "with ThreadPoolExecutor(8) as pool: [*pool.map(work, range(START, START + 64))]"
    )
    redirected.python(
        "import subprocess, sys\n"
        f"work = {work!r}\n"
        "def start(n): return subprocess.Popen([sys.executable, '-c', work.replace('START', n)])\n"
        "processes = [start(str(n * 64)) for n in range(4)]\n"
        "assert not any(process.wait() for process in processes)\n"
        "data = open('weights.bin', 'rb').read()\n"
        "assert len(data) == 65536 and data[:4096:16] == b'!' * 256\n"
        "assert data[4096:] == bytes(range(256)) * 240"
    )
    assert redirected.is_unchanged()
