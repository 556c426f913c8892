"""Checks that a name in an unnamed namespace is unique in its folder.

Builds for tests compile the sources of a folder as one (gpumemprof_join_folders in
cmake/rooms.cmake), so that two such names would clash. Not so in folders of remedies.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from source_functions import blanked

FOLDERS = ("src", "tests/cpp", "python/bindings", "bench", "fuzz")

OPENS = re.compile(r"namespace \{\s*$")
NOT_A_NAME = re.compile(r"#|template\b|(?:TEST|TEST_F|TEST_P|INSTANTIATE_\w+|MATCHER\w*)\(")
# A definition begins in the first column: clang-format indents what is inside of it.
DEFINITION = re.compile(
    r"""
    (?:(?:class|struct|union|enum(?:\ class)?)\ (?P<type>\w+)\b(?!;)
    | using\ (?P<alias>\w+)\ =
    | [\w:][\w:<>,&*\ ]*?\W(?P<function>\w+)\((?!.*\)\s*;\s*$)
    | (?:const|thread_local|static|std::|[A-Z])[\w:<>,&*\ ()]*?
      \W(?P<variable>\w+)(?:\[\w*\])*(?:;|\{|\ =)
    )""",
    re.VERBOSE,
)


class Definition(NamedTuple):
    name: str
    line: int
    text: str  # its first line

    @property
    def parameters(self) -> int:
        """How many the first line shows."""
        inside = self.text.partition(f"{self.name}(")[2].split(") {")[0]
        return inside.count(",") + bool(inside.strip(" )"))


def unnamed_definitions(text: str) -> Iterator[Definition]:
    """What is defined at the outermost level of unnamed namespaces."""
    is_unnamed = False
    for number, (line, original) in enumerate(
        zip(blanked(text).split("\n"), text.split("\n")), start=1
    ):
        if OPENS.match(line):
            is_unnamed = True
        elif original.startswith("}  // namespace"):
            is_unnamed = False
        elif is_unnamed and not NOT_A_NAME.match(line) and (match := DEFINITION.match(line)):
            yield Definition(next(filter(None, match.groups())), number, line)


def clash(one: Definition, other: Definition) -> bool:
    """Equal aliases may stand side by side, and functions of different numbers of parameters."""
    if one.text.startswith("using "):
        return one.text != other.text
    is_function = f"{one.name}(" in one.text and f"{other.name}(" in other.text
    return not is_function or one.parameters == other.parameters


def check_names(root: Path) -> Iterator[str]:
    for top in FOLDERS:
        seen: dict[tuple[Path, str], list[tuple[Path, Definition]]] = defaultdict(list)
        for path in sorted((root / top).rglob("*.cpp")):
            if "remedies" in path.parts:
                continue
            for found in unnamed_definitions(path.read_text(encoding="utf-8")):
                others = seen[path.parent, found.name]
                for where, other in others:
                    if where != path and clash(found, other):
                        yield (
                            f"{path.relative_to(root)}:{found.line}: {found.name} is in the unnamed"
                            f" namespace of {where.name} too; call one of them something else"
                        )
                        break
                others.append((path, found))


def main(root: Path) -> int:
    problems = list(check_names(root))
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent.parent))
