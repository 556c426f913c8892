"""The viewer from the command line: what it prints, what it refuses, and how it ends."""

from __future__ import annotations

import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

SNAPSHOTS = Path(__file__).parents[2] / "data/snapshots"
RUN = SNAPSHOTS / "mlp_b64_fp32_adam.pickle.gz"


def gpumemprof(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpumemprof", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def server():
    command = [sys.executable, "-m", "gpumemprof", "view", "--no-browser", str(RUN)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = [process.stdout.readline() for _ in range(4)]
    yield process, "".join(lines)
    if process.poll() is None:
        process.kill()
    process.communicate()


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_prints_the_url_and_the_tunnel_and_ends_with_ctrl_c(server):
    process, printed = server
    url = re.search(r"http://127\.0\.0\.1:(\d+)/\?token=[0-9a-f]{32}", printed)
    assert url
    assert f"ssh -N -L {url[1]}:127.0.0.1:{url[1]} " in printed
    status, page = get(url[0])
    assert status == 200
    assert "gpumemprof" in page
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 0
    assert errors == ""


def test_answers_nobody_without_the_token(server):
    _, printed = server
    origin = re.search(r"http://127\.0\.0\.1:\d+", printed)[0]
    for path in ("/api/meta", "/?token=0", "/../../etc/passwd", "/open/", "/open/0"):
        assert get(origin + path)[0] == 403


def test_only_this_machine_can_reach_it(server):
    _, printed = server
    port = int(re.search(r"127\.0\.0\.1:(\d+)/", printed)[1])
    with socket.socket() as probe:
        # Anything but loopback is refused; 127.0.0.2 is loopback, but it does not listen there.
        assert probe.connect_ex(("127.0.0.2", port)) != 0


def test_a_port_in_use_is_a_sentence_with_the_next_step():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = gpumemprof("view", "--no-browser", "--port", str(taken.getsockname()[1]), RUN)
    assert result.returncode == 4
    assert "is in use; leave --port out to take a free one" in result.stderr


@pytest.mark.parametrize("port", ["65536", "-1", "eighty"])
def test_what_is_no_port_is_wrong_usage(port):
    assert gpumemprof("view", "--port", port, RUN).returncode == 2


def test_a_broken_file_is_bad_input(tmp_path):
    broken = tmp_path / "broken.pickle"
    broken.write_bytes(b"not a recording")
    for command in (("view", "--no-browser"), ("report", "--html", tmp_path / "out.html")):
        result = gpumemprof(*command, broken)
        assert result.returncode == 3
        assert "broken.pickle" in result.stderr
    assert not (tmp_path / "out.html").exists()


def test_a_file_that_is_not_there_is_said():
    result = gpumemprof("view", "no-such-file.gmp")
    assert result.returncode == 3
    assert "no-such-file.gmp" in result.stderr


def test_writes_one_file_that_refers_to_nothing_outside(tmp_path):
    out = tmp_path / "run.html"
    result = gpumemprof("report", "--html", out, RUN)
    assert result.returncode == 0, result.stderr
    assert "Written to" in result.stdout
    page = out.read_text(encoding="utf-8")
    assert 'data-section="first"' in page
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", page)
    assert out.stat().st_size < 10_000_000


def test_does_not_write_over_a_file_unless_told(tmp_path):
    out = tmp_path / "run.html"
    out.write_text("mine")
    assert gpumemprof("report", "--html", out, RUN).returncode != 0
    assert out.read_text() == "mine"
    assert gpumemprof("report", "--html", out, "-f", RUN).returncode == 0
    assert out.read_text(encoding="utf-8") != "mine"


def test_a_browser_that_is_missing_is_said_and_the_server_stays(tmp_path, monkeypatch):
    monkeypatch.setenv("BROWSER", str(tmp_path / "no-such-browser"))
    command = [sys.executable, "-m", "gpumemprof", "view", "--browser", str(RUN)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert (
            "no browser could be started; open the URL above yourself" in process.stderr.readline()
        )
        url = re.search(r"http://\S+", process.stdout.readline())[0]
        assert get(url)[0] == 200
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        assert process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ends_while_a_client_does_not_read(server, number):
    process, printed = server
    url = re.search(r"http://127\.0\.0\.1:(\d+)(/\?token=[0-9a-f]{32})", printed)
    with socket.create_connection(("127.0.0.1", int(url[1])), timeout=10) as client:
        # More answers than any buffer in between holds, and none is read.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(f"GET {url[2]} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode() * 200)
        assert client.recv(1)
        process.send_signal(number)
        process.communicate(timeout=20)
    assert process.returncode == 0


def test_connections_without_a_token_keep_nobody_out(server):
    _, printed = server
    url = re.search(r"http://127\.0\.0\.1:(\d+)/\S+", printed)
    silent = [socket.create_connection(("127.0.0.1", int(url[1])), timeout=10) for _ in range(100)]
    assert get(url[0])[0] == 200
    for connection in silent:
        connection.close()


def test_the_browser_gets_a_link_that_opens_once_and_no_token(tmp_path, monkeypatch):
    browser = tmp_path / "my browser"
    browser.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" > "{tmp_path}/arguments.new"\n'
        f'mv "{tmp_path}/arguments.new" "{tmp_path}/arguments"\n'
    )
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"'{browser}' --new-window %s --last")
    command = [sys.executable, "-m", "gpumemprof", "view", "--browser", str(RUN)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        token = re.search(r"token=(\w+)", process.stdout.readline())[1]
        deadline = time.monotonic() + 20
        while not (tmp_path / "arguments").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        first, link, last = (tmp_path / "arguments").read_text().splitlines()
        assert (first, last) == ("--new-window", "--last")
        assert token not in link
        assert get(link)[0] == 200
        assert get(link)[0] == 403
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)


def test_says_on_a_terminal_what_takes_so_long():
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "gpumemprof", "view", "--no-browser", str(RUN)]
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        env=environment | {"TERM": "xterm"},
    ) as process:
        assert "Viewer:" in process.stdout.readline()
        assert b"preparing the view" in os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    os.close(ours)
    os.close(theirs)
