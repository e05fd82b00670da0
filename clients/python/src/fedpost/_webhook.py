from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Mapping

from ._error import FedpostError
from .types import Event

_TOLERANCE = 300  # seconds, as Standard Webhooks recommends


def verify_webhook(secret: str, headers: Mapping[str, str], body: bytes | str) -> list[Event]:
    """Checks the signature of a webhook (Standard Webhooks) and returns its events, one or a batch.

    Raises a FedpostError of status 401 if fedpost has not signed it with the secret (``whsec_…``) within the last 5
    minutes. ``body`` is the body as it came: a parsed and printed one has another signature. An event may come twice,
    with the same ``id``.
    """
    given = {name.lower(): value for name, value in headers.items()}
    message_id, timestamp = given.get("webhook-id", ""), given.get("webhook-timestamp", "")
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        key = b""
    if not key:
        raise ValueError("the secret of a webhook is whsec_ and base64")
    if not timestamp.isdecimal() or abs(time.time() - int(timestamp)) > _TOLERANCE:
        raise _refused("its time is missing, or more than 5 minutes away")
    raw = body.encode() if isinstance(body, str) else body
    want = base64.b64encode(hmac.digest(key, f"{message_id}.{timestamp}.".encode() + raw, hashlib.sha256)).decode()
    for one in given.get("webhook-signature", "").split(" "):
        version, _, signature = one.partition(",")
        # While a secret is replaced, each request has two signatures.
        if version == "v1" and hmac.compare_digest(signature.encode(), want.encode()):
            got = json.loads(raw)
            events: list[Event] = got["events"] if "events" in got else [got]
            return events
    raise _refused("no signature holds")


def _refused(why: str) -> FedpostError:
    return FedpostError(401, "Not a webhook of fedpost", {"detail": why})
