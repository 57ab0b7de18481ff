"""A server that cannot be reached, in words: an error of any HTTP client comes in, one sentence with a remedy goes out.
Clients are recognised by their words, since each wraps the fault of the network in its own way."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from iceberg_compaction import errors
from iceberg_compaction.storage import redact


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server in sentences."""

    name: str  # such as `the store of s3://lake`
    uri: str  # empty: the client's own choice
    setting: str  # the option or property that names the server
    certificates: str  # the variable that names a file of trusted certificates


_NO_TLS = re.compile(r"wrong.version.number|record.layer.failure|packet.length.too.long|unknown.protocol", re.I)
_UNTRUSTED = re.compile(
    r"certificate|self.?signed|local issuer|hostname mismatch|doesn't match|curlcode: (51|60)\b|ssl peer", re.I
)
_NO_ADDRESS = re.compile(
    r"resolve host|failed to resolve|name or service not known|nodename nor servname|getaddrinfo|curlcode: 6\b|"
    r"could not translate host name|name resolution|no address associated",
    re.I,
)
_REFUSED = re.compile(
    r"connection refused|could not connect|couldn't connect|cannot connect to host|connect call failed|"
    r"failed to connect|curlcode: 7\b|newconnectionerror",
    re.I,
)
_SILENT = re.compile(r"timed? ?out|timeout|curlcode: 28\b", re.I)
_LOST = re.compile(r"curlcode|network_connection|ssl|connection (reset|aborted|closed)|remote end closed", re.I)


def explain(text: str, server: Server) -> errors.UnreachableError | None:
    """Our error for the words of a client; None: they are not about the network."""
    at = f" at {redact.redact_text(server.uri)}" if server.uri else ""
    if _NO_TLS.search(text):
        return errors.WrongStoreError(
            f"{capital(server.name)}{at} does not speak TLS; write http:// instead of https:// in {server.setting}."
        )
    if _UNTRUSTED.search(text):
        return errors.WrongStoreError(
            f"The TLS certificate of {server.name}{at} is not trusted ({_reason(text)}); put the certificate of its "
            f"authority into a file and name the file in {server.certificates}."
        )
    if _NO_ADDRESS.search(text):
        host = urlsplit(server.uri).hostname or _host(text)
        return errors.UnreachableError(
            f"{capital(server.name)} is not reached: the host {host} has no address here; check {server.setting} and "
            "the network."
        )
    if _REFUSED.search(text):
        return errors.UnreachableError(
            f"Nothing answers{at} for {server.name} (Connection refused); check {server.setting}, and that the server "
            "is running."
        )
    if _SILENT.search(text):
        return errors.UnreachableError(
            f"There is no answer from {server.name}{at} in time (Read timed out); check {server.setting}, firewalls, "
            "and that the server is well."
        )
    if _LOST.search(text):
        return errors.UnreachableError(
            f"The connection to {server.name}{at} breaks before an answer comes; check {server.setting} and the "
            "network, and try again."
        )
    return None


def is_absent(text: str) -> bool:
    """Whether nobody was reached at all: a retry right away would find nobody either."""
    return any(words.search(text) for words in (_NO_TLS, _UNTRUSTED, _NO_ADDRESS, _REFUSED))


def _reason(text: str) -> str:
    for words, reason in (
        (r"self.?signed", "it is self-signed"),
        (r"expired", "it has expired"),
        (r"mismatch|doesn't match|curlcode: 51|no alternative certificate", "it is for another host name"),
    ):
        if re.search(words, text, re.I):
            return reason
    return "no known authority has signed it"


def _host(text: str) -> str:
    match = re.search(r"(?:host(?:name)?:?|resolve) '?([\w.-]+\.[\w.-]+)", text, re.I)
    return match[1].rstrip(".") if match else "in it"


def capital(text: str) -> str:
    """The text as the beginning of a sentence."""
    return text[0].upper() + text[1:]
