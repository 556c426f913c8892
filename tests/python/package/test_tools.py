"""The checkers of tools/: what they catch, and what they accept."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools"))

import check_abi
import check_docs
import check_includes
import check_tree
import count_tests


def include_problems(path: str, text: str) -> list[str]:
    return list(check_includes.check_file(Path(path), text, set()))


@pytest.mark.parametrize(
    ("path", "include"),
    [
        ("src/base/a.cpp", '"base/bytes.h"'),
        ("src/base/a.cpp", "<string_view>"),
        ("src/ingest/pickle/a.cpp", "<zlib.h>"),
        ("src/replay/a.cpp", '"store/store.h"'),
        ("src/report/text/a.cpp", '"analysis/peak/peak.h"'),
        ("src/capture/stream/a.cpp", '"capture/stacks/thread_slot.h"'),
        ("src/capture/a.cpp", '"capture/hooks/engine.h"'),
        ("python/bindings/a.cpp", "<nanobind/nanobind.h>"),
        ("python/bindings/a.cpp", '"bind_report.h"'),
        ("src/api/reader/a.cpp", '"gpumemprof/gpumemprof.h"'),
    ],
)
def test_lets_pass_what_the_design_allows(path, include):
    assert include_problems(path, f"#include {include}\n") == []


@pytest.mark.parametrize(
    ("path", "include"),
    [
        ("src/base/a.cpp", '"event/event.h"'),
        ("src/event/a.cpp", '"store/store.h"'),
        ("src/store/a.cpp", "<zlib.h>"),
        ("src/analysis/peak/a.cpp", "<nlohmann/json.hpp>"),
        ("src/report/a.cpp", '"replay/replay.h"'),
        ("src/capture/a.cpp", '"trace/reader.h"'),
        ("src/capture/stacks/a.cpp", '"capture/stream/ring.h"'),
        ("src/capture/ledger/a.cpp", '"capture/capture.h"'),
        ("src/session/a.cpp", "<Python.h>"),
        ("src/cli/a.cpp", '"verbs.h"'),
        ("src/cli/a.cpp", '"gpumemprof/reader.h"'),
        ("src/api/reader/a.cpp", '"capture/hooks/engine.h"'),
        ("src/cli/a.cpp", "<unheard/of.h>"),
    ],
)
def test_refuses_an_include_against_the_design(path, include):
    problems = include_problems(path, f"\n#include {include}\n")
    assert len(problems) == 1
    assert problems[0].startswith(f"{path}:2: ")


def test_public_headers_show_nothing_from_inside():
    header = "#pragma once\n#include {}\n"
    assert include_problems("include/gpumemprof/c/a.h", header.format("<stdint.h>")) == []
    for inside in ('"base/result.h"', "<fmt/format.h>", "<zstd.h>", "<nlohmann/json.hpp>"):
        [problem] = include_problems("include/gpumemprof/a.h", header.format(inside))
        assert problem.startswith("include/gpumemprof/a.h:2: ")


C_HEADER = """
/* A comment; with a semicolon. */
#define GPUMEMPROF_MOST 32
typedef struct gpumemprof_row {
  uint64_t size; /* bytes */
} gpumemprof_row;
GPUMEMPROF_API int gpumemprof_read(const char* path,
                                   gpumemprof_row* row);
"""


@pytest.fixture
def interface(tmp_path):
    (tmp_path / "include/gpumemprof/c").mkdir(parents=True)
    (tmp_path / "include/gpumemprof/c/a.h").write_text(C_HEADER)
    (tmp_path / "VERSION").write_text("0.1.0\n")
    assert check_abi.update(tmp_path) == []
    return tmp_path


def test_lists_what_the_c_headers_declare(interface):
    assert (interface / "include/gpumemprof/abi.txt").read_text().splitlines() == [
        "0.1.0",
        "constant GPUMEMPROF_MOST 32",
        "int gpumemprof_read(const char* path, gpumemprof_row* row)",
        "typedef struct gpumemprof_row { uint64_t size; } gpumemprof_row",
    ]
    assert check_abi.check(interface) == []
    assert check_abi.function_names(check_abi.current_listing(interface)) == {"gpumemprof_read"}


@pytest.mark.parametrize(
    ("before", "after"),
    [("uint64_t size", "uint32_t size"), ("MOST 32", "MOST 33"), ("_read(", "_open(")],
)
def test_the_interface_changes_only_with_the_version(interface, before, after):
    (interface / "include/gpumemprof/c/a.h").write_text(C_HEADER.replace(before, after))
    assert "raise VERSION" in check_abi.check(interface)[-1]
    assert "raise VERSION" in check_abi.update(interface)[0]
    (interface / "VERSION").write_text("0.2.0\n")
    assert "--update" in check_abi.check(interface)[-1]
    assert check_abi.update(interface) == []
    assert check_abi.check(interface) == []


def test_a_listing_changed_by_hand_is_refused(interface):
    listing = interface / "include/gpumemprof/abi.txt"
    git = ["git", "-c", "user.name=Test", "-c", "user.email=test@localhost"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "The interface"]):
        subprocess.run([*git, *words], cwd=interface, check=True)
    (interface / "include/gpumemprof/c/a.h").write_text(C_HEADER.replace("32", "33"))
    listing.write_text(listing.read_text().replace("32", "33"))
    assert check_abi.check(interface) == [
        "include/gpumemprof/abi.txt changed, but still belongs to 0.1.0: raise VERSION"
    ]


@pytest.mark.parametrize(
    ("file", "added"),
    [
        ("c/a.h", "#define GPUMEMPROF_MOST2 7"),
        ("gpumemprof.h", "GPUMEMPROF_API int gpumemprof_write(void);"),
    ],
)
def test_nothing_that_the_c_headers_declare_is_overlooked(interface, file, added):
    header = interface / "include/gpumemprof" / file
    header.write_text((header.read_text() if header.exists() else "") + added + "\n")
    assert "raise VERSION" in check_abi.check(interface)[-1]


def test_a_comment_is_no_change_of_the_interface(interface):
    (interface / "include/gpumemprof/c/a.h").write_text(C_HEADER.replace("bytes", "in bytes"))
    assert check_abi.check(interface) == []


def test_asks_every_header_for_its_guard():
    assert include_problems("src/base/a.h", "#pragma once\n") == []
    assert include_problems("src/base/a.h", "int x;\n") != []


def test_reports_homeless_folders_and_paid_debts(tmp_path, monkeypatch):
    (tmp_path / "src/ingest/util").mkdir(parents=True)
    (tmp_path / "src/ingest/a.cpp").write_text("#include <vector>\n")
    debt = check_includes.Debt("ingest", r"fmt/.*", "a reason")
    monkeypatch.setattr(check_includes, "DEBTS", [debt])
    folder, paid = check_includes.check_tree(tmp_path)
    assert "no folder is called util" in folder
    assert "drop the debt" in paid


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        (["a", "b"], ["a", "b"], True),
        (["a", "b"], ["a", "c"], False),
        (["a", "…", "d"], ["a", "b", "c", "d"], True),
        (["a", "…"], ["a"], True),
        (["…", "d"], ["a", "b"], False),
        (["a"], ["a", "b"], False),
    ],
)
def test_compares_shown_output_with_the_real_one(expected, actual, same):
    assert check_docs.matches(expected, actual) is same


def test_reads_commands_and_their_output_from_a_block():
    text = "<!-- run exit=3 -->\n```console\n$ one \\\n  --more\nout\n$ two\n```\n```sh\nthree\n```"
    shown, plain = check_docs.parse_blocks(text)
    first, second = check_docs.parse_commands(shown)
    assert shown.run == ["exit=3"]
    assert (first.text, first.output, first.line) == ("one \\\n  --more", ["out"], 3)
    assert (second.text, second.output) == ("two", [])
    assert plain.run is None
    assert [command.text for command in check_docs.parse_commands(plain)] == ["three"]


def test_every_verb_has_a_page_that_the_readme_links():
    text = "Options:\n  -h\n\nCommands:\n  run      Runs it\n  info     Shows it\n\nStart"
    readme = "[run](docs/cli/run.md), [info](docs/cli/info.md)"
    assert list(check_docs.check_verbs(text, readme, {"run", "info"})) == []
    [missing] = check_docs.check_verbs(text, readme, {"run"})
    assert missing == "docs/cli/info.md is missing"
    [unlinked] = check_docs.check_verbs(text, "[run](docs/cli/run.md)", {"run", "info"})
    assert "README.md does not link" in unlinked
    [unknown] = check_docs.check_verbs(text, readme, {"run", "info", "replay"})
    assert "docs/cli/replay.md" in unknown


def test_finds_paths_and_links_that_lead_nowhere(tmp_path):
    text = "`tools/check` `tools/nothing` `docs/cli/<verb>`\n[gone](gone.md) [web](https://x.y)\n"
    assert [line for line, _ in check_docs.check_paths(text, tmp_path)] == [1, 2]


@pytest.mark.parametrize(
    "text",
    [
        "cd " + "/work" + "/main",
        "https://pypi" + ".org/x",
        "a\x1bb",
        "memory that was let go",
        "Where it hangs on the order",
    ],
)
def test_finds_what_must_not_stand_in_the_tree(text):
    assert len(list(check_tree.check_text("file", f"fine\n{text}\n"))) == 1


def test_sums_counts_and_shows_failed_steps(tmp_path, capsys):
    junit = tmp_path / "ctest.xml"
    junit.write_text(
        "<testsuite><testcase/><testcase><failure>\x1b[2mred\x1b[22m</failure></testcase>"
        "<testcase><skipped/></testcase>"
        "</testsuite>"
    )
    assert count_tests.main(0, [junit]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 1 failed, 1 skipped"
    assert count_tests.main(0, [junit, tmp_path / "missing.xml"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 2 failed, 1 skipped"


def test_what_passes_alone_is_flaky_and_no_failure(tmp_path, capsys):
    failed = '<testcase classname="m" name="{}"><failure/></testcase>'
    (tmp_path / "a.xml").write_text(f"<x>{failed.format('one')}{failed.format('two')}</x>")
    (tmp_path / "a-again.xml").write_text(
        f"<x><testcase classname='m' name='one'/>{failed.format('two')}</x>"
    )
    assert count_tests.main(0, [tmp_path / "a.xml"]) == 1
    assert capsys.readouterr().out.splitlines()[:2] == ["FLAKY: m::one", "a: 1 passed, 1 failed"]
    (tmp_path / "a-again.xml").write_text(
        "<x><testcase classname='m' name='one'/><testcase classname='m' name='two'/></x>"
    )
    assert count_tests.main(0, [tmp_path / "a.xml"]) == 0


def test_the_pattern_of_failed_tests_names_those_that_they_are_part_of(tmp_path):
    (tmp_path / "viewer.xml").write_text(
        "<testsuites><testsuite name='page (wide)'><testcase name='opens' classname='test'>"
        "<failure/></testcase><testcase name='closes' classname='test'/></testsuite></testsuites>"
    )
    pattern = count_tests.failed_pattern(tmp_path / "viewer.xml")
    assert [bool(re.match(pattern, name)) for name in ("page (wide)", "opens", "closes")] == [
        True,
        True,
        False,
    ]


def test_what_the_readme_predicts_is_what_is_printed():
    """The quick gate has no torch, so blocks that need it are run here."""
    pytest.importorskip("torch")
    readme = Path(__file__).resolve().parents[3] / "README.md"
    needing = [
        block
        for block in check_docs.parse_blocks(readme.read_text())
        if block.run is not None and "needs=torch" in block.run
    ]
    assert needing
    runner = check_docs.Runner(Path(sys.executable).parent)
    for block in needing:
        assert list(runner.run_block(block)) == []
