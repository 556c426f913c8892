"""Notebooks, in a real kernel: magics, rich values, the viewer in a cell, errors of one line."""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gpumemprof
import pytest
from doc_pages import ROOT
from page_examples import examples
from programs import environment

PAGE = ROOT / "docs" / "integrations" / "notebooks.md"


class Kernel:
    """Runs cells, and returns what they show."""

    def __init__(self, folder: Path, **variables: str) -> None:
        from jupyter_client.manager import KernelManager

        self.folder = folder
        self._manager = KernelManager()
        assert self._manager.kernel_spec is not None
        launcher = ["-m", "ipykernel_launcher", "-f", "{connection_file}"]
        self._manager.kernel_spec.argv = [sys.executable, *launcher]
        self._manager.start_kernel(cwd=str(folder), env={**environment(folder), **variables})
        self._client = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=200)

    def run(self, cell: str) -> tuple[str, dict[str, str], str]:
        """The status, the value or what is displayed by type, and all text that was printed."""
        shown: dict[str, str] = {}
        printed: list[str] = []

        def on_output(message: Any) -> None:
            content = message["content"]
            if message["msg_type"] in ("execute_result", "display_data"):
                shown.update(content["data"])
            elif message["msg_type"] == "stream":
                printed.append(content["text"])
            elif message["msg_type"] == "error":
                printed.append("\n".join(content["traceback"]))

        reply = self._client.execute_interactive(cell, timeout=200, output_hook=on_output)
        text = re.sub(r"\x1b\[[0-9;]*m", "", "".join(printed))
        return reply["content"]["status"], shown, text

    def close(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_wait_time = 60.0
        self._manager.shutdown_kernel()


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    started = Kernel(tmp_path_factory.mktemp("kernel"))
    yield started
    started.close()


def test_the_cells_of_the_page_show_what_it_says(kernel: Kernel) -> None:
    cells = [example.code for example in examples(PAGE.read_text(encoding="utf-8"))]
    assert len(cells) == 7
    results = [kernel.run(cell) for cell in cells]
    assert [status for status, _, _ in results] == ["ok"] * 7, results
    _, recorded, peak, viewer, viewed, table, result = (shown for _, shown, _ in results)
    page = recorded["text/html"]
    assert "cpu:0: peak" in page
    assert "parameters" in page and "optimizer state" in page
    assert "<script" not in page
    # The lines of the cell itself.
    assert re.search(r"Cell In\[\d+\], line \d+ in &lt;module&gt;", page)
    parameters = 4 * (512 * 2048 + 2048 + 2048 * 8 + 8)
    assert int(peak["text/plain"]) > 4 * parameters  # with gradients and two kinds of state

    for shown in (viewer, viewed):
        frame = html.unescape(shown["text/html"].partition('srcdoc="')[2].partition('" sandbox')[0])
        assert frame.startswith("<!") and frame.rstrip().endswith("</html>")
        assert 'sandbox="allow-scripts"' in shown["text/html"]
    assert 'height="500"' in viewed["text/html"]
    with_steps = gpumemprof.load(kernel.folder / "step.gmp")
    assert with_steps.devices[0].peak.allocated_bytes > 0

    assert "requested_bytes" in table["text/html"]
    assert "rows" in table["text/html"]
    assert "torch.empty" not in result["text/html"]
    assert "<table>" in result["text/html"]


def test_a_cell_shows_its_own_value_and_keeps_its_variables(kernel: Kernel) -> None:
    kernel.run("%load_ext gpumemprof\nimport torch")
    status, shown, text = kernel.run(
        "%%gpumemprof\nkept = torch.zeros(7)\nprint('inside')\nkept.sum()"
    )
    assert status == "ok"
    assert "inside" in text
    assert "text/html" in shown
    assert kernel.run("kept.shape[0], type(_).__name__")[1]["text/plain"] == "(7, 'Recording')"


def test_lines_of_cells_are_named_by_their_cells(kernel: Kernel) -> None:
    kernel.run("%load_ext gpumemprof\nimport torch\ndef make():\n    return torch.zeros(1000)")
    _, shown, _ = kernel.run("%%gpumemprof\nkept = make()\nmore = torch.zeros(10)")
    text = html.unescape(shown["text/html"])
    assert re.search(r"Cell In\[\d+\], line 4 in make", text), text
    number = int(kernel.run("len(In) - 1")[1]["text/plain"]) - 1
    assert f"Cell In[{number}], line 2 in <module>" in text
    assert "ipykernel" not in text


def test_each_line_of_a_cell_is_listed_once(kernel: Kernel) -> None:
    kernel.run("%load_ext gpumemprof\nimport torch")
    # Allocated in two places of torch, which are not shown.
    _, shown, _ = kernel.run("%%gpumemprof\nlayers = [torch.nn.Linear(9, 9) for _ in range(2)]")
    text = html.unescape(shown["text/html"])
    lines = re.findall(r"<code>(.*?)</code>", text)
    assert len(lines) == len(set(lines)) == 1, lines
    assert "<td>4</td>" in text


def test_a_kernel_s_own_recording_names_cells(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, GPUMEMPROF="1", GPUMEMPROF_OUTPUT="kernel.gmp")
    try:
        first = "import torch\nkept = torch.zeros(1000)\nnumber = len(In) - 1\nnumber"
        number = int(kernel.run(first)[1]["text/plain"])
        kernel.run("more = torch.zeros(500)")
    finally:
        kernel.close()
    places = {
        f"{frame.file}:{frame.line}"
        for group in gpumemprof.load(tmp_path / "kernel.gmp").devices[0].live_at_peak
        for frame in group.stack
    }
    assert {f"Cell In[{number}]:2", f"Cell In[{number + 1}]:1"} <= places
    assert not any(re.search(r"/ipykernel_\d+/", place) for place in places)


def test_an_error_in_the_cell_is_the_cell_s_own(kernel: Kernel) -> None:
    kernel.run("%load_ext gpumemprof\nimport torch")
    status, shown, text = kernel.run("%%gpumemprof -o failed.gmp\ntorch.zeros(9)\n1 / 0")
    assert status == "error"
    assert "cpu:0: peak 36 B allocated" in shown["text/html"]
    assert "ZeroDivisionError" in text
    assert "magics.py" not in text  # The cell's own lines only.
    assert gpumemprof.load(kernel.folder / "failed.gmp").devices[0].counters.allocations == 1


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("%%gpumemprof --frobnicate", "unknown flag '--frobnicate'"),
        ("%%gpumemprof --live", "--live is for whole programs, not for a cell"),
        ("%%gpumemprof --keep 3", "--keep 3 is too small"),
        ("%%gpumemprof -o exists.gmp", "exists.gmp: the file already exists"),
        ("%%gpumemprof -o exists.gmp", "use -f to replace it"),
        ("%%gpumemprof --alert nonsense", "nonsense"),
        ("%%gpumemprof -o 'open", "No closing quotation"),
        ("%%gpumemprof\nawait None", "a cell with await cannot be recorded by %%gpumemprof"),
        ("%gpumemprof_view absent.gmp --height tall", "--height takes a number of pixels"),
        ("%gpumemprof_view", "%gpumemprof_view needs a recording"),
        ("%gpumemprof_view absent.gmp", "absent.gmp: "),
        ("%gpumemprof_view text.txt", "text.txt, byte 0: this is a text file"),
    ],
)
def test_a_mistake_is_one_sentence(kernel: Kernel, line: str, sentence: str) -> None:
    (kernel.folder / "exists.gmp").write_text("")
    (kernel.folder / "text.txt").write_text("no recording")
    kernel.run("%load_ext gpumemprof")
    status, _, text = kernel.run(f"{line}\nassert False" if line.startswith("%%") else line)
    assert status == "error"
    assert sentence in text
    assert "Traceback" not in text
    assert len(text.strip().splitlines()) == 1


def test_help_and_unloading(kernel: Kernel) -> None:
    kernel.run("%load_ext gpumemprof")
    _, _, text = kernel.run("%gpumemprof --help")
    assert "Usage: %%gpumemprof [OPTIONS]" in text
    kernel.run("%unload_ext gpumemprof")
    _, _, text = kernel.run("%gpumemprof --help")
    assert "not found" in text
    kernel.run("%load_ext gpumemprof")


def test_the_variable_alone_gives_a_labelled_recording(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, GPUMEMPROF="1", GPUMEMPROF_OUTPUT="notebook.gmp")
    cells = (
        "import torch\n"
        "model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Linear(256, 8))\n"
        "optimizer = torch.optim.AdamW(model.parameters())",
        "for _ in range(3):\n"
        "    model(torch.randn(32, 64)).sum().backward()\n"
        "    optimizer.step()\n"
        "    optimizer.zero_grad()",
        "print(sum(4 * one.numel() for one in model.parameters()))",
    )
    for cell in cells:
        status, _, printed = kernel.run(cell)
        assert status == "ok", printed
    kernel.close()
    (path,) = tmp_path.glob("notebook*.gmp")
    (device,) = gpumemprof.load(path).sources()
    assert device.sources["parameters"].provenance == "measured"
    assert device.sources["parameters"].bytes_at_peak == int(printed)
    assert device.sources["optimizer_state"].bytes_max >= 2 * int(printed)
    assert len(device.steps) >= 3
