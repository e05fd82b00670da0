"""What both clients share: requests, answers, and when a call is made again."""

from __future__ import annotations

import json
import math
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, urlsplit

import httpcore
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
MANY_EMPTY = 1000
"""How many pages without an event, in a row and each with more behind it, are asked for without a pause: a feed of rare
types has some, a faulty server has them without end."""
TIMEOUT = 60.0
"""The time limit of a request and its whole answer, in seconds: longer than the long poll."""
LONGEST_RETRY_AFTER = 300.0
"""The most seconds that Retry-After is obeyed: no answer may stop a caller for a year."""
MAX_ANSWER = 64 << 20
"""The most bytes that are read of an answer. The largest answer of fedpost is a page of a few megabytes."""
MAX_REFUSAL = 1 << 20
"""The most bytes that are read of a refusal."""
MOST_EMPTY = 10_000
"""How many pages of a list in a row may be without an entry. One that fedpost has searched in vain stands for 2,000 activities."""


class FeedEvent(Event):
    """An event of the feed, and the cursor to continue at."""

    cursor: str
    """Where ``events`` continues without losing an event. Only the last event of a page has the cursor behind the page:
    from the cursor of an earlier one, the events of the page come again, with the same ``id``."""


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
        self.answered = False
        """Whether fedpost has ever answered: from then on a name that is unknown is taken for a restart."""

    def request(
        self,
        client: httpx.Client | httpx.AsyncClient,
        operation: Operation,
        path: Mapping[str, str] | None,
        query: Mapping[str, Any] | None,
        body: Any,
        key: str | None,
    ) -> httpx.Request:
        if operation not in ROUTES:
            raise ValueError(f"the API of fedpost has no operation {operation!r}")
        method, route, _ = ROUTES[operation]
        for name in re.findall(r"{(\w+)}", route):
            value = (path or {}).get(name, "")
            if value in ("", ".", ".."):  # httpx drops the segments . and .. of a path: the call would be another
                raise ValueError(f"{method} {route} needs its {name}, and got {value!r}")
            route = route.replace("{" + name + "}", quote(value, safe=""))
        # How large a compressed answer is shows only when it is unpacked.
        headers = {**self.headers, "Accept-Encoding": "identity"}
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        if key:
            headers["Idempotency-Key"] = json.dumps(key)  # a string of RFC 9651
        params = {name: value for name, value in (query or {}).items() if value not in (None, "")}
        return client.build_request(method, self.base + route, params=params, headers=headers, content=content)

    def no_answer(self, err: httpx.RequestError | TimeoutError) -> FedpostError:
        why = str(err) or type(err).__name__
        if isinstance(err, (httpx.ReadTimeout, httpx.WriteTimeout, TimeoutError)):
            why = f"no whole answer within {TIMEOUT:.0f} s"
        if "WRONG_VERSION_NUMBER" in why:
            why = "it does not speak TLS: is it plain HTTP, and the address to begin with http://?"
        return FedpostError(0, f"No answer from fedpost at {self.base}", {"detail": why})


_until: ContextVar[float] = ContextVar("_until", default=math.inf)


@contextmanager
def time_limit(request: httpx.Request) -> Iterator[None]:
    """Bounds a request and its whole answer. httpx bounds each read: without this, a server that sends a byte now and then holds a call for ever."""
    request.extensions["trace"] = _trace
    token = _until.set(time.monotonic() + TIMEOUT)
    try:
        yield
    finally:
        _until.reset(token)


def _trace(event: str, info: Mapping[str, Any]) -> None:
    """Called by httpcore: reads and writes of a new connection end at the time limit of the request."""
    if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
        stream = info["return_value"]
        stream.read, stream.write = _limited(stream.read, httpcore.ReadTimeout), _limited(stream.write, httpcore.WriteTimeout)


def _limited(do: Callable[[Any, float | None], Any], error: type[Exception]) -> Callable[..., Any]:
    def limited(what: Any, timeout: float | None = None) -> Any:
        left = _until.get() - time.monotonic()
        if left <= 0:
            raise error
        return do(what, left if timeout is None else min(timeout, left))

    return limited


class Answer:
    """An answer as it comes, bounded in size. A longer refusal is cut there."""

    def __init__(self, response: httpx.Response) -> None:
        status = response.status_code
        if 300 <= status < 400:
            raise not_fedpost(status, f"it points to {_target(response)}, which is not followed: give the address of fedpost itself")
        self.is_refusal = not response.is_success
        self.is_whole = False
        """Whether nothing further has to be read."""
        self._response = response
        self._body = bytearray()
        if response.headers.get("content-encoding", "identity") != "identity":
            self._end("it is compressed, which was not asked for")

    def add(self, chunk: bytes) -> None:
        self._body += chunk
        if len(self._body) > (MAX_REFUSAL if self.is_refusal else MAX_ANSWER):
            self._end(f"over {MAX_ANSWER} bytes")

    def _end(self, why: str) -> None:
        self.is_whole = True
        if not self.is_refusal:
            raise not_fedpost(self._response.status_code, why)

    def json(self) -> Any:
        """The JSON of the answer; None if it has none. A refusal is raised."""
        response, body = self._response, bytes(self._body)
        try:
            got = None if response.status_code == 204 else json.loads(body)
        except (ValueError, RecursionError):
            kind = response.headers.get("content-type", "an answer")
            if not self.is_refusal:
                raise not_fedpost(response.status_code, f"{kind} that is not JSON: is the address right?") from None
            text = body[:300].decode(errors="replace")
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
    """How many seconds to wait by Retry-After, a number or a date; None if it is neither."""
    try:
        seconds = float(header) if re.fullmatch("[0-9]{1,300}", header) else parsedate_to_datetime(header).timestamp() - time.time()
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return None
    return up_to_longest(seconds) or None


def up_to_longest(seconds: object) -> float:
    """The seconds that an answer asks to wait, from 0 to the longest."""
    if not isinstance(seconds, (int, float)) or not seconds > 0:
        return 0.0
    return float(min(seconds, LONGEST_RETRY_AFTER))


def not_fedpost(status: int, detail: str) -> FedpostError:
    return FedpostError(status, "Not an answer of fedpost", {"detail": detail})


def having(member: str, kind: type, got: Any) -> Any:
    """Returns an answer that has the member that each such answer of fedpost has, and raises for any other."""
    if isinstance(got, dict) and isinstance(got.get(member), kind):
        return got
    raise not_fedpost(200, f'it has no "{member}": is the address right, and this client as new as fedpost?')


def page_after(after: str, got: Any) -> Any:
    """Returns a page of the feed that leads beyond the cursor ``after``, and raises for any other answer."""
    page = having("next", str, having("events", list, got))
    if not page["next"] or (page["next"] == after and (page.get("more") or page["events"])):
        raise not_fedpost(200, f'the feed does not move on: next is "{page["next"][:100]}" again')
    _cursor(page["next"])
    if not all(isinstance(event, dict) for event in page["events"]):
        raise not_fedpost(200, "its events are none")
    return page


def _cursor(text: object) -> str:
    """Returns a cursor that a URL can hold, and raises for any other: httpx would raise an error of its own."""
    if not isinstance(text, str) or not re.fullmatch("[!-~]{1,8000}", text):
        raise not_fedpost(200, "its cursor is none")
    return text


class Pages:
    """Which page of a list comes next."""

    def __init__(self) -> None:
        # A cursor that comes again is found by Brent's algorithm: the cursor of page 1, 2, 4, 8 and so on is kept.
        self._kept, self._keep, self._page, self._empty = "", 1, 0, 0

    def after(self, page: Mapping[str, Any], field: str) -> str | None:
        """The cursor of the next page; None after the last."""
        cursor = page.get("nextCursor")
        if not cursor:
            return None
        cursor = _cursor(cursor)
        if cursor == self._kept:
            raise not_fedpost(200, f'its pages repeat: "{cursor[:100]}" comes twice as nextCursor')
        self._page += 1
        self._empty = 0 if page[field] else self._empty + 1
        if self._empty == MOST_EMPTY:
            raise not_fedpost(200, f"{MOST_EMPTY} pages in a row have no entry")
        if self._page == self._keep:
            self._kept, self._keep = cursor, 2 * self._keep
        return cursor


def pause_after(err: FedpostError, pause: float, harmless: bool, answered: bool) -> float | None:
    """How long to wait before a call that failed is made again, in seconds; None: it is not."""
    pause = pause / 2 + random.random() * pause / 2  # so that callers that failed together do not retry together
    if err.status == 0 and _will_be_the_same(err.detail or "", answered):
        return None
    in_progress = err.status == 409 and err.retry_after is not None
    if err.status == 429 or (harmless and (err.status == 0 or err.status >= 500 or in_progress)):
        return max(err.retry_after or 0.0, pause)
    return None


def _will_be_the_same(detail: str, answered: bool) -> bool:
    """Whether a repeated request would fail the same way. The name of a container may be missing during a restart."""
    return "certificate" in detail or "does not speak TLS" in detail or (not answered and "not known" in detail)


def is_done(activity: Mapping[str, Any]) -> bool:
    """Whether all recipients are finished. The status says whether a state that this client does not know is final."""
    counts = having("counts", dict, activity)["counts"]
    ended = activity.get("status") in ("done", "cancelled")
    return ended and bool(counts) and not any(counts.get(state) for state in ("queued", "retrying", "parked"))
