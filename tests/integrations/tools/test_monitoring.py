"""Metrics: read by Prometheus' own parsers and by a real Prometheus, equal to the recording."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gpumemprof
import pytest
from doc_pages import ROOT, run_page
from programs import environment

GRAFANA = ROOT / "docs" / "integrations" / "grafana.json"
RULES = ROOT / "docs" / "integrations" / "prometheus-rules.yml"
PAGE = ROOT / "docs" / "integrations" / "metrics.md"

PROGRAM = """
import os, sys, time, torch
layer = torch.nn.Linear(1000, 1000)
optimizer = torch.optim.Adam(layer.parameters())
for _ in range(3):
    layer(torch.randn(64, 1000)).sum().backward()
    optimizer.step()
peak = torch.zeros(1 << 20)
del peak
open("ready", "w").close()
while not os.path.exists("stop"): time.sleep(0.05)
"""


LAUNCHER = """
import subprocess, sys
subprocess.run([sys.executable, "train.py"], check=True)
"""


def wait_for(condition: Any, seconds: float = 120) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if found := condition():
                return found
        except OSError:
            pass
        time.sleep(0.2)
    raise AssertionError("it did not happen in time")


class Served:
    """A program that is recorded, and the address of its metrics."""

    def __init__(
        self, folder: Path, address: str = "127.0.0.1:0", is_automatic: bool = False
    ) -> None:
        self.folder = folder
        (folder / "train.py").write_text(PROGRAM)
        (folder / "launch.py").write_text(LAUNCHER)
        flags = ["--cpu", "-o", "run.gmp", "--metrics", address]
        words = ["launch.py"] if is_automatic else ["-m", "gpumemprof", "run", *flags, "train.py"]
        options = {"GPUMEMPROF": "1", "GPUMEMPROF_OPTIONS": f"--metrics {address}"}
        self.process = subprocess.Popen(
            [sys.executable, *words],
            cwd=folder,
            env={**environment(folder), **(options if is_automatic else {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        found = re.search(r"metrics at http://(\S+?):(\d+)/metrics", self.process.stderr.readline())
        assert found is not None
        self.host, self.port = found[1], int(found[2])
        wait_for((folder / "ready").exists)
        # The recorder writes from time to time: at first there is nothing to say of any device.
        wait_for(self.scrape)

    def scrape(self) -> dict[str, dict[str, float]]:
        """By name: label of source, or empty → value."""
        from prometheus_client.parser import text_string_to_metric_families

        with urllib.request.urlopen(
            f"http://{self.host}:{self.port}/metrics", timeout=30
        ) as answer:
            text = answer.read().decode()
        found: dict[str, dict[str, float]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == "gpumemprof_info":
                    assert (sample.value, sample.labels["command"]) == (1, "train.py")
                    continue
                assert sample.labels["device"] == "cpu:0"
                found.setdefault(sample.name, {})[sample.labels.get("source", "")] = sample.value
        return found

    def settled(self) -> dict[str, dict[str, float]]:
        """Once the recorder has written everything that has happened: nothing changes any more."""
        before: list[Any] = [None]

        def is_same() -> Any:
            now = self.scrape()
            same = now and now == before[0]
            before[0] = now
            if not same:
                time.sleep(2.5)
            return now if same else None

        return wait_for(is_same)

    def end(self) -> tuple[int, str, str]:
        (self.folder / "stop").touch()
        out, err = self.process.communicate(timeout=120)
        return self.process.returncode, out, err


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    program = Served(tmp_path_factory.mktemp("served"))
    yield program
    if program.process.poll() is None:
        program.end()


def test_options_in_the_environment_publish_what_a_launcher_started(tmp_path: Path) -> None:
    program = Served(tmp_path, is_automatic=True)
    figures = program.scrape()
    code, _, closing = program.end()
    assert code == 0
    assert figures["gpumemprof_memory_peak_allocated_bytes"][""] > 12_000_000
    assert "1 child process was recorded" in closing


def test_bad_requests_do_no_harm(served: Served) -> None:
    for bad in (
        b"\x00\xff\xfe\r\n\r\n",
        b"GET\r\n\r\n",
        b"POST /metrics HTTP/9.9\r\n\r\n",
        b"",
        b"A" * 70000,
    ):
        with socket.create_connection((served.host, served.port), timeout=10) as link:
            link.settimeout(10)
            try:
                link.sendall(bad)
                link.shutdown(socket.SHUT_WR)
                link.recv(100)
            except OSError:
                pass
    hanging = [socket.create_connection((served.host, served.port)) for _ in range(20)]
    assert served.scrape()["gpumemprof_memory_allocated_bytes"]
    for link in hanging:
        link.close()


def test_it_listens_on_this_machine_alone(served: Served) -> None:
    listening = Path("/proc/net/tcp").read_text().splitlines()
    mine = [
        line.split()[1] for line in listening if f":{served.port:04X} " in line.split()[1] + " "
    ]
    assert mine and all(address.startswith("0100007F:") for address in mine)


def test_a_real_prometheus_scrapes_it(served: Served, tmp_path: Path) -> None:
    if shutil.which("prometheus") is None:
        pytest.skip("Debian's package prometheus is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "prometheus.yml").write_text(
        "scrape_configs:\n- job_name: t\n  scrape_interval: 1s\n  static_configs:\n"
        f"  - targets: ['{served.host}:{served.port}']\n"
    )
    server = subprocess.Popen(
        [
            "prometheus",
            "--config.file=prometheus.yml",
            "--storage.tsdb.path=data",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:

        def stored() -> Any:
            query = f"http://127.0.0.1:{port}/api/v1/query?query=gpumemprof_memory_source_bytes"
            with urllib.request.urlopen(query, timeout=10) as answer:
                return json.load(answer)["data"]["result"]

        rows = wait_for(stored)
        found = {row["metric"]["source"]: float(row["value"][1]) for row in rows}
        assert found["parameters"] == 4 * 1001000
    finally:
        server.terminate()
        server.wait(60)
    checked = subprocess.run(
        ["promtool", "check", "metrics"],
        input=urllib.request.urlopen(f"http://{served.host}:{served.port}/metrics").read(),
        capture_output=True,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_figures_equal_the_recording(served: Served) -> None:
    scraped = served.settled()
    code, out, err = served.end()
    assert (code, out) == (0, ""), err
    recording = gpumemprof.load(served.folder / "run.gmp")
    (device,) = recording.devices
    report = recording.report(at="end")["devices"][0]
    peak = device.peak.allocated_bytes
    assert scraped["gpumemprof_memory_peak_allocated_bytes"] == {"": peak}
    allocated = scraped["gpumemprof_memory_allocated_bytes"][""]
    # The program frees nothing between the scrape and its end but what exiting frees.
    assert allocated >= report["end"]["allocated_bytes"]
    sources = scraped["gpumemprof_memory_source_bytes"]
    assert sum(sources.values()) == allocated
    parameters = 4 * 1001000
    assert (sources["parameters"], sources["gradients"]) == (parameters, parameters)
    assert sources["optimizer_state"] == 2 * parameters + 2 * 4
    assert scraped["gpumemprof_lost_events_total"] == {"": 0}
    assert 0 < scraped["gpumemprof_events_total"][""] <= recording._handle.event_count
    # Unknown is never 0: there is no pool and no card.
    assert not {"gpumemprof_memory_reserved_bytes", "hw_gpu_memory_limit_bytes"} & set(scraped)
    # The process beside it has ended too.
    wait_for(lambda: not is_listening(served))


def is_listening(served: Served) -> bool:
    try:
        socket.create_connection((served.host, served.port), timeout=5).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    ("address", "code", "sentence"),
    [
        ("nonsense", 2, "--metrics takes a port such as :9464, or a host and a port"),
        (":99999", 2, "but has ':99999'"),
        ("::1:80", 2, "but has '::1:80'"),
        ("192.0.2.1:1", 4, "metrics cannot be served at 192.0.2.1:1: "),
    ],
)
def test_a_wrong_address_is_one_sentence(
    tmp_path: Path, address: str, code: int, sentence: str
) -> None:
    (tmp_path / "train.py").write_text("raise SystemExit(77)")
    words = ["run", "--metrics", address, "train.py"]
    done = subprocess.run(
        [sys.executable, "-m", "gpumemprof", *words], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == code
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_port_in_use_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("raise SystemExit(77)")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", "gpumemprof", "run", "--metrics", f":{port}", "train.py"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
    assert done.returncode == 4
    assert f"metrics cannot be served at 127.0.0.1:{port}: Address already in use" in done.stderr


def metric_names() -> set[str]:
    from gpumemprof.integrations.monitoring.figures import FIGURES
    from gpumemprof.integrations.monitoring.prometheus import prometheus_name

    return {
        prometheus_name(figure) + ("_total" if figure.is_counter else "")
        for figure in FIGURES.values()
    }


def test_the_dashboard_and_the_page_name_what_is_published() -> None:
    dashboard = json.loads(GRAFANA.read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    used = set(re.findall(r"\b(?:gpumemprof|hw_gpu)_\w+", " ".join(expressions)))
    assert used and used <= metric_names()
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    variables = {one["name"] for one in dashboard["templating"]["list"]}
    assert set(re.findall(r"\$(\w+)", " ".join(expressions))) - {"__rate_interval"} < variables
    assert not re.search(r"\[\d+[smh]\]", " ".join(expressions))
    # Child processes of one program differ by their number alone.
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            is_of_process = not re.match(r"(sum|max)\b", target["expr"])
            assert ("{{pid}}" in target["legendFormat"]) == is_of_process
    described = set(re.findall(r"`((?:gpumemprof|hw_gpu)_\w+)", PAGE.read_text()))
    assert described == metric_names()
    if shutil.which("promtool") is not None:
        for expression in expressions:
            filled = expression.replace("$__rate_interval", "1m")
            filled = re.sub(r"\$(job|instance|device)", ".*", filled)
            rule = {"groups": [{"name": "g", "rules": [{"record": "r", "expr": filled}]}]}
            checked = subprocess.run(
                ["promtool", "check", "rules", "/dev/stdin"],
                input=json.dumps(rule),
                capture_output=True,
                text=True,
            )
            assert checked.returncode == 0, expression + checked.stdout + checked.stderr


def test_the_rules_name_what_is_published() -> None:
    yaml = pytest.importorskip("yaml")
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    names = re.findall(
        r"\b(?:gpumemprof|hw_gpu)_\w+", " ".join(rule["expr"] for rule in group["rules"])
    )
    assert names and set(names) <= metric_names()
    labels = set(re.findall(r"\$labels\.(\w+)", RULES.read_text()))
    assert labels == {"instance", "device", "pid"}


def test_the_rules_say_what_happens_and_nothing_else(tmp_path: Path) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("Debian's package prometheus is not installed")
    leaking = '{instance="a", device="cuda:0", pid="1"}'
    steady = '{instance="a", device="cuda:1", pid="2"}'
    series = {
        f"gpumemprof_memory_allocated_bytes{leaking}": "100+1x240",
        f"gpumemprof_memory_allocated_bytes{steady}": "100 900 " * 120,
        f"gpumemprof_memory_headroom_bytes{leaking}": "4x240",
        f"gpumemprof_memory_headroom_bytes{steady}": "6x240",
        f"hw_gpu_memory_limit_bytes{leaking}": "100x240",
        f"hw_gpu_memory_limit_bytes{steady}": "100x240",
        f"gpumemprof_out_of_memory_total{leaking}": "0x178 1x60",
        f"gpumemprof_out_of_memory_total{steady}": "0x240",
    }
    nearly_full = "the pool of process 1 has less than 5 % of the card left"
    rules = {
        "GpuMemoryNearlyFull": ("warning", nearly_full),
        "GpuOutOfMemory": ("critical", "an allocation of process 1 failed"),
        "GpuMemoryGrowing": ("warning", "process 1 keeps more and more memory"),
    }
    of_leaking = {"instance": "a", "device": "cuda:0", "pid": "1"}
    expected = [
        {
            "eval_time": "3h",
            "alertname": name,
            "exp_alerts": [
                {
                    "exp_labels": {**of_leaking, "severity": severity},
                    "exp_annotations": {"summary": f"a cuda:0: {summary}"},
                }
            ],
        }
        for name, (severity, summary) in rules.items()
    ]
    test = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": it} for name, it in series.items()],
                "alert_rule_test": expected,
            }
        ],
    }
    (tmp_path / "test.yml").write_text(json.dumps(test))
    words = ["promtool", "test", "rules", str(tmp_path / "test.yml")]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_opentelemetry_publishes_what_the_process_records(tmp_path: Path) -> None:
    program = """
import os, time, torch
import gpumemprof
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from gpumemprof.integrations.monitoring.telemetry import instrument, resource_attributes
reader = InMemoryMetricReader()
instrument(MeterProvider([reader], resource=Resource.create(resource_attributes())))
assert reader.get_metrics_data() is None or not list(reader.get_metrics_data().resource_metrics)
gpumemprof.start("run.gmp", cpu=True)
kept = torch.zeros(1000)
found = {}
for _ in range(600):
    data = reader.get_metrics_data()
    found = {
        metric.name: [(point.value, dict(point.attributes)) for point in metric.data.data_points]
        for resource in (data.resource_metrics if data else [])
        for scope in resource.scope_metrics for metric in scope.metrics
    }
    if any(value == 4000 for value, _ in found.get("gpumemprof.memory.allocated", [])): break
    time.sleep(0.2)
((value, attributes),) = found["gpumemprof.memory.allocated"]
assert value == 4000 and attributes["device"] == "cpu:0" and attributes["hw.id"] == "cpu:0"
assert "hw.type" not in attributes
assert attributes["process.pid"] == os.getpid()
assert "gpumemprof.info" not in found
assert data.resource_metrics[0].resource.attributes["process.pid"] == os.getpid()
assert found["gpumemprof.lost_events"][0][0] == 0
assert "gpumemprof.memory.reserved" not in found
print("as expected")
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
    )
    assert done.stdout == "as expected\n", done.stdout + done.stderr


def test_the_page_prints_what_it_says(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text().replace(":9464", f":{port}"))
    assert run_page(page, tmp_path) == 5
