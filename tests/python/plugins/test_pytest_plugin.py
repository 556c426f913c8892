"""The pytest plugin: limits on what tests allocate and leave behind; nothing unless it is used."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from capture_programs import run_recorded
from doc_pages import ROOT, run_page

pytest.importorskip("torch")

SUITE = """
import pytest, torch

kept = []
MIB = 1 << 18  # floats

@pytest.mark.limit_gpu_memory("2 MiB")
def test_fits():
    torch.empty(MIB)
    torch.empty(MIB)

@pytest.mark.limit_gpu_memory("2 MiB")
def test_is_large():
    first = torch.empty(MIB)
    del first
    second = torch.empty(3 * MIB)
    third = torch.empty(MIB // 2)

@pytest.mark.limit_gpu_leaks("64 KiB")
def test_leaks():
    torch.empty(MIB)
    kept.append(torch.empty(MIB))

@pytest.mark.limit_gpu_leaks("64 KiB", warmups=2)
def test_fills_a_cache():
    if len(kept) < 2:
        kept.append(torch.empty(MIB))
    kept[-1].sum()

@pytest.mark.limit_gpu_leaks(0)
def test_makes_a_cycle():
    cycle = [torch.empty(MIB)]
    cycle.append(cycle)
"""


def run_suite(folder: Path, text: str, *words: str, **variables: str) -> tuple[int, str]:
    (folder / "test_suite.py").write_text(textwrap.dedent(text))
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "120", **variables}
    for name in ("CI", "BUILD_NUMBER", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "GPUMEMPROF"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rf", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("words", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_a_test_fails_if_it_allocates_or_leaves_too_much(tmp_path, words):
    code, text = run_suite(tmp_path, SUITE, *words)
    assert code == 1
    failed = set(re.findall(r"FAILED \S+::(\w+)", text))
    assert failed == {"test_is_large", "test_leaks"}
    assert "3 passed" in text
    assert "test_is_large allocated 3.50 MiB on cpu at its peak" in text
    assert "more than its limit of 2.00 MiB (limit_gpu_memory)" in text
    # The lines that were live at the peak, without the one that was freed before.
    assert re.search(r"3\.00 MiB  test_suite.py:\d+ in test_is_large", text)
    assert re.search(r"512 KiB  test_suite.py:\d+ in test_is_large", text)
    assert "test_leaks left 1.00 MiB allocated on cpu" in text
    assert text.count("1.00 MiB  test_suite.py:") == 1
    failures = text.partition("= FAILURES =")[2].partition("summary")[0]
    assert "test_leaks" in failures
    assert "Traceback" not in failures
    assert "File " not in failures


def test_a_test_that_fails_by_itself_says_only_that(tmp_path):
    code, text = run_suite(
        tmp_path,
        """
        import pytest, torch
        @pytest.mark.limit_gpu_memory("1 KiB")
        @pytest.mark.limit_gpu_leaks("1 KiB")
        def test_both():
            big = torch.empty(1 << 20)
            assert big.numel() == 3
        """,
    )
    assert code == 1
    assert "assert big.numel() == 3" in text
    assert "limit of" not in text


def test_both_limits_of_a_class_and_of_methods(tmp_path):
    code, text = run_suite(
        tmp_path,
        """
        import pytest, torch, unittest
        kept = []
        @pytest.mark.limit_gpu_memory("1 MiB", device="cpu")
        class TestMany:
            def test_small(self): torch.empty(10)
            @pytest.mark.limit_gpu_leaks("1 KiB", 1)
            def test_large(self): kept.append(torch.empty(1 << 20))
        @pytest.mark.limit_gpu_memory(100)
        class TestOld(unittest.TestCase):
            def setUp(self): self.runs = 0
            @pytest.mark.limit_gpu_leaks(0, warmups=3)
            def test_runs(self):
                kept.append(None)
                assert kept.count(None) <= 4
            def test_large(self): torch.empty(100)
        def test_ran_four_times(): assert kept.count(None) == 4
        """,
    )
    assert code == 1
    assert set(re.findall(r"FAILED \S+::(\w+::\w+)", text)) == {
        "TestMany::test_large",
        "TestOld::test_large",
    }
    assert "test_large allocated 4.00 MiB" in text
    assert "test_large left 4.00 MiB allocated on cpu, after 1 warm-up run" in text
    assert "test_large allocated 400 B" in text


def test_a_unittest_that_fails_by_itself_says_only_that_and_once(tmp_path):
    code, text = run_suite(
        tmp_path,
        """
        import pytest, torch, unittest
        runs = []
        class TestOld(unittest.TestCase):
            @pytest.mark.limit_gpu_memory("1 KiB")
            def test_fails(self):
                torch.empty(1 << 20)
                self.fail("by itself")
            @pytest.mark.limit_gpu_leaks("1 KiB", warmups=3)
            def test_fails_while_it_warms_up(self):
                runs.append(1)
                self.fail("by itself")
            @pytest.mark.limit_gpu_memory("1 KiB")
            def test_skips(self):
                torch.empty(1 << 20)
                self.skipTest("by itself")
        def test_ran_once(): assert runs == [1]
        """,
    )
    assert code == 1
    assert "limit of" not in text
    assert re.search(r"2 failed, 1 passed, 1 skipped in", text), text
    assert text.count("AssertionError: by itself") >= 2
    assert "another run" not in text


def test_an_asynchronous_unittest_warms_up_and_has_lines(tmp_path):
    code, text = run_suite(
        tmp_path,
        """
        import asyncio, pytest, torch, unittest
        kept = []
        class TestAsync(unittest.IsolatedAsyncioTestCase):
            @pytest.mark.limit_gpu_leaks("1 KiB", warmups=2)
            async def test_leaks(self):
                await asyncio.sleep(0)
                kept.append(torch.empty(1 << 20))
        """,
    )
    assert code == 1
    assert "test_leaks left 4.00 MiB allocated on cpu, after 2 warm-up runs" in text
    assert re.search(r"4\.00 MiB  test_suite.py:\d+ in TestAsync.test_leaks", text)


def test_without_lines_the_message_says_why(tmp_path):
    code, text = run_suite(
        tmp_path,
        """
        import pytest, torch
        @pytest.mark.limit_gpu_memory("1 KiB")
        def test_once(tmp_path):
            (tmp_path / "made").mkdir()
            torch.empty(1 << 20)
        """,
    )
    assert code == 1
    assert "test_once allocated 4.00 MiB" in text
    assert "Its lines are not known: a second run of it failed" in text
    assert "on these lines" not in text


def test_a_test_that_ran_several_times_is_listed_once():
    from gpumemprof.integrations.testing.summary import summary_lines
    from gpumemprof.integrations.testing.used import Used

    rows = [("a", Used("cpu", 1, 0)), ("b", Used("cpu", 2, 0)), ("a", Used("cpu", 3, 0))]
    rows += [("c", Used("cpu", None, None)), ("a", Used("cuda:0", 0, 0))]
    names = [line.split()[-1] for line in summary_lines(rows, 10)[1:]]
    assert names == ["a", "b", "a", "c"]


@pytest.mark.parametrize(
    ("mark", "sentence"),
    [
        ('limit_gpu_memory("2 apples")', "takes a size such as \"2 GiB\", but has '2 apples'"),
        ("limit_gpu_memory()", 'takes a size such as "2 GiB", but is limit_gpu_memory()'),
        ("limit_gpu_memory(-1)", "but has -1"),
        ("limit_gpu_memory(True)", "but has True"),
        ("limit_gpu_leaks(1, warmups='two')", "takes a number of warmups, but has 'two'"),
        ("limit_gpu_leaks(1, wormups=2)", "but is limit_gpu_leaks(1, wormups=2)"),
        ("limit_gpu_memory(1, device='cuda:0')", "there is no CUDA memory to profile"),
        ("limit_gpu_memory(1, device='cuda:0')", 'device="cpu" measures CPU tensors'),
        ("limit_gpu_memory(1, device='tpu')", "'tpu' is not a CUDA device"),
    ],
)
def test_a_wrong_mark_is_one_sentence(tmp_path, mark, sentence):
    code, text = run_suite(
        tmp_path, f"import pytest\n@pytest.mark.{mark}\ndef test_it(): pass\n", "--strict-markers"
    )
    assert code == 1
    assert f"test_it: {sentence}" in text or sentence in text
    assert "another exception" not in text
    assert "Traceback" not in text
    assert "File " not in text


UNMARKED = """
import sys
def test_nothing():
    assert not [name for name in sys.modules if name.split(".")[0] in ("torch", "gpumemprof")]
"""


def test_without_marks_neither_torch_nor_our_core_is_imported(tmp_path):
    code, text = run_suite(tmp_path, UNMARKED, "-v")
    assert code == 0, text
    # The check itself works: the plugin is there, and its use imports both.
    code, text = run_suite(tmp_path, UNMARKED, "--gpumemprof")
    assert code == 1
    assert "gpumemprof" in text


def test_the_package_itself_imports_no_integration():
    program = """
import sys, gpumemprof
tools = ("pytest", "IPython", "prometheus_client", "lightning", "transformers", "wandb", "mlflow")
assert not [name for name in sys.modules if name.startswith("gpumemprof.integrations")]
assert not [name for name in tools if name in sys.modules]
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_without_marks_no_hook_of_ours_runs_during_tests(tmp_path):
    (tmp_path / "conftest.py").write_text(
        textwrap.dedent(
            """
            def pytest_sessionfinish(session):
                hooks = session.config.hook
                for name in ("pytest_runtest_call", "pytest_runtest_protocol"):
                    for one in getattr(hooks, name).get_hookimpls():
                        assert "gpumemprof" not in one.plugin_name, one
            """
        )
    )
    code, text = run_suite(tmp_path, UNMARKED)
    assert code == 0, text


@pytest.mark.parametrize("words", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_the_summary_lists_the_tests_that_used_most(tmp_path, words):
    code, text = run_suite(
        tmp_path,
        """
        import pytest, torch
        kept = []
        @pytest.mark.parametrize("size", [1, 2, 3])
        def test_size(size):
            torch.empty(size << 20, dtype=torch.uint8)
        def test_keeps(): kept.append(torch.empty(100, dtype=torch.uint8))
        def test_fails():
            big = torch.empty(5 << 20, dtype=torch.uint8)
            raise ValueError
        """,
        "--gpumemprof",
        "--gpumemprof-top=4",
        "--junitxml=out.xml",
        *words,
    )
    assert code == 1
    table = text.partition("gpumemprof: memory of tests")[2]
    rows = re.findall(r"^ *(\S+ \S+) +(\S+ \S+) +cpu +(\S+)$", table, re.MULTILINE)
    assert [(peak, name.partition("::")[2]) for peak, _, name in rows] == [
        ("5.00 MiB", "test_fails"),
        ("3.00 MiB", "test_size[3]"),
        ("2.00 MiB", "test_size[2]"),
        ("1.00 MiB", "test_size[1]"),
    ]
    assert "… and 1 more" in table
    found = {
        case.get("name"): {one.get("name"): one.get("value") for one in case.iter("property")}
        for case in ET.parse(tmp_path / "out.xml").iter("testcase")
    }
    assert found["test_keeps"] == {
        "gpumemprof_peak_bytes_cpu": "100",
        "gpumemprof_left_bytes_cpu": "100",
    }


def test_the_fixture_is_a_profiler(tmp_path):
    code, text = run_suite(
        tmp_path,
        """
        import torch
        def test_it(gpu_memory):
            with gpu_memory.profile_context("forward") as forward:
                kept = torch.empty(1000)
                torch.empty(500)
            assert forward.result.peak_above_start() == 6000
            assert gpu_memory.profile_function(torch.empty, 10).memory_allocated == 40
        """,
    )
    assert code == 0, text


def test_the_page_prints_what_it_says(tmp_path):
    assert run_page(ROOT / "docs" / "integrations" / "pytest.md", tmp_path) == 2


def test_our_modules_are_imported_as_they_are_and_those_of_the_suite_are_not(
    tmp_path: Path,
) -> None:
    suite = """
    import pytest, sys

    @pytest.mark.limit_gpu_memory("2 MiB")
    def test_loaders():
        plugin = sys.modules["gpumemprof.integrations.testing.plugin"]
        print("ours:", type(plugin.__loader__).__name__)
        print("suite:", type(sys.modules[__name__].__loader__).__name__)
        import imported_late
    """
    (tmp_path / "imported_late.py").write_text("")
    code, output = run_suite(tmp_path, suite, "-s")
    assert code == 0, output
    assert "ours: SourceFileLoader" in output
    assert "suite: AssertionRewritingHook" in output


def test_pytest_is_recorded_without_a_warning(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text("import torch\ndef test(): torch.ones(3)\n")
    words = ["-W", "error::pytest.PytestAssertRewriteWarning", "-p", "no:cacheprovider"]
    done = run_recorded(tmp_path, "--cpu", "-o", "run.gmp", "-m", "pytest", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 allocation" in done.stderr
    assert "rewritten" not in done.stdout + done.stderr
