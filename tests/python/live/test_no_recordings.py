"""Files and folders that are no recordings, or not yet."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize("text", ["hello\n", "a text of more than sixteen bytes\n"])
def test_a_text_is_no_recording(tmp_path: Path, command: Any, text: str) -> None:
    path = tmp_path / "text.gmp"
    path.write_text(text)
    done = command("live", str(path), "--once")
    assert done.returncode == 3
    assert done.stderr == (
        f"gpumemprof: {path}: this is not a recording; name a .gmp file that gpumemprof run "
        "writes\n"
    )


@pytest.mark.parametrize("start", [b"", b"\x89GM"])
def test_a_file_may_be_waiting_for_its_first_bytes(
    tmp_path: Path, command: Any, start: bytes
) -> None:
    path = tmp_path / "new.gmp"
    path.write_bytes(start)
    done = command("live", str(path), "--once")
    assert (done.returncode, done.stderr) == (0, "")
    assert "nothing has been written yet" in done.stdout
    os.utime(path, (1, 1))
    done = command("live", str(path), "--once")
    assert "and no process writes to it" in " ".join(done.stdout.split())


def test_an_empty_folder_is_not_listed_as_a_recording(tmp_path: Path, command: Any) -> None:
    (tmp_path / "keep.gmp").mkdir()
    done = command("live", str(tmp_path), "--once")
    assert done.returncode == 3
    assert "no recording (.gmp) yet" in done.stderr
    done = command("live", str(tmp_path / "keep.gmp"), "--once")
    assert "nothing has been written yet" in done.stdout


def test_a_pipe_is_no_recording(tmp_path: Path, command: Any) -> None:
    os.mkfifo(tmp_path / "pipe.gmp")
    done = command("live", str(tmp_path), "--once")
    assert done.returncode == 3
    assert "no recording (.gmp) yet" in done.stderr
    done = command("live", str(tmp_path / "pipe.gmp"), "--once")
    assert done.returncode == 3
    assert "pipe.gmp: not a file; name a recording, a folder or a process" in done.stderr
