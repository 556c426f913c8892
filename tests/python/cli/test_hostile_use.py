"""Names, folders, paths and sizes chosen to do harm: none of them misleads gpumemprof."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import pickle
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gpumemprof
import pytest
from conftest import Command, snapshot_path

SOURCE = snapshot_path("mlp_b64_fp32_adam")
COMMAND = Path(sys.executable).parent / "gpumemprof"

WRITERS = {
    "convert to gmp": ("convert", SOURCE, "--to", "gmp"),
    "convert to a snapshot": ("convert", SOURCE, "--to", "torch-snapshot"),
    "report --html": ("report", SOURCE, "--html"),
    "simulate -o": ("simulate", SOURCE, "--alloc-conf", "expandable_segments:True", "-o"),
}


@pytest.fixture(params=WRITERS.values(), ids=[name.replace(" ", "_") for name in WRITERS])
def writer(request: pytest.FixtureRequest) -> tuple[Any, ...]:
    words: tuple[Any, ...] = request.param
    return words


def test_nothing_in_the_folder_leads_a_writer_astray(
    writer: tuple[Any, ...], command: Command, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    out = tmp_path / "q.gmp"
    (tmp_path / "q.gmp.part").symlink_to(precious)
    os.mkfifo(tmp_path / "q.gmp.tmp")
    before = set(tmp_path.iterdir())
    assert command(*writer, out).returncode == 0
    assert precious.read_text() == "mine"
    assert set(tmp_path.iterdir()) - before == {out}
    assert out.stat().st_size > 0


def test_a_link_in_the_place_of_the_output_is_not_followed(
    writer: tuple[Any, ...], command: Command, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    out = tmp_path / "q.gmp"
    for target in (precious, tmp_path / "not there yet"):
        out.symlink_to(target)
        assert command(*writer, out).returncode == 2
        assert command(*writer, out, "-f").returncode == 0
        assert precious.read_text() == "mine"
        assert not (tmp_path / "not there yet").exists()
        assert not out.is_symlink()
        out.unlink()


def open_files(process: int) -> list[str]:
    names = []
    for link in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(OSError):
            names.append(str(link.readlink()))
    return names


def test_a_killed_writer_leaves_nothing(tmp_path: Path) -> None:
    big = tmp_path / "big.pickle"
    snapshot = pickle.loads(gzip.decompress(snapshot_path("clean_training").read_bytes()))
    snapshot["device_traces"][0] *= 10
    big.write_bytes(pickle.dumps(snapshot))
    folder = tmp_path / "out"
    folder.mkdir()
    words = ["convert", str(big), "--to", "torch-snapshot", str(folder / "x")]
    with subprocess.Popen([sys.executable, "-m", "gpumemprof", *words]) as process:
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                if any(str(folder) in name for name in open_files(process.pid)):
                    break
        process.send_signal(signal.SIGKILL)
    assert all(path.name == "x" for path in folder.iterdir())


ESCAPES = "\x1b]0;title\x07\x1b[31m\u009b2J\u202egnp\u2066"
HARMFUL = set(ESCAPES) - set("]0;title[31m2Jgnp")


def hostile_snapshot(folder: Path) -> Path:
    snapshot = pickle.loads(gzip.decompress(SOURCE.read_bytes()))
    name = f"evil{ESCAPES}\nPeak: 0 B"
    for annotation in snapshot["external_annotations"]:
        annotation["name"] = name
    for events in snapshot["device_traces"]:
        for event in events:
            event["frames"] = [
                {"name": name, "filename": f"/data/{name}.py", "line": 3} for _ in range(2)
            ]
    path = folder / f"run{ESCAPES}.pickle"
    path.write_bytes(pickle.dumps(snapshot))
    return path


def assert_harmless(text: str) -> None:
    assert not HARMFUL & set(text), sorted(HARMFUL & set(text))


def test_names_do_nothing_to_a_terminal(command: Command, tmp_path: Path) -> None:
    path = hostile_snapshot(tmp_path)
    for words in (
        ("report", path),
        ("report", path, "--modules", "--steps"),
        ("report", path, "--at", "40"),
        ("report", path, "--json"),
        ("advise", path),
        ("advise", path, "--json"),
        ("simulate", path),
        ("simulate", path, "--json"),
        ("report", f"{path}-not-there"),
        ("report", path, "--device", ESCAPES),
        ("convert", path, "--to", ESCAPES, "x"),
        (ESCAPES,),
    ):
        ended = command(*words)
        assert_harmless(ended.stdout)
        assert_harmless(ended.stderr)
    report = command("report", path).stdout
    assert "\nPeak: 0 B" not in report
    # JSON still contains exactly what the file contains.
    texts: list[str] = []

    def collect(value: Any) -> None:
        if isinstance(value, dict):
            collect(list(value.values()))
        elif isinstance(value, list):
            for item in value:
                collect(item)
        elif isinstance(value, str):
            texts.append(value)

    collect(json.loads(command("report", path, "--json").stdout))
    assert any(f"evil{ESCAPES}\n" in text for text in texts)


def test_names_do_nothing_when_python_prints_them(tmp_path: Path) -> None:
    path = hostile_snapshot(tmp_path)
    recording = gpumemprof.load(path)
    for thing in (recording, recording.stack(0)[0]):
        assert_harmless(str(thing))
        assert_harmless(repr(thing))
    with pytest.raises(gpumemprof.InputError) as missing:
        gpumemprof.load(f"{path}-not-there")
    assert_harmless(str(missing.value))


def test_a_path_with_a_zero_byte_opens_nothing(tmp_path: Path) -> None:
    with pytest.raises((gpumemprof.Error, ValueError), match="zero byte"):
        gpumemprof.load(f"{SOURCE}\0x")


def test_verify_runs_nothing_of_the_current_folder(tmp_path: Path) -> None:
    for name in ("warnings", "runpy", "json", "typing", "torch", "start"):
        (tmp_path / f"{name}.py").write_text(f"print('PLANTED {name}')\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "beside.py").write_text("SIZE = 9\n")
    program = """
import sys, torch, beside
layer = torch.nn.Linear(beside.SIZE, 5)
optimizer = torch.optim.SGD(layer.parameters())
layer(torch.randn(2, beside.SIZE)).sum().backward()
optimizer.step()
print(sys.path[0])
"""
    (tmp_path / "sub" / "t.py").write_text(program)
    for words in (["advise", "--verify", "fused", "--"], ["run", "--cpu", "-o", "x.gmp", "-f"]):
        ended = subprocess.run(
            [COMMAND, *words, "sub/t.py"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        assert "PLANTED" not in ended.stdout + ended.stderr
        assert str(tmp_path / "sub") in ended.stdout


def limited(*words: Any, megabytes: int) -> subprocess.CompletedProcess[str]:
    """The command with this much memory and no more."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))

    return subprocess.run(
        [sys.executable, "-m", "gpumemprof", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=limit,
    )


def write_snapshot(path: Path, events: list[dict[str, Any]], devices: int = 1) -> None:
    traces = [[dict(event) for event in events] for _ in range(devices)]
    out = io.BytesIO()
    pickle.Pickler(out, protocol=4).dump({"segments": [], "device_traces": traces})
    path.write_bytes(out.getvalue())


def allocations(count: int, frames: Any) -> list[dict[str, Any]]:
    rows = []
    for index in range(count):
        row = {"addr": 4096 * (index + 1), "size": 4096, "stream": 0, "frames": frames(index)}
        rows.append(row | {"action": "alloc", "time_us": 10 * index})
    return rows


def test_a_page_of_long_names_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "long.pickle"
    names = [f"{index}" * 1250 for index in range(1500)]  # 7 MB

    def frames(index: int) -> list[dict[str, Any]]:
        return [
            {"name": names[(index + depth) % 1500], "filename": "/x.py", "line": depth}
            for depth in range(8)
        ]

    write_snapshot(path, allocations(1500, frames))
    ended = limited("report", "--html", tmp_path / "long.html", path, megabytes=1200)
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "long.html").stat().st_size < 12_000_000


def test_a_page_of_many_devices_holds_the_fullest(tmp_path: Path) -> None:
    path = tmp_path / "many.pickle"
    write_snapshot(path, allocations(20, lambda _: []), devices=300)
    ended = limited("report", "--html", tmp_path / "many.html", path, megabytes=1200)
    assert ended.returncode == 0, ended.stderr
    assert "284 devices with lower peaks" in ended.stdout


def test_a_zip_bomb_is_given_up_early(tmp_path: Path) -> None:
    path = tmp_path / "bomb.pickle.gz"
    with gzip.open(path, "wb", compresslevel=6) as file:
        file.write(b"\x80\x04")
        for _ in range(900):
            file.write(b"}" * (1 << 20))
    assert path.stat().st_size < 2_000_000
    ended = limited("report", path, megabytes=1200)
    assert ended.returncode == 3, ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert "MiB" in ended.stderr or "expands" in ended.stderr
