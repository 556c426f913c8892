"""Missing, empty, random, malicious and truncated files: one sentence, exit code 3, no crash."""

from __future__ import annotations

import gzip
import os
import pickle
import random
import signal
import threading

import gpumemprof
import pytest
from conftest import snapshot_path

WORTHLESS = {
    "empty": (b"", "the file is empty"),
    "random": (random.Random(7).randbytes(5000), "byte "),
    "text": (b"step,loss\n1,2.5\n", "this is a text file"),
    "code": (b"class Model(nn.Module):\n    pass\n", "this is a text file"),
    "zip": (b"PK\x03\x04" + bytes(100), "torch.save"),
    "some other pickle": (pickle.dumps({"weights": [1, 2, 3]}), "not a PyTorch memory snapshot"),
    "a number": (pickle.dumps(17), "not a PyTorch memory snapshot"),
    "a global": (b"cos\nsystem\n(S'true'\ntR.", "os.system"),
    "a class": (pickle.dumps(random.Random), "random"),
    "a huge length": (b"\x80\x04\x8d" + (10**18).to_bytes(8, "little") + b"x", "byte "),
    "deep nesting": (b"\x80\x02" + b"(" * 1_000_000, "byte "),
    "a memo bomb": (b"\x80\x04](" + b"2" * 500_000 + b"e.", "snapshot"),
    "a zipped nothing": (gzip.compress(b""), "byte "),
}


@pytest.fixture(params=WORTHLESS, ids=[name.replace(" ", "_") for name in WORTHLESS])
def worthless(request, tmp_path):
    content, expected = WORTHLESS[request.param]
    path = tmp_path / "input.pickle"
    path.write_bytes(content)
    return path, expected


def test_a_recording_that_is_zipped_or_damaged_is_not_called_a_snapshot(tmp_path):
    content = (snapshot_path("train_mlp").parent.parent / "traces/cpu_training.gmp").read_bytes()
    damaged = tmp_path / "run.gmp"
    damaged.write_bytes(b"\xff\xc0" + content[2:])
    with pytest.raises(gpumemprof.InputError, match=r"run\.gmp: this is not a recording"):
        gpumemprof.load(damaged)
    zipped = tmp_path / "run.gmp.gz"
    zipped.write_bytes(gzip.compress(content))
    with pytest.raises(gpumemprof.InputError, match="this is a zipped recording; unzip it first"):
        gpumemprof.load(zipped)


def assert_is_one_sentence(text, path):
    assert text.startswith(str(path))
    assert "\n" not in text
    assert len(text) < len(str(path)) + 400


def test_refuses_worthless_files_in_one_sentence(worthless):
    path, expected = worthless
    with pytest.raises(gpumemprof.InputError) as caught:
        gpumemprof.load(path)
    error = caught.value
    assert_is_one_sentence(str(error), path)
    assert expected in str(error)
    assert error.code == "bad_input"
    assert error.where.startswith(str(path))
    assert isinstance(error, ValueError)


def test_the_command_says_the_same_and_exits_with_3(worthless, command):
    path, _ = worthless
    with pytest.raises(gpumemprof.InputError) as caught:
        gpumemprof.load(path)
    ended = command("report", path)
    assert ended.returncode == 3
    assert ended.stderr == f"gpumemprof: {caught.value}\n"
    assert ended.stdout == ""


def test_a_missing_file_is_missing_for_python_too(tmp_path, command):
    path = tmp_path / "nothing.pickle"
    with pytest.raises(FileNotFoundError) as caught:
        gpumemprof.load(path)
    error = caught.value
    assert isinstance(error, gpumemprof.InputError)
    assert str(error) == f"{path}: no such file; check the path"
    assert error.filename == str(path)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    ended = command("report", path)
    assert (ended.returncode, ended.stderr) == (3, f"gpumemprof: {error}\n")


def test_a_folder_is_no_snapshot(tmp_path):
    with pytest.raises(gpumemprof.InputError, match="this is a folder"):
        gpumemprof.load(tmp_path)


def test_a_bad_file_does_not_hide_the_good_ones(tmp_path, command):
    good = snapshot_path("mlp_b64_fp32_adam")
    ended = command("report", tmp_path / "none", good)
    assert ended.returncode == 3
    assert "no such file" in ended.stderr
    assert "cuda:0" in ended.stdout


@pytest.fixture(scope="module")
def whole():
    return gzip.decompress(snapshot_path("gpt2_b4_fp32_adamw").read_bytes())


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9, 0.99])
@pytest.mark.parametrize("is_zipped", [False, True])
def test_a_cut_file_opens_as_far_as_it_goes(share, is_zipped, whole, tmp_path, command):
    content = gzip.compress(whole) if is_zipped else whole
    path = tmp_path / "cut.pickle"
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.warns(gpumemprof.CutFileWarning) as warned:
        recording = gpumemprof.load(path)
    assert recording.cut == str(warned[0].message)
    assert warned[0].filename == __file__
    assert recording.cut.startswith(f"{path}, byte ")
    assert repr(recording).endswith("events, cut>")
    assert recording.report()["input"]["cut"]["byte_offset"] > 0
    ended = command("report", path)
    assert ended.returncode == 3
    assert ended.stderr == f"gpumemprof: {recording.cut}\n"
    assert ended.stdout


def test_a_cut_file_gives_the_events_before_the_cut(whole, tmp_path):
    path = tmp_path / "cut.pickle"
    path.write_bytes(whole[: len(whole) * 9 // 10])
    with pytest.warns(gpumemprof.CutFileWarning):
        recording = gpumemprof.load(path)
    complete = gpumemprof.load(snapshot_path("gpt2_b4_fp32_adamw"))
    assert 0 < len(recording.events) <= len(complete.events)
    for device in recording.devices:
        assert sum(group.bytes for group in device.live_at_peak) == device.peak.allocated_bytes


def test_a_whole_file_is_not_cut(oom_run, recwarn):
    assert oom_run.cut is None
    gpumemprof.load(oom_run.path)
    assert not recwarn.list


@pytest.fixture
def endless():
    """A pipe that delivers opcodes until nobody reads any more, and Ctrl-C while it is read."""
    read_end, write_end = os.pipe()
    limit_bytes = 1 << 30

    def write() -> None:
        chunk = b"N0" * (1 << 19)
        try:
            with os.fdopen(write_end, "wb") as pipe:
                pipe.write(b"\x80\x04")
                for sent in range(0, limit_bytes, len(chunk)):
                    pipe.write(chunk)
                    if sent == 16 * len(chunk):
                        os.kill(os.getpid(), signal.SIGINT)
        except BrokenPipeError:
            pass

    # A test run in the background of a shell inherits SIGINT as ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    writer = threading.Thread(target=write)
    writer.start()
    yield f"/dev/fd/{read_end}"
    os.close(read_end)
    writer.join()
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_a_long_read(endless):
    # The writer is a thread of this process, so this also shows that the GIL is released meanwhile.
    with pytest.raises(KeyboardInterrupt):
        gpumemprof.load(endless)
