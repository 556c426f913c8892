"""The HTTP server of ``gpumemprof run --metrics``: for a few scrapers, whoever else connects.

A page in a browser may give a name of its own to this machine's address, and would then be allowed
to read the answers: so a request must name this machine, by its address or a name that it has.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
from collections.abc import Iterable
from socketserver import ThreadingMixIn
from typing import Any, Callable
from urllib.parse import urlsplit
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

__all__ = ["ScrapeServer", "is_named"]

# A scraper sends its request at once.
_MOST_IDLE_S = 10.0
_MOST_CONNECTIONS = 32
_WAITING = 64
_REFUSAL = (
    "this name is not one of this machine's: ask by its address, or start with --metrics NAME:PORT"
)


def is_named(given: str, names: Iterable[str]) -> bool:
    """Whether a request's header Host is an address, or one of these names, with or without a port.

    >>> is_named("10.0.0.7:9464", []), is_named("[::1]:9464", []), is_named("node7", ["node7"])
    (True, True, True)
    >>> is_named("rebound.example:9464", ["node7"]), is_named("10.0.0.7.example", [])
    (False, False)
    """
    try:
        host = urlsplit(f"//{given}").hostname or ""
    except ValueError:
        return False
    if host in {name.lower() for name in names}:
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class _Handler(WSGIRequestHandler):
    def setup(self) -> None:
        """Wait no longer than this for what the other side sends."""
        self.request.settimeout(_MOST_IDLE_S)
        super().setup()

    def address_string(self) -> str:
        """No name server is asked who it is."""
        return str(self.client_address[0])

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


class ScrapeServer(ThreadingMixIn, WSGIServer):
    """Answers in threads: a bounded number, of which a new connection takes the oldest's place."""

    daemon_threads = True
    request_queue_size = _WAITING

    def __init__(self, host: str, port: int, answer: Callable[..., Any]) -> None:
        """Listen, and answer as this WSGI application does.

        Raises:
            OSError: the address cannot be used.
        """
        kind = socket.SOCK_STREAM
        found = socket.getaddrinfo(host, port, type=kind, flags=socket.AI_PASSIVE)
        self.address_family = found[0][0]
        self._open: dict[Any, None] = {}  # oldest first
        self._lock = threading.Lock()
        super().__init__((str(found[0][4][0]), port), _Handler)
        self._names = {"localhost", host, socket.gethostname(), self.server_name}
        self._answer = answer
        self.set_app(self._guarded)

    def start(self) -> None:
        """Answer from now on, in a thread."""
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def _guarded(self, request: dict[str, Any], respond: Callable[..., Any]) -> Any:
        # No browser leaves the header out.
        given = request.get("HTTP_HOST")
        if given is None or is_named(given, self._names):
            return self._answer(request, respond)
        respond("403 Forbidden", [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{_REFUSAL}\n".encode()]

    def process_request(self, request: Any, client_address: Any) -> None:
        """A connection was made."""
        with self._lock:
            self._open[request] = None
            oldest = next(iter(self._open)) if len(self._open) > _MOST_CONNECTIONS else None
            self._open.pop(oldest, None)
        if oldest is not None:
            with contextlib.suppress(OSError):  # Its thread ends, and closes it.
                oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """A connection is over."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """The other side went away, or did not speak: nothing that anybody must know."""
