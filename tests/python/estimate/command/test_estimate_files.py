"""A predicted program changes no file of the user's, and sees what it writes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from estimate.writing_ways import WAYS, make_precious, missing
from gpumemprof.estimate.shelter.changes import Changes
from gpumemprof.estimate.shelter.shelter import LAYERS_VARIABLE, open_shelter
from precious_files import Manifest, estimate, manifest, require

# As ordinary training programs write their checkpoints, and look for them.
PROGRAM = """
import contextlib, glob, io, os, pathlib, pickle, shutil, sqlite3, sys
import torch
import torch.multiprocessing
import torch.distributed.checkpoint as checkpoints
from torch.utils.data import DataLoader

model = torch.nn.Linear(64, 64).cuda()
weights = model.state_dict()

def to_an_open_file():
    with open("last.pt", "wb") as file:
        torch.save(weights, file)
        file.flush()
        os.fsync(file.fileno())
    assert torch.load("last.pt")["weight"].shape == (64, 64)

def by_name():
    torch.save(weights, "last.pt")
    assert os.path.getsize("last.pt") and torch.load("last.pt")["weight"].is_cuda

def through_a_temporary_file():
    torch.save(weights, "last.pt.tmp")
    os.replace("last.pt.tmp", "last.pt")
    assert not os.path.exists("last.pt.tmp") and "weight" in torch.load("last.pt")

def through_a_buffer():
    buffer = io.BytesIO()
    torch.save(weights, buffer)
    pathlib.Path("last.pt").write_bytes(buffer.getvalue())
    assert "weight" in torch.load("last.pt")

def with_a_backup():
    os.replace("last.pt", "old.pt")
    torch.save(weights, "last.pt")
    assert os.path.exists("old.pt") and sorted(glob.glob("*.pt")) == ["last.pt", "old.pt"]

def after_removing():
    os.remove("last.pt")
    assert not os.path.exists("last.pt")
    torch.save(weights, "last.pt")

def in_a_new_folder():
    shutil.rmtree("out")
    os.makedirs("out/step-3")
    torch.save(weights, "out/step-3/model.pt")
    os.rename("out/step-3", "out/step-4")
    assert os.listdir("out") == ["step-4"] and "weight" in torch.load("out/step-4/model.pt")

def renaming_a_folder():
    os.rename("out", "out-before")
    assert os.path.exists("out-before/precious.txt") and not os.path.exists("out")

def distributed():
    checkpoints.save({"model": weights}, checkpoint_id="sharded")
    assert os.path.exists("sharded/.metadata")

def into_a_database():
    base = sqlite3.connect("runs.sqlite")
    base.execute("delete from runs")
    base.execute("insert into runs values ('new')")
    base.commit()
    assert base.execute("select * from runs").fetchall() == [("new",)]

class Writing:
    def __len__(self):
        return 4

    def __getitem__(self, index):
        pathlib.Path("notes.txt").write_text("from a worker")
        return index

def in_workers_of_a_loader():
    assert len(list(DataLoader(Writing(), num_workers=2))) == 4
    assert pathlib.Path("notes.txt").read_text() == "from a worker"

def spoil(rank):
    for path in ("last.pt", "out/precious.txt"):
        os.remove(path)

def in_spawned_processes():
    torch.multiprocessing.spawn(spoil, nprocs=1)
    assert not os.path.exists("last.pt")

if __name__ == "__main__":
    makes = pathlib.Path(sys.argv[1])
    for name, way in list(globals().items()):
        if getattr(way, "__module__", "") != "__main__" or name in ("Writing", "spoil"):
            continue
        os.chdir(makes / name)
        try:
            way()
            print(name, "done", file=sys.stderr)
        except BaseException as error:  # A failed checkpoint is no Exception.
            print(name, "refused", error, file=sys.stderr)
"""
NAMES = [
    line[4:-3] for line in PROGRAM.splitlines() if line.startswith("def ") and line.endswith("():")
]
MAKE_PRECIOUS = """
import sqlite3, sys, torch, pathlib
torch.save(torch.nn.Linear(64, 64).state_dict(), "last.pt")
torch.save({}, "old.pt")
pathlib.Path("out").mkdir()
for path in ("out/precious.txt", "notes.txt"):
    pathlib.Path(path).write_text("precious")
base = sqlite3.connect("runs.sqlite")
base.execute("create table runs (name)")
base.execute("insert into runs values ('precious')")
base.commit()
"""


def precious_folders(folder: Path, names: list[str]) -> Path:
    """A folder of precious files for each way to harm them."""
    first = folder / "precious" / names[0]
    first.mkdir(parents=True)
    subprocess.run([sys.executable, "-c", MAKE_PRECIOUS], cwd=first, check=True)
    for name in names[1:]:
        subprocess.run(["cp", "-a", first, folder / "precious" / name], check=True)
    return folder / "precious"


@pytest.mark.parametrize("layer", ["overlay", "redirect", "landlock"])
def test_no_way_to_save_changes_a_file_with_one_layer_alone(tmp_path: Path, layer: str) -> None:
    require(layer)
    precious = precious_folders(tmp_path, NAMES)
    before = manifest(precious)
    (tmp_path / "train.py").write_text(PROGRAM)
    found = estimate(tmp_path, layer, "--json", "train.py", str(precious))
    assert manifest(precious) == before
    assert found.returncode == 0, found.stderr
    answer = json.loads(found.stdout)
    assert answer["shelter"] == layer
    if layer == "landlock":
        return  # It writes nothing, and may see nothing of what it wrote.
    ended = {line.split()[0]: line.split()[1] for line in found.stderr.splitlines() if " " in line}
    assert {name: ended.get(name) for name in NAMES} == dict.fromkeys(NAMES, "done")
    files = answer["files"]
    assert f"{precious}/to_an_open_file/last.pt" in files["changed"]
    assert f"{precious}/in_a_new_folder/out/precious.txt" in files["removed"]
    written = [entry["path"] for entry in files["created"]]
    assert f"{precious}/distributed/sharded" in written


# Each way of the redirecting library's tests, as a program that the predicted one starts.
STARTS_WAYS = """
import json, pathlib, subprocess, sys
import torch
torch.nn.Linear(8, 8).cuda()
precious = pathlib.Path(sys.argv[1])
for folder, source in json.loads(pathlib.Path(sys.argv[2]).read_text()).items():
    done = subprocess.run(
        [sys.executable, "-c", source], cwd=precious / folder, capture_output=True, text=True
    )
    if done.returncode != 0:
        print("refused:", source, done.stderr, file=sys.stderr)
"""


def contents(of_manifest: Manifest) -> dict[str, str]:
    return {path: content for path, (_, _, content) in of_manifest.items()}


@pytest.mark.parametrize("layer", ["overlay", "landlock"])
def test_no_way_to_write_changes_a_file_without_the_library(tmp_path: Path, layer: str) -> None:
    require(layer)
    ways = {str(number): way for number, way in enumerate(WAYS.values()) if not missing(way)}
    for folder in ways:
        (tmp_path / "precious" / folder).mkdir(parents=True)
        make_precious(tmp_path / "precious" / folder)
    (tmp_path / "ways.json").write_text(json.dumps(ways))
    (tmp_path / "train.py").write_text(STARTS_WAYS)
    before = manifest(tmp_path / "precious")
    places = (str(tmp_path / "precious"), str(tmp_path / "ways.json"))
    found = estimate(tmp_path, layer, "--json", "train.py", *places)
    after = manifest(tmp_path / "precious")
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["shelter"] == layer
    if layer == "overlay":
        assert after == before
        assert "refused:" not in found.stderr, found.stderr
    else:  # Landlock knows no right to change modes and times.
        assert contents(after) == contents(before)


AS_ANOTHER_USER = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


@pytest.fixture
def folder_of_another_user() -> Iterator[Path]:
    """pytest's own folders are closed to others."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    test = [*AS_ANOTHER_USER, "env", sys.executable, "-c", "import gpumemprof, json, torch"]
    try:
        if os.geteuid() != 0 or subprocess.run(test, cwd=folder, check=False).returncode != 0:
            pytest.skip("only root can be another user, who must be able to read this Python")
        yield folder
    finally:
        shutil.rmtree(folder)


def test_a_user_without_privileges_has_overlays_too(folder_of_another_user: Path) -> None:
    folder = folder_of_another_user
    precious = precious_folders(folder, NAMES)
    (folder / "train.py").write_text(PROGRAM)
    subprocess.run(["chown", "-R", "65534:65534", folder], check=True)
    before = manifest(precious)
    user = (*AS_ANOTHER_USER, "env", f"HOME={folder}")
    found = estimate(folder, "overlay", "--json", "train.py", str(precious), prefix=user)
    assert manifest(precious) == before
    if "no way to keep what the program writes" in found.stderr:
        pytest.skip("this machine has no overlays for users")
    done = [line.split()[0] for line in found.stderr.splitlines() if line.endswith(" done")]
    assert done == NAMES, found.stderr
    assert json.loads(found.stdout)["shelter"] == "overlay"


SAVES = """
import os, pathlib, subprocess, sys, torch
model = torch.nn.Linear(64, 64).cuda()
with open("last.pt", "wb") as file:
    torch.save(model.state_dict(), file)
pathlib.Path("old.pt").unlink()
os.makedirs("out/new")
pathlib.Path("out/new/one.txt").write_text("1")
pathlib.Path("let/result.txt").write_text("real")
subprocess.run(["true"])
"""


def test_the_answer_lists_what_was_held_back(tmp_path: Path) -> None:
    for name in ("last.pt", "old.pt"):
        (tmp_path / name).write_text("precious")
    (tmp_path / "let").mkdir()
    (tmp_path / "train.py").write_text(SAVES)
    found = estimate(tmp_path, "overlay,redirect", "--let-write", "let", "train.py")
    lines = found.stdout.splitlines()
    place = lines.index("No file was changed. Without estimate, the program would")
    assert lines[place + 1 : place + 4] == [
        "  change last.pt",
        "  remove old.pt",
        "  write out (1 B)",
    ]
    assert lines[place + 4] == "It started for real: true."
    assert (tmp_path / "last.pt").read_text() == (tmp_path / "old.pt").read_text() == "precious"
    assert (tmp_path / "let/result.txt").read_text() == "real"
    assert not (tmp_path / "out").exists()


def test_a_program_may_write_everywhere_if_the_user_says_so(tmp_path: Path) -> None:
    (tmp_path / "let").mkdir()
    (tmp_path / "old.pt").touch()
    (tmp_path / "train.py").write_text(SAVES)
    found = estimate(tmp_path, "overlay,redirect", "--let-write", "/", "--json", "train.py")
    answer = json.loads(found.stdout)
    assert (answer["shelter"], answer["files"]) == ("none", None)
    assert (tmp_path / "out/new/one.txt").exists()


def test_a_machine_without_any_layer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SAVES)
    found = estimate(tmp_path, "", "train.py")
    assert found.returncode == 4
    assert "no way to keep what the program writes from your files" in found.stderr
    assert "--let-write /" in found.stderr


def test_a_program_that_may_not_write_is_told_how(tmp_path: Path) -> None:
    require("landlock")
    (tmp_path / "let").mkdir()
    (tmp_path / "train.py").write_text(SAVES)
    found = estimate(tmp_path, "landlock", "train.py")
    assert found.returncode == 3
    assert "this machine lets it only read" in found.stderr
    assert "--let-write FOLDER" in found.stderr


def test_a_folder_for_writes_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SAVES)
    found = estimate(tmp_path, "overlay", "--let-write", "nowhere", "train.py")
    assert found.returncode == 2
    assert "--let-write takes a folder, but nowhere is none" in found.stderr


RANKS = """
import os, pathlib, torch
torch.distributed.init_process_group("nccl")
rank = torch.distributed.get_rank()
shared = [f"from {rank}"]
if rank == 0:
    pathlib.Path("vocabulary.txt").write_text("of rank 0")
torch.distributed.broadcast_object_list(shared)
assert pathlib.Path("vocabulary.txt").read_text() == "of rank 0"
torch.nn.Linear(64, 64).cuda()
"""


def test_a_rank_sees_what_another_one_wrote(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(RANKS)
    found = estimate(tmp_path, "overlay,redirect", "--nproc", "2", "train.py")
    assert found.returncode == 0, found.stderr
    assert not (tmp_path / "vocabulary.txt").exists()


@pytest.mark.parametrize("layer", ["overlay", "redirect", "landlock"])
def test_nothing_is_left_behind(tmp_path: Path, layer: str, monkeypatch) -> None:
    require(layer)
    monkeypatch.setenv(LAYERS_VARIABLE, layer)
    # Folders are asked for by name, so that other tests may make theirs meanwhile.
    made = []
    make = tempfile.mkdtemp
    monkeypatch.setattr(tempfile, "mkdtemp", lambda **named: made.append(make(**named)) or made[-1])
    shelter = open_shelter([str(tmp_path)])
    assert shelter.changes() == Changes()
    assert made and all(Path(each).is_dir() for each in made)
    closed = Path(made[0], "closed")
    closed.mkdir(exist_ok=True)
    (closed / "file").touch()
    closed.chmod(0)
    shelter.close()
    assert not any(Path(each).exists() for each in made)


CONNECTS = """
import socket
from gpumemprof.estimate.process.outside import Outside
outside = Outside()
outside.watch()
socket.getaddrinfo = lambda *_, **__: []
server = socket.create_server(("127.0.0.1", 0))
socket.socket(socket.AF_INET, socket.SOCK_STREAM).connect(server.getsockname())
beside = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
beside.connect(("192.0.2.7", 9))
print(outside.sent)
"""


def test_hosts_are_noted_but_not_this_machine() -> None:
    # A datagram's socket only remembers where it would send to.
    found = subprocess.run(
        [sys.executable, "-c", CONNECTS], capture_output=True, text=True, check=True
    )
    assert found.stdout == "['192.0.2.7:9']\n"
