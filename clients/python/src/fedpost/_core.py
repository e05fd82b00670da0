"""What both clients share: requests, answers, and when a call is made again."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from ._error import FedpostError
from ._routes import ROUTES, Operation
from .types import Event

FIRST_PAUSE = 0.2
LONGEST_PAUSE = 10.0
LONG_POLL = 20
"""How long one request waits for an event, in seconds."""
NOT_WAITED = 2.0
"""A wait so short that the server has not waited, in seconds."""
TIMEOUT = 60.0
"""The time limit of a request, in seconds: longer than the long poll."""


class Told(Event):
    """An event of the feed, and where the feed goes on."""

    cursor: str
    """Where ``events`` goes on without losing an event. It moves on with the last event of a page; before, the events of
    the page are told again, with the same ``id``."""


class Core:
    """The address of one fedpost, and how to talk to it."""

    def __init__(self, address: str, token: str | None, patience: float) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
            raise ValueError(f"{address!r} is no address of fedpost: give one such as http://127.0.0.1:8080")
        self.base = address.rstrip("/")
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.patience = patience

    def request(
        self,
        client: httpx.Client | httpx.AsyncClient,
        operation: Operation,
        path: Mapping[str, str] | None,
        query: Mapping[str, Any] | None,
        body: Any,
        key: str | None,
    ) -> httpx.Request:
        method, route, _ = ROUTES[operation]
        for name, value in (path or {}).items():
            route = route.replace("{" + name + "}", quote(value, safe=""))
        headers = dict(self.headers)
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        if key:
            headers["Idempotency-Key"] = json.dumps(key)  # a string of RFC 9651
        params = {name: value for name, value in (query or {}).items() if value not in (None, "")}
        return client.build_request(method, self.base + route, params=params, headers=headers, content=content)

    def no_answer(self, err: httpx.TransportError) -> FedpostError:
        why = str(err) or type(err).__name__
        if "WRONG_VERSION_NUMBER" in why:
            why = "it speaks plain HTTP: begin the address with http://"
        return FedpostError(0, f"No answer from fedpost at {self.base}", {"detail": why})


def answer(response: httpx.Response) -> Any:
    """The JSON of an answer; None if it has none. A refusal is raised."""
    text = response.text
    try:
        got = json.loads(text) if text else None
    except ValueError:
        kind = response.headers.get("content-type", "")
        if response.is_success:
            raise not_fedpost(response.status_code, f"{kind} that is not JSON: is the address right?") from None
        got = {"detail": "text/html, which is not from fedpost: is the address right?" if kind.startswith("text/html") else text[:300].strip()}
    if response.is_success:
        return got
    after = response.headers.get("retry-after", "")
    problem = got if isinstance(got, dict) else None
    raise FedpostError(response.status_code, response.reason_phrase, problem, float(after) if after.isdecimal() and after != "0" else None)


def not_fedpost(status: int, detail: str) -> FedpostError:
    return FedpostError(status, "Not an answer of fedpost", {"detail": detail})


def having(member: str, got: Any) -> Any:
    """An answer, if it has what each such answer of fedpost has."""
    if isinstance(got, dict) and member in got:
        return got
    raise not_fedpost(200, f'it has no "{member}": is the address right, and this client as new as fedpost?')


def pause_after(err: FedpostError, pause: float, harmless: bool) -> float | None:
    """How long to wait before a call that failed is made again, in seconds; None: it is not."""
    pause = pause / 2 + random.random() * pause / 2  # so that callers that failed together do not come again together
    if err.status == 0 and "certificate" in str(err):
        return None  # it will be the same in a moment
    in_progress = err.status == 409 and err.retry_after is not None
    if err.status == 429 or (harmless and (err.status == 0 or err.status >= 500 or in_progress)):
        return max(err.retry_after or 0.0, pause)
    return None


def is_done(counts: Mapping[str, int]) -> bool:
    """Whether every recipient has come to its end."""
    return bool(counts) and not any(counts.get(state) for state in ("queued", "retrying", "parked"))
