"""record(), start() and stop(), step() and tag(): nesting, threads, forks, misuse."""

from __future__ import annotations

import os
import pickle
import threading
import time
import warnings
from pathlib import Path

import gpumemprof
import pytest
from forked_programs import run_forked
from gpumemprof.__main__ import main

torch = pytest.importorskip("torch")


def allocate(size: int) -> object:
    return torch.empty(size, dtype=torch.uint8)


def live_bytes(path: object) -> int:
    devices = gpumemprof.load(str(path)).devices
    return devices[0].end.allocated_bytes if devices else 0


def test_recordings_nest(tmp_path: Path) -> None:
    with gpumemprof.record(tmp_path / "outer.gmp", cpu=True) as outer:
        first = allocate(1000)
        with gpumemprof.record(tmp_path / "inner.gmp", cpu=True) as inner:
            second = allocate(200)
        third = allocate(30)
    assert live_bytes(outer.path) == 1230
    assert live_bytes(inner.path) == 200
    del first, second, third


def test_a_recording_without_an_allocation_claims_no_peak(tmp_path: Path) -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(10))], 0.1)
    with gpumemprof.record(tmp_path / "idle.gmp", cpu=True):
        optimizer.step()
    text = gpumemprof.load(tmp_path / "idle.gmp").to_text()
    assert "idle.gmp: recording, no event" in text
    assert "cpu:0: no allocation or free was recorded." in text
    assert "0 B" not in text


def test_recordings_overlap(tmp_path: Path) -> None:
    first = gpumemprof.start(tmp_path / "first.gmp", cpu=True)
    kept = [allocate(1000)]
    second = gpumemprof.start(tmp_path / "second.gmp", cpu=True)
    kept.append(allocate(200))
    first.stop()
    kept.append(allocate(30))
    assert gpumemprof.stop() is second
    assert live_bytes(first.path) == 1200
    assert live_bytes(second.path) == 230


def has_host_memory(path: Path) -> bool:
    """Whether a recording that still grows says what main memory there was."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gpumemprof.CutFileWarning)
        facts = gpumemprof.load(path).report()["input"]["facts"]
    return "host_available_bytes" in facts


def wait_for_host_memory(path: Path) -> bool:
    for _ in range(600):
        if path.stat().st_size and has_host_memory(path):
            return True
        time.sleep(0.1)
    return False


def test_a_recording_that_joins_learns_of_main_memory_too(tmp_path: Path) -> None:
    with gpumemprof.record(tmp_path / "first.gmp", cpu=True):
        assert wait_for_host_memory(tmp_path / "first.gmp")
        with gpumemprof.record(tmp_path / "second.gmp", cpu=True):
            assert wait_for_host_memory(tmp_path / "second.gmp")


def test_decorates_a_function_and_numbers_its_files(tmp_path: Path) -> None:
    @gpumemprof.record(tmp_path / "run.gmp", cpu=True)
    def work(size: int) -> object:
        """Its own words."""
        return allocate(size)

    kept = [work(100), work(20)]
    assert work.__doc__ == "Its own words."
    assert live_bytes(tmp_path / "run.gmp") == 100
    assert live_bytes(tmp_path / "run.2.gmp") == 20
    del kept


def test_a_recursive_function_makes_one_recording(tmp_path: Path) -> None:
    kept = []

    @gpumemprof.record(tmp_path / "run.gmp", cpu=True)
    def work(depth: int) -> None:
        kept.append(allocate(10))
        if depth > 0:
            work(depth - 1)

    work(4)
    assert live_bytes(tmp_path / "run.gmp") == 50
    assert len(list(tmp_path.iterdir())) == 1


def test_an_exception_passes_and_the_file_is_whole(tmp_path: Path) -> None:
    with pytest.raises(KeyError), gpumemprof.record(tmp_path / "run.gmp", cpu=True):
        kept = allocate(1000)
        raise KeyError("mine")
    assert live_bytes(tmp_path / "run.gmp") == 1000
    del kept


def test_a_child_never_writes_its_parents_file(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with gpumemprof.record(tmp_path / "parent.gmp", cpu=True) as parent:
            kept = allocate(1000)
            child = os.fork()
            if child == 0:
                own = [allocate(5000) for _ in range(100)]
                with gpumemprof.record(tmp_path / "child.gmp", cpu=True):
                    own.append(allocate(77))
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
    assert live_bytes(parent.path) == 1000
    assert live_bytes(tmp_path / "child.gmp") == 77
    assert gpumemprof.load(parent.path).devices[0].counters.allocations == 1
    del kept


def test_threads_may_record_at_once(tmp_path: Path) -> None:
    problems = []

    def work(number: int) -> None:
        try:
            for turn in range(5):
                with gpumemprof.record(tmp_path / f"{number}.{turn}.gmp", cpu=True):
                    allocate(1000)
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len(list(tmp_path.iterdir())) == 20


def test_steps_and_tags_are_in_the_file(tmp_path: Path) -> None:
    @gpumemprof.tag("function")
    def tagged() -> object:
        return allocate(1)

    with gpumemprof.record(tmp_path / "run.gmp", cpu=True) as recording:
        gpumemprof.step()
        kept = [allocate(10)]
        with gpumemprof.tag("outer"):
            kept.append(allocate(20))
            with gpumemprof.tag("inner"):
                kept.append(allocate(30))
            kept.append(allocate(40))
        kept.append(tagged())
        gpumemprof.step()
    pyarrow = pytest.importorskip("pyarrow")
    events = pyarrow.table(gpumemprof.load(recording.path).events).to_pylist()
    assert [(e["size_bytes"], e["user_metadata"]) for e in events] == [
        (10, None),
        (20, "outer"),
        (30, "inner"),
        (40, "outer"),
        (1, "function"),
    ]


def test_marks_number_steps_as_reports_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpumemprof.hooks.steps._steps", 0)
    with gpumemprof.record(tmp_path / "run.gmp", cpu=True) as recording:
        kept = []
        for _ in range(2):
            gpumemprof.step()
            kept.append(allocate(10))
    out = tmp_path / "run.pickle"
    assert main(["convert", recording.path, str(out), "--to", "torch-snapshot"]) == 0
    names = [one["name"] for one in pickle.loads(out.read_bytes())["external_annotations"]]
    assert [name for name in names if name.startswith("step")] == ["step 1", "step 1", "step 2"]
    rows = gpumemprof.load(recording.path).report()["devices"][0]["steps"]
    assert [row["step"] for row in rows] == [1, 2]


def test_steps_and_tags_cost_nothing_without_a_recording() -> None:
    gpumemprof.step()
    with gpumemprof.tag("nothing"):
        pass


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_tag_must_be_a_text(name: object) -> None:
    with pytest.raises(gpumemprof.UsageError):
        gpumemprof.tag(name)  # type: ignore[arg-type]


def test_an_existing_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "run.gmp"
    path.write_text("precious")
    with (
        pytest.raises(gpumemprof.Error, match="the file already exists"),
        gpumemprof.record(path, cpu=True),
    ):
        pass
    assert path.read_text() == "precious"
    with gpumemprof.record(path, cpu=True, overwrite=True):
        kept = allocate(10)
    assert live_bytes(path) == 10
    del kept


def test_a_folder_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(gpumemprof.Error, match=r"cannot be written"):
        gpumemprof.start(tmp_path / "nowhere" / "run.gmp")


def test_stop_without_start_says_so() -> None:
    with pytest.raises(gpumemprof.UsageError, match="nothing is being recorded"):
        gpumemprof.stop()


def test_stopping_twice_does_no_harm(tmp_path: Path) -> None:
    recording = gpumemprof.start(tmp_path / "run.gmp", cpu=True)
    recording.stop()
    recording.stop()


def named_in_stacks(path: object, name: str) -> bool:
    recording = gpumemprof.load(str(path))
    return any(
        frame.name == name
        for device in recording.devices
        for group in device.live_at_peak
        for frame in group.stack
    )


def test_a_threads_state_is_read_where_python_keeps_it(tmp_path: Path) -> None:
    with gpumemprof.record(tmp_path / "run.gmp", cpu=True):
        is_read = gpumemprof._core.capture_use_thread_key()
        kept = allocate(1000)
    assert is_read
    assert named_in_stacks(tmp_path / "run.gmp", "allocate")
    del kept


def test_a_child_that_records_has_stacks_though_python_keeps_them_elsewhere(tmp_path: Path) -> None:
    with gpumemprof.record(tmp_path / "parent.gmp", cpu=True):
        child = os.fork()
        if child == 0:
            # Not through pytest, which would report from here too.
            path, is_right = tmp_path / "child.gmp", False
            try:
                with gpumemprof.record(path, cpu=True):
                    kept = allocate(1000)
                is_right = named_in_stacks(path, "allocate")
                del kept
            finally:
                os._exit(0 if is_right else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_program_near_a_limit_on_its_address_space_still_fits(tmp_path: Path) -> None:
    done = run_forked(
        tmp_path,
        """
        import gpumemprof, re, torch
        def address_space():
            status = open("/proc/self/status").read()
            return int(re.search(r"VmSize:\\s*(\\d+) kB", status)[1]) << 10
        before = address_space()
        recording = gpumemprof.start("run.gmp", cpu=True)
        kept = torch.ones(1000)
        during = address_space()
        recording.stop()
        # The largest part is what the C library reserves for whatever a thread allocates: 64 MiB.
        assert during - before < 120 << 20, f"{(during - before) / (1 << 20):.1f} MiB"
        """,
    )
    assert done.returncode == 0, done.stderr
