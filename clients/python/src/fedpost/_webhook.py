from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
import time
from collections.abc import Mapping

from ._error import FedpostError
from .types import Event

_TOLERANCE = 300  # seconds, as Standard Webhooks recommends


def verify_webhook(secret: str, headers: Mapping[str, str], body: bytes | str) -> list[Event]:
    """Checks the signature of a webhook (Standard Webhooks) and returns its events, one or a batch.

    Raises a FedpostError of status 401 if fedpost has not signed it with the secret (``whsec_…``) within the last 5
    minutes. ``body`` is the body as it came: a parsed and printed one has another signature. An event may come twice,
    with the same ``id``. A secret that is none, or empty, is a ValueError.
    """
    given = {name.lower(): value for name, value in headers.items()}
    message_id, timestamp = given.get("webhook-id", ""), given.get("webhook-timestamp", "")
    try:
        key = base64.b64decode((secret or "").strip().removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not key:
        raise ValueError("the secret of a webhook is whsec_ and base64: is the setting that holds it empty?")
    if not re.fullmatch("[0-9]{1,15}", timestamp) or abs(time.time() - int(timestamp)) > _TOLERANCE:
        raise _refused("its time is missing, or more than 5 minutes away")
    raw = _bytes(body) if isinstance(body, str) else body
    want = base64.b64encode(hmac.digest(key, _bytes(f"{message_id}.{timestamp}.") + raw, hashlib.sha256))
    for one in given.get("webhook-signature", "").split(" "):
        version, _, signature = one.partition(",")
        # While a secret is replaced, each request has two signatures.
        if version == "v1" and hmac.compare_digest(_bytes(signature), want):
            return _events(raw)
    raise _refused("no signature holds")


def _events(raw: bytes) -> list[Event]:
    try:
        got = json.loads(raw)
    except (ValueError, RecursionError):
        raise _refused("it is not JSON") from None
    events = got.get("events", [got]) if isinstance(got, dict) else None
    if not isinstance(events, list):
        raise _refused("it has no events")
    return events


def _bytes(text: str) -> bytes:
    """A server may give headers that UTF-8 cannot have: they match no signature."""
    return text.encode(errors="surrogatepass")


def _refused(why: str) -> FedpostError:
    return FedpostError(401, "Not a webhook of fedpost", {"detail": why})
