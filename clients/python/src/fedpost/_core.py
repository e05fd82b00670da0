"""What both clients share: requests, answers, and when a call is made again."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
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
LONGEST_RETRY_AFTER = 300.0
"""The most seconds that Retry-After is obeyed: whoever answers must not be able to stop a caller for a year."""
MAX_ANSWER = 64 << 20
"""The most bytes that are read of an answer. The largest answer of fedpost is a page of a few megabytes."""
MAX_REFUSAL = 1 << 20
"""The most bytes that are read of a refusal."""


class Told(Event):
    """An event of the feed, and where the feed goes on."""

    cursor: str
    """Where ``events`` goes on without losing an event. It moves on with the last event of a page; before, the events of
    the page are told again, with the same ``id``."""


class Core:
    """The address of one fedpost, and how to talk to it."""

    def __init__(self, address: str, token: str | None, patience: float) -> None:
        try:
            parts = urlsplit(address)
            valid = parts.scheme in ("http", "https") and parts.netloc and not parts.query and not parts.fragment and parts.port != 0 and httpx.URL(address)
            password = "@" in parts.netloc
        except (ValueError, httpx.InvalidURL):
            valid, password = False, "@" in address
        if password:
            raise ValueError("the address of fedpost has a user name or a password: leave them out, and give the token as token=…")
        if not valid:
            raise ValueError(f"{address!r} is no address of fedpost: give one such as http://127.0.0.1:8080")
        token = (token or "").strip()  # a file ends in a line break
        if not re.fullmatch("[ -~]*", token):
            raise ValueError("the token of fedpost has a line break or another character that is not printable ASCII")
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
        # What is compressed has no bound before it is unpacked.
        headers = {**self.headers, "Accept-Encoding": "identity"}
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        if key:
            headers["Idempotency-Key"] = json.dumps(key)  # a string of RFC 9651
        params = {name: value for name, value in (query or {}).items() if value not in (None, "")}
        return client.build_request(method, self.base + route, params=params, headers=headers, content=content)

    def no_answer(self, err: httpx.RequestError) -> FedpostError:
        why = str(err) or type(err).__name__
        if "WRONG_VERSION_NUMBER" in why:
            why = "it speaks plain HTTP: begin the address with http://"
        return FedpostError(0, f"No answer from fedpost at {self.base}", {"detail": why})


class Answer:
    """An answer as it comes, bounded in size and time. Of a refusal, what is beyond the bounds is left out."""

    def __init__(self, response: httpx.Response, asked: float) -> None:
        status = response.status_code
        if 300 <= status < 400:
            raise not_fedpost(status, f"it points to {_target(response)}, which is not followed: give the address of fedpost itself")
        self.is_refusal = not response.is_success
        self.is_whole = False
        """Whether to read on is of no use."""
        self._response = response
        self._until = asked + TIMEOUT
        self._body = bytearray()
        if response.headers.get("content-encoding", "identity") != "identity":
            self._end("it is compressed, which was not asked for")

    def add(self, chunk: bytes) -> None:
        self._body += chunk
        if len(self._body) > (MAX_REFUSAL if self.is_refusal else MAX_ANSWER):
            self._end(f"over {MAX_ANSWER} bytes")
        elif time.monotonic() > self._until:
            self.is_whole = True
            if not self.is_refusal:
                raise FedpostError(0, "No whole answer from fedpost", {"detail": f"it has taken more than {TIMEOUT:.0f} s"})

    def _end(self, why: str) -> None:
        self.is_whole = True
        if not self.is_refusal:
            raise not_fedpost(self._response.status_code, why)

    def json(self) -> Any:
        """The JSON of the answer; None if it has none. A refusal is raised."""
        response, body = self._response, bytes(self._body)
        try:
            got = json.loads(body) if body else None
        except (ValueError, RecursionError):
            kind = response.headers.get("content-type", "")
            if not self.is_refusal:
                raise not_fedpost(response.status_code, f"{kind} that is not JSON: is the address right?") from None
            text = body[:300].decode(errors="replace").strip()
            got = {"detail": "text/html, which is not from fedpost: is the address right?" if kind.startswith("text/html") else text}
        if not self.is_refusal:
            return got
        title = response.reason_phrase or f"HTTP {response.status_code}"
        raise FedpostError(response.status_code, title, got if isinstance(got, dict) else None, retry_after(response.headers.get("retry-after", "")))


def _target(response: httpx.Response) -> str:
    """Where a redirect points, without passwords."""
    try:
        to = response.url.join(response.headers["location"])
    except (KeyError, ValueError, httpx.InvalidURL):
        return "no address"
    return json.dumps(f"{to.scheme}://{to.netloc.decode()}{to.path[:300]}")


def retry_after(header: str) -> float | None:
    """How many seconds to wait by Retry-After, a number or a date; None: it says nothing."""
    try:
        seconds = float(header) if re.fullmatch("[0-9]{1,300}", header) else parsedate_to_datetime(header).timestamp() - time.time()
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return None
    return up_to_longest(seconds) or None


def up_to_longest(seconds: object) -> float:
    """A wait that an answer asks for, whatever it says."""
    if not isinstance(seconds, (int, float)) or not seconds > 0:
        return 0.0
    return float(min(seconds, LONGEST_RETRY_AFTER))


def not_fedpost(status: int, detail: str) -> FedpostError:
    return FedpostError(status, "Not an answer of fedpost", {"detail": detail})


def having(member: str, kind: type, got: Any) -> Any:
    """An answer, if it has what each such answer of fedpost has."""
    if isinstance(got, dict) and isinstance(got.get(member), kind):
        return got
    raise not_fedpost(200, f'it has no "{member}": is the address right, and this client as new as fedpost?')


def page_after(after: str, got: Any) -> Any:
    """A page of the feed behind a cursor, if it is one and the feed moves on."""
    page = having("next", str, having("events", list, got))
    if not page["next"] or (page["next"] == after and (page.get("more") or page["events"])):
        raise not_fedpost(200, f'the feed stands still: next is "{page["next"]}" again')
    if not all(isinstance(event, dict) for event in page["events"]):
        raise not_fedpost(200, "its events are none")
    return page


def next_page(seen: set[str], page: Mapping[str, Any]) -> str | None:
    """The cursor of the page behind one; None behind the last."""
    cursor = page.get("nextCursor")
    if not cursor:
        return None
    if not isinstance(cursor, str) or cursor in seen:
        raise not_fedpost(200, f"its pages go in a circle: {json.dumps(cursor)} comes twice as nextCursor")
    seen.add(cursor)
    return cursor


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
    """Whether all recipients are finished."""
    return bool(counts) and not any(counts.get(state) for state in ("queued", "retrying", "parked"))
