from __future__ import annotations

import math
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import httpx

from . import _core
from ._core import FeedEvent
from ._error import FedpostError
from ._routes import ROUTES, Operation
from .types import Accepted, AcceptedBatch, Activity, ActivityPubSubmission, Batch, Events, RecipientState, SipherSubmission


class Fedpost:
    """A client of one fedpost, such as ``Fedpost("http://127.0.0.1:8080", token=…)``.

    A call that is safe to repeat is repeated for ``patience`` seconds while nobody answers, or the answer is 429 or
    5xx: what reads, what sets a state, and ``send`` and ``send_many``, which give their activity a deduplication key if
    it has none. ``Retry-After`` is obeyed, up to 5 minutes. Other calls are repeated only after a 429. What fedpost
    refuses is raised as FedpostError. A redirect is not followed: it would take a token or a private key to another
    server. An invalid address or token is a ValueError, which shows neither password nor token.
    """

    def __init__(self, address: str, *, token: str | None = None, patience: float = 30.0, http: httpx.Client | None = None) -> None:
        self._core = _core.Core(address, token, patience)
        self._http = http or httpx.Client(timeout=_core.TIMEOUT)

    def __enter__(self) -> Fedpost:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def call(self, operation: Operation, *, path: Mapping[str, str] | None = None, query: Mapping[str, Any] | None = None, body: Any = None) -> Any:
        """Makes one call, of any operation of the API by its name in openapi.yaml."""
        return self._repeated(operation, path, query, body, None, self._core.patience)

    def send(self, submission: ActivityPubSubmission | SipherSubmission) -> Accepted:
        """Submits one activity. Once fedpost has accepted it, it is delivered once, even if its answer is lost."""
        return cast(Accepted, _core.having("id", str, self._repeated("sendActivity", None, None, submission, self._key(submission), self._core.patience)))

    def send_many(self, batch: Batch | Sequence[ActivityPubSubmission | SipherSubmission]) -> AcceptedBatch:
        """Submits up to 100 activities: all of them or none."""
        body = batch if isinstance(batch, Mapping) else Batch(activities=batch)
        return cast(AcceptedBatch, _core.having("activities", list, self._repeated("sendActivities", None, None, body, self._key(body), self._core.patience)))

    def _key(self, body: Mapping[str, Any]) -> str | None:
        return str(uuid.uuid4()) if "deduplicationKey" not in body and self._core.patience > 0 else None

    def get(self, id: str) -> Activity:
        """The state of an activity, with the first 100 of its recipients."""
        return cast(Activity, _core.having("id", str, self.call("getActivity", path={"id": id})))

    def recipients(self, id: str, *, state: str | None = None, host: str | None = None) -> Iterator[RecipientState]:
        """The recipients of an activity, page by page."""
        return self.pages("getActivity", "recipients", path={"id": id}, query={"state": state, "host": host})

    def pages(self, operation: Operation, field: str, *, path: Mapping[str, str] | None = None, query: Mapping[str, Any] | None = None) -> Iterator[Any]:
        """The entries of a list, such as ``pages("listServers", "servers", query={"phase": "gone"})``.

        If they never end, the caller has to stop.
        """
        query, pages = dict(query or {}), _core.Pages()
        while True:
            page = _core.having(field, list, self.call(operation, path=path, query=query))
            yield from page[field]
            cursor = pages.after(page, field)
            if cursor is None:
                return
            query["cursor"] = cursor

    def wait_until_done(self, id: str, *, timeout: float = math.inf) -> Activity:
        """Waits until all recipients of an activity are finished, and returns the counts.

        That takes days if a server is down; after ``timeout`` seconds, a TimeoutError is raised. An application that
        sends much follows ``events`` instead, with ``notify``.
        """
        until, pause = time.monotonic() + timeout, 0.1
        while True:
            activity = cast(Activity, self.call("getActivity", path={"id": id}, query={"limit": 1}))
            if _core.is_done(activity):
                return activity
            if time.monotonic() + pause > until:
                raise TimeoutError(f"{id} is not done after {timeout:g} s: {activity['counts']}")
            time.sleep(pause)
            pause = min(2 * pause, 5.0)

    def events(self, after: str, *, types: Sequence[str] = ()) -> Iterator[FeedEvent]:
        """Follows the feed of events after a cursor, without end.

        ``after`` is the ``cursor`` of an event that was handled; "" for the oldest that is kept (30 days), or "now".
        It waits for new events and, once fedpost has answered this client, for fedpost itself. It raises if there is no
        first answer within the client's ``patience``, if fedpost refuses the request, and if the cursor does not move
        on.
        """
        query: dict[str, Any] = {"after": after, "type": ",".join(types)}
        pause, empty = _core.FIRST_PAUSE, 0
        while True:
            asked, wait = time.monotonic(), 0.0
            patience = 0 if self._core.answered else self._core.patience
            try:
                page = cast(Events, _core.page_after(query["after"], self._repeated("listEvents", None, query, None, None, patience)))
            except FedpostError as err:
                again = _core.pause_after(err, pause, True, self._core.answered)
                if again is None or (err.status == 0 and not self._core.answered):
                    raise
                pause = min(2 * pause, _core.LONGEST_PAUSE)
                time.sleep(again)
                continue
            pause = _core.FIRST_PAUSE
            for i, event in enumerate(page["events"], 1):
                yield cast(FeedEvent, {**event, "cursor": page["next"] if i == len(page["events"]) else query["after"]})
            # A server with too many readers who wait, or one that stops, answers at once.
            at_once = "retryAfter" in page or time.monotonic() - asked < _core.NOT_WAITED
            if "wait" in query and not page["events"] and not page.get("more") and at_once:
                wait = max(_core.NOT_WAITED, _core.up_to_longest(page.get("retryAfter")))
            empty = 0 if page["events"] or not page.get("more") else empty + 1
            if empty > _core.MANY_EMPTY:
                wait = _core.FIRST_PAUSE
            query["after"], query["wait"] = page["next"], _core.LONG_POLL
            time.sleep(wait)

    def _repeated(self, operation: Operation, path: Mapping[str, str] | None, query: Mapping[str, Any] | None, body: Any, key: str | None, patience: float) -> Any:
        until, pause = time.monotonic() + patience, _core.FIRST_PAUSE
        while True:
            request = self._core.request(self._http, operation, path, query, body, key)
            try:
                return self._once(request)
            except FedpostError as err:
                wait = _core.pause_after(err, pause, ROUTES[operation][2], self._core.answered)
                if wait is None or time.monotonic() + wait > until:
                    raise
            time.sleep(wait)
            pause = min(2 * pause, _core.LONGEST_PAUSE)

    def _once(self, request: httpx.Request) -> Any:
        answer = None
        try:
            with _core.time_limit(request):
                response = self._http.send(request, stream=True, follow_redirects=False)
                try:
                    answer = _core.Answer(response)
                    if not answer.is_whole:
                        for chunk in response.iter_bytes():
                            answer.add(chunk)
                            if answer.is_whole:
                                break
                finally:
                    response.close()
        except (httpx.RequestError, TimeoutError) as err:
            if answer is None or not answer.is_refusal:
                raise self._core.no_answer(err) from err
        got = answer.json()
        self._core.answered = True
        return got
