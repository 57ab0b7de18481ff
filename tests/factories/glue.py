"""AWS Glue for tests: moto's server in a thread of this process, with users and keys that it checks. It leaves one
thing out on which commits depend, so a filter in front of it does that as Glue documents it: an update of a table that
names a version is refused if the table has another one by now."""

from __future__ import annotations

import contextlib
import io
import json
import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_POLICY = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "glue:*", "Resource": "*"}]}
_SETUP_REQUESTS = 5
_CODES = {
    "SignatureDoesNotMatch": "InvalidSignatureException",
    "InvalidClientTokenId": "UnrecognizedClientException",
    "AccessDenied": "AccessDeniedException",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GlueServer:
    """A running Glue, and the keys of a user who may use it and of one who may not."""

    endpoint: str
    keys: dict[str, str]
    foreign_keys: dict[str, str]


@contextlib.contextmanager
def running() -> Iterator[GlueServer]:
    """A Glue of one's own."""
    from moto import settings
    from moto.core.responses import ActionAuthenticatorMixin
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        def log(self, *arguments: Any) -> None: ...

    application = _Versions(DomainDispatcherApplication(create_backend_app))
    before = settings.INITIAL_NO_AUTH_ACTION_COUNT
    # All servers of moto in a process count requests together, and another one may have been here.
    settings.INITIAL_NO_AUTH_ACTION_COUNT = ActionAuthenticatorMixin.request_count + _SETUP_REQUESTS
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        endpoint = f"http://127.0.0.1:{server.server_port}"
        yield GlueServer(endpoint=endpoint, keys=_user(endpoint, "lake"), foreign_keys=_user(endpoint, "guest"))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        settings.INITIAL_NO_AUTH_ACTION_COUNT = before


def _user(endpoint: str, name: str) -> dict[str, str]:
    """A new user's keys, as variables. `guest` may do nothing."""
    import boto3

    iam = boto3.client(
        "iam", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="setup", aws_secret_access_key="setup"
    )
    iam.create_user(UserName=name)
    if name != "guest":
        iam.put_user_policy(UserName=name, PolicyName="tables", PolicyDocument=json.dumps(_POLICY))
    key = iam.create_access_key(UserName=name)["AccessKey"]
    iam.close()
    return {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}


def _refuse(start_response: Callable[..., Any], code: str, message: str) -> Iterable[bytes]:
    start_response("400 Bad Request", [("Content-Type", "application/x-amz-json-1.1")])
    return [json.dumps({"__type": code, "Message": message}).encode()]


class _Versions:
    """The filter: one update at a time, none of a version that is not the table's, and Glue's words for refusals."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application, self._lock = application, threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        action = environ.get("HTTP_X_AMZ_TARGET", "")
        if not action.startswith("AWSGlue."):
            return self._application(environ, start_response)
        if action != "AWSGlue.UpdateTable":
            return self._answer(environ, start_response)
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        environ["wsgi.input"] = io.BytesIO(body)
        with self._lock:
            if self._is_stale(json.loads(body)):
                return _refuse(
                    start_response, "ConcurrentModificationException", "Update table failed due to conflict."
                )
            return list(self._answer(environ, start_response))

    def _answer(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """The answer of moto, whose refusals of keys and rights are in XML, in words of other services than Glue."""
        begun: list[Any] = []
        body = b"".join(self._application(environ, lambda *arguments: begun.append(arguments)))
        code, message = (re.search(rb"<%s>(.*?)</%s>" % (tag, tag), body) for tag in (b"Code", b"Message"))
        if body.startswith(b"<?xml") and code and message:
            return _refuse(start_response, _CODES[code[1].decode()], message[1].decode())
        start_response(*begun[0])
        return [body]

    @staticmethod
    def _is_stale(request: dict[str, Any]) -> bool:
        from moto.core import DEFAULT_ACCOUNT_ID
        from moto.glue.models import glue_backends

        version = request.get("VersionId")
        backend = glue_backends[DEFAULT_ACCOUNT_ID]["us-east-1"]
        table = backend.get_table(request["DatabaseName"], request["TableInput"]["Name"])
        return version is not None and version != table.as_dict()["VersionId"]
