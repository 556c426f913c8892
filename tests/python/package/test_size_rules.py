"""The checkers of sizes and names in tools/: what they catch, and what they accept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools"))

import check_names
import check_sizes
import source_functions

CPP = """
namespace gpumemprof {
namespace {

// { a brace in a comment
constexpr char kText[] = "{ and in a string";

class Page : private Writer {
 public:
  Page(int a, int b) : a_{a}, b_(b) {
    if (a > b) {
      run([&](int c) {
        use(c);
      });
    }
  }
  std::vector<int> rows() const noexcept;
};

std::vector<int> Page::rows() const noexcept {
  for (int i = 0; i < 3; ++i) {
    use(i);
  }
  return {1, 2,
          3};
}

}  // namespace
}  // namespace gpumemprof
"""

TYPESCRIPT = """
export function place(at: number): { x: number; y: number } {
  return { x: at, y: at };
}
const double = (value: number): number => {
  return value.toString().replace(/[{]/g, "{").length * 2;
};
describe("a group of tests", () => {
  test("one", async () => {
    run();
  });
});
class Moments {
  private async all(side: Side): Promise<{ value: string }[]> {
    return [];
  }
}
"""

PYTHON = '''
"""A docstring
of two lines."""

def outer():
    # a comment
    def inner():
        return 1
    return inner
'''


def named_lines(text: str, suffix: str) -> dict[str, int]:
    return {each.name: each.lines for each in source_functions.functions(text, suffix)}


def test_functions_of_cpp_are_found_with_their_lines():
    assert named_lines(CPP, ".cpp")["Page::rows"] == 7
    assert {"Page", "run"} <= named_lines(CPP, ".cpp").keys()


def test_functions_of_typescript_are_found_with_their_lines():
    found = named_lines(TYPESCRIPT, ".ts")
    assert (found["place"], found["double"], found["test"], found["all"]) == (3, 3, 3, 3)
    assert "describe" not in found


def test_functions_of_python_include_those_inside_them():
    assert named_lines(PYTHON, ".py") == {"outer": 5, "inner": 2}


def test_comments_and_docstrings_are_not_code():
    assert source_functions.code_lines(PYTHON, ".py") == 4
    assert source_functions.code_lines("// a\n\nint b;  // c\n/* d\n e */\n", ".cpp") == 1


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


def test_what_is_too_large_needs_an_exception_and_an_exception_a_need(tmp_path):
    long_function = "int f() {\n" + "  g();\n" * 80 + "}\n"
    root = tree(
        tmp_path,
        {
            "src/long.cpp": "int a;\n" * 601,
            "src/function.cpp": long_function,
            "src/small.cpp": "int a;\n" * 600,
        },
    )
    assert list(check_sizes.check_sizes(root, {})) == [
        "src/function.cpp:1: f: 82 lines in a function; the limit is 80",
        "src/long.cpp: 601 lines of code; the limit is 600",
    ]
    known = {"src/function.cpp: f": "b", "src/long.cpp": "c"}
    assert list(check_sizes.check_sizes(root, known)) == []
    assert list(check_sizes.check_sizes(root, {**known, "src/small.cpp": "d"})) == [
        "src/small.cpp keeps the limits now; drop it from EXCEPTIONS"
    ]


def test_what_a_part_holds_may_only_fall(tmp_path):
    root = tree(tmp_path, {"src/one.cpp": "int a;\n" * 500, "src/two.cpp": "int a;\n" * 500})
    assert list(check_sizes.check_totals(root, {"src": (2, 1000)})) == []
    assert list(check_sizes.check_totals(root, {"src": (1, 999)})) == [
        "src: 2 source files; the limit is 1, and may only fall",
        "src: 1000 lines; the limit is 999, and may only fall",
    ]
    assert list(check_sizes.check_totals(root, {"src": (2, 1100)})) == [
        "src: 1000 lines; lower the limit of 1100 in check_sizes.py"
    ]


def test_a_name_is_unique_in_the_unnamed_namespaces_of_its_folder(tmp_path):
    first = "namespace {\nusing J = int;\nint f(int a) { return a; }\n}  // namespace\n"
    second = (
        "namespace {\nusing J = int;\nint f(long a) { return 1; }\nint f(int a, int b);\n"
        "}  // namespace\nint g() { return 1; }\n"
    )
    tree(
        tmp_path,
        {
            "src/a/one.cpp": first,
            "src/a/two.cpp": second,
            "src/b/three.cpp": first,
            "src/remedies/x.cpp": first,
            "src/remedies/y.cpp": first,
        },
    )
    (problem,) = check_names.check_names(tmp_path)
    assert problem.startswith("src/a/two.cpp:3: f is in the unnamed namespace of one.cpp too")
