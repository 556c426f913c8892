"""The server of --metrics: whom it answers, and how many of those that do not speak it keeps."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any, Callable

import pytest
from gpumemprof.integrations.monitoring import scrape_server
from gpumemprof.integrations.monitoring.scrape_server import ScrapeServer

LOOPBACK = "127.0.0.1"


def figures(_: Any, respond: Callable[..., Any]) -> list[bytes]:
    respond("200 OK", [])
    return [b"figures"]


@pytest.fixture
def server() -> Iterator[ScrapeServer]:
    served = ScrapeServer(LOOPBACK, 0, figures)
    served.start()
    yield served
    served.shutdown()
    served.server_close()


def connected(server: ScrapeServer) -> socket.socket:
    return socket.create_connection((LOOPBACK, server.server_port), timeout=60)


def answer(link: socket.socket, host: str | None = LOOPBACK) -> bytes:
    header = "" if host is None else f"Host: {host}\r\n"
    link.sendall(f"GET /metrics HTTP/1.1\r\n{header}\r\n".encode())
    return b"".join(iter(lambda: link.recv(4096), b""))


@pytest.mark.parametrize(
    "host", [None, LOOPBACK, "10.1.2.3:9464", "[fe80::1]:9464", "LOCALHOST:1", socket.gethostname()]
)
def test_it_answers_to_addresses_and_to_this_machines_names(
    server: ScrapeServer, host: str | None
) -> None:
    with connected(server) as link:
        assert answer(link, host).endswith(b"figures")


@pytest.mark.parametrize(
    "host", ["rebound.example", "127.0.0.1.example:9464", "localhost.example", "a@b", "", "[::1"]
)
def test_a_name_that_a_page_may_have_given_this_machine_is_refused(
    server: ScrapeServer, host: str
) -> None:
    with connected(server) as link:
        refused = answer(link, host)
    assert refused.startswith(b"HTTP/1.0 403")
    assert b"figures" not in refused
    assert b"--metrics NAME:PORT" in refused


def test_a_connection_that_says_nothing_is_closed(
    server: ScrapeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrape_server, "_MOST_IDLE_S", 0.01)
    with connected(server) as link:
        assert link.recv(1) == b""


def test_connections_are_bounded_and_the_oldest_gives_way(
    server: ScrapeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrape_server, "_MOST_IDLE_S", 600.0)  # No busy machine decides.
    most = scrape_server._MOST_CONNECTIONS
    links = [connected(server) for _ in range(most + 5)]
    for link in links[:5]:
        assert link.recv(1) == b""
    for link in links[5:]:
        assert answer(link).endswith(b"figures")
    for link in links:
        link.close()
