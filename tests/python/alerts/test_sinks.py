"""Where alerts go: logging, warnings, a webhook, a command; and what happens if that fails."""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import gpumemprof
import pytest
from gpumemprof.alerts.rule import Alert
from gpumemprof.alerts.sinks import BackgroundSink, command_sink, logging_sink, webhook_sink

ALERT = Alert("headroom<5%", "headroom", 0.031, 0.05, "cuda:0", 1e9, "headroom is 3.1 %")


def test_a_webhook_gets_the_alert_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in {"SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "77"}.items():
        monkeypatch.setenv(variable, value)
    bodies: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    sink = BackgroundSink("it", webhook_sink(f"http://127.0.0.1:{server.server_port}/x"))
    sink(ALERT)
    sink.close()
    server.shutdown()
    text = f"gpumemprof: rank 3 on {socket.gethostname()}: headroom is 3.1 %"
    (body,) = bodies
    assert body["text"] == text
    assert body.items() >= ALERT.to_dict().items()
    assert (body["host"], body["pid"]) == (socket.gethostname(), os.getpid())
    assert (body["rank"], body["world_size"], body["job"]) == ("3", "8", "slurm 77")


def test_a_webhook_that_fails_is_one_warning() -> None:
    sink = BackgroundSink("http://127.0.0.1:9/", webhook_sink("http://127.0.0.1:9/"))
    with pytest.warns(gpumemprof.RecordingWarning, match="could not be passed") as caught:
        for _ in range(3):
            sink(ALERT)
        sink.close()
    assert len(caught) == 1


@pytest.mark.parametrize("address", ["file:///etc/passwd", "http://", "http://[::1", ""])
def test_a_webhook_is_an_http_address(address: str) -> None:
    with pytest.raises(gpumemprof.UsageError, match="webhook"):
        gpumemprof.MemoryTracker("cpu", webhook=address)


def test_a_warning_about_a_webhook_does_not_contain_its_secret() -> None:
    with pytest.warns(gpumemprof.RecordingWarning) as caught:
        tracker = gpumemprof.MemoryTracker("cpu", webhook="http://127.0.0.1:9/T0/secret?key=word")
        tracker._background[0](ALERT)
        tracker._background[0].close()
    text = str(caught[0].message)
    assert "the webhook at 127.0.0.1" in text
    assert "secret" not in text
    assert "word" not in text


def test_a_webhook_that_hangs_does_not_hold_the_program() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:  # accepts, and never answers
        address = f"http://127.0.0.1:{server.getsockname()[1]}/"
        sink = BackgroundSink("it", webhook_sink(address, timeout_s=0.2))
        with pytest.warns(gpumemprof.RecordingWarning, match="timed out"):
            for _ in range(600):  # more than may wait
                sink(ALERT)
            while sink._waiting.full():
                time.sleep(0.01)
            sink.close(5)


@pytest.mark.parametrize("command", ["", "say 'unclosed"])
def test_a_command_that_cannot_be_read_is_refused(command: str) -> None:
    with pytest.raises(gpumemprof.UsageError, match="command"):
        gpumemprof.MemoryTracker("cpu", command=command)


def test_a_command_that_does_not_exist_is_one_warning() -> None:
    sink = BackgroundSink("the command", command_sink("/no/such/program --now"))
    with pytest.warns(gpumemprof.RecordingWarning, match="No such file") as caught:
        for _ in range(3):
            sink(ALERT)
        sink.close(60)
    assert len(caught) == 1


def test_a_command_gets_the_alert(tmp_path: Path) -> None:
    out = tmp_path / "out"
    program = (
        "import os, sys\n"
        f"open({str(out)!r}, 'w').write(sys.stdin.read() + os.environ['GPUMEMPROF_ALERT'])"
    )
    sink = BackgroundSink("it", command_sink([sys.executable, "-c", program]))
    sink(ALERT)
    sink.close(60)
    given = out.read_text()
    assert given.endswith(ALERT.message)
    found = json.loads(given.removesuffix(ALERT.message))
    assert found.items() >= ALERT.to_dict().items()
    assert found["pid"] == os.getpid()


def test_a_command_that_fails_is_one_warning() -> None:
    sink = BackgroundSink("the command", command_sink(f"{sys.executable} -c 'raise SystemExit(3)'"))
    with pytest.warns(gpumemprof.RecordingWarning, match="exit code 3"):
        sink(ALERT)
        sink.close(60)


def test_alerts_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        logging_sink("somewhere")(ALERT)
    assert [(record.name, record.getMessage()) for record in caplog.records] == [
        ("somewhere", "headroom is 3.1 %")
    ]
