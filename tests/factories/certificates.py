"""A loopback server with a certificate that nobody has signed, for tests of what a client says about it."""

from __future__ import annotations

import contextlib
import ssl
import subprocess
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING

from tests.factories import serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def self_signed_server(folder: Path) -> Iterator[str]:
    """Its URI. No request gets an answer: a client that checks certificates sends none."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names, *files],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = serving.QuietServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with serving.serving(server) as address:
        yield f"https://{address}"
