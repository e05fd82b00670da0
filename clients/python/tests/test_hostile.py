"""What a hostile server, or a hostile answer on the way, must not do to a client."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import hashlib
import hmac
import itertools
import json
import socket
import threading
import time
import unittest
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any
from unittest import mock
from urllib.parse import parse_qs, urlsplit

import httpx
from test_client import World

from fedpost import AsyncFedpost, Fedpost, FedpostError, _core, verify_webhook

ODD = ["", "no", "null", '"no"', "[1]", "7", '{"title":', "[" * 100_000, "9" * 5000]
NOT_FEDPOST = "Not an answer of fedpost"


class Hostile(World):
    def canned(self, status: int, body: str, headers: dict[str, str] | None = None) -> str:
        return self.serve(lambda *_: (status, headers or {}, body))

    def raw(self, head: str, chunks: Callable[[], Iterable[bytes]]) -> str:
        """A server that answers each request with bytes as they are, until the client goes."""
        return self.bare(lambda _: itertools.chain([f"HTTP/1.1 {head}\r\n\r\n".encode()], chunks()))

    def bare(self, answer: Callable[[int], Iterable[bytes]]) -> str:
        """A server of which every byte is given, for the first request of a connection and for later ones."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def run() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, contextlib.suppress(OSError):
                    for n in itertools.count():
                        if not connection.recv(65536):
                            break
                        chunks = answer(n)
                        for chunk in chunks:
                            connection.sendall(chunk)
                        if not isinstance(chunks, list):
                            break

        threading.Thread(target=run, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    def both(self, url: str, sync: Callable[[Fedpost], object], concurrent: Callable[[AsyncFedpost], Any], patience: float = 0) -> list[BaseException]:
        """What both clients raise."""
        with self.assertRaises(Exception) as one:
            sync(self.fedpost(url, patience))

        async def run() -> None:
            async with AsyncFedpost(url, patience=patience) as fedpost:
                await concurrent(fedpost)

        with self.assertRaises(Exception) as other:
            asyncio.run(run())
        return [one.exception, other.exception]

    def test_a_redirect_is_not_followed(self) -> None:
        taken: list[object] = []

        def take(request: Any, body: bytes) -> tuple[int, dict[str, str], str]:
            taken.append((request.headers.get("Authorization"), body))
            return 200, {}, '{"id":"x"}'

        elsewhere = self.serve(take)
        for status in (301, 302, 303, 307, 308):
            url = self.canned(status, "", {"Location": elsewhere.replace("http://", "http://user:password@") + "/taken"})
            fedpost = Fedpost(url, token="secret", http=httpx.Client(follow_redirects=True))
            self.addCleanup(fedpost.close)
            for call in (lambda: fedpost.get("x"), lambda: fedpost.call("registerServer", body={"privateKeyPem": "private"})):
                with self.assertRaises(FedpostError) as refused:
                    call()
                self.assertEqual(str(refused.exception), f'{status} {NOT_FEDPOST}: it points to "{elsewhere}/taken", which is not followed: give the address of fedpost itself')
        self.assertEqual(taken, [])

    def test_no_error_shows_a_password_or_a_token(self) -> None:
        for address in ("http://frida:hunter2@127.0.0.1:8080", "http://hunter2@127.0.0.1", "http://frida:hunter2@[127.0.0.1", "ftp://frida:hunter2@a.example"):
            with self.assertRaisesRegex(ValueError, "give the token as") as refused:
                Fedpost(address)
            self.assertNotIn("hunter2", str(refused.exception))
        for address in ("http://127.0.0.1:port", "http://[::1", "http://127.0.0.1:99999"):
            with self.assertRaisesRegex(ValueError, "is no address of fedpost: give one"):
                Fedpost(address)
        for token in ("hunter2\nX-Other: 1", "hunter2\t3", "hunter2\0", "hunter2é", "hunter2\x7f"):
            for client in (Fedpost, AsyncFedpost):
                with self.assertRaisesRegex(ValueError, "^the token of fedpost has a line break") as refused:
                    client("http://127.0.0.1:8080", token=token)
                self.assertNotIn("hunter2", str(refused.exception))
        got: list[str | None] = []

        def answer(request: Any, _: bytes) -> tuple[int, dict[str, str], str]:
            got.append(request.headers.get("Authorization"))
            return 200, {}, '{"id":"x"}'

        with Fedpost(self.serve(answer), token=" secret\r\n") as fedpost:
            fedpost.get("x")
        self.assertEqual(got, ["Bearer secret"])

    def test_retry_after_is_obeyed_for_5_minutes_at_most(self) -> None:
        for header, seconds in (
            ("31536000", 300.0), ("9" * 30, 300.0), ("9" * 299, 300.0), ("9" * 5000, None), ("-31536000", None), ("Fri, 31 Dec 9999 23:59:59 GMT", 300.0),
            ("Fri, 31 Dec 1999 23:59:59 GMT", None), ("Fri, 31 Dec 99999 23:59:59 GMT", None), ("soon", None), ("٣", None),
        ):  # fmt: skip
            self.assertEqual(_core.retry_after(header), seconds, header[:40])
        url = self.canned(503, "{}", {"Retry-After": "9" * 30})
        for err in self.both(url, lambda f: f.get("x"), lambda f: f.get("x")):
            assert isinstance(err, FedpostError)
            self.assertEqual((err.status, err.retry_after), (503, 300.0))

    def test_no_pause_of_a_feed_is_longer_than_5_minutes(self) -> None:
        for much in ("31536000", "9" * 400, "1e999", '"soon"', "null"):
            answers = iter(['{"events":[],"next":"AQ","more":false}', '{"events":[],"next":"AQ","more":false,"retryAfter":%s}' % much])
            url = self.serve(lambda *_, answers=answers: (200, {}, next(answers, "{}")))
            pauses: list[float] = []
            with mock.patch("time.sleep", pauses.append), self.assertRaisesRegex(FedpostError, 'it has no "events"'):
                next(self.fedpost(url).events(""))
            self.assertLessEqual(max(pauses), 300.0)
            self.assertGreaterEqual(max(pauses), 2.0)

    def test_a_feed_that_stands_still_ends_in_an_error(self) -> None:
        for page in (
            {"events": [{"id": "evt_1"}], "next": "AQ", "more": False}, {"events": [], "next": "AQ", "more": True}, {"events": [{"id": "evt_1"}], "more": False},
            {"events": [], "next": 7, "more": True}, {"events": {}, "next": "AQ", "more": False}, {"events": [None], "next": "AQ"},
        ):  # fmt: skip
            asked = itertools.count(1)
            url = self.serve(lambda *_, page=page, asked=asked: (200, {}, json.dumps(page)) if next(asked) <= 10 else (400, {}, "{}"))

            async def read(fedpost: AsyncFedpost) -> None:
                async for _ in fedpost.events(""):
                    pass

            for err in self.both(url, lambda f: list(f.events("")), read):
                assert isinstance(err, FedpostError), page
                self.assertEqual(err.title, NOT_FEDPOST)
            self.assertLessEqual(next(asked), 5)

    def test_pages_that_go_in_a_circle_end_in_an_error(self) -> None:
        for cursors in ({"": "a", "a": "a"}, {"": "a", "a": "b", "b": "c", "c": "a"}):
            told: list[object] = []
            asked = itertools.count(1)

            def answer(request: Any, _: bytes, cursors: dict[str, str] = cursors, asked: Iterator[int] = asked) -> tuple[int, dict[str, str], str]:
                at = parse_qs(urlsplit(request.path).query).get("cursor", [""])[0]
                return (200, {}, json.dumps({"servers": [{}], "nextCursor": cursors[at]})) if next(asked) <= 20 else (400, {}, "{}")

            async def drain(pages: AsyncIterator[Any], told: list[object] = told) -> None:
                async for entry in pages:
                    told.append(entry)

            url = self.serve(answer)
            for err in self.both(url, lambda f, told=told: told.extend(f.pages("listServers", "servers")), lambda f: drain(f.pages("listServers", "servers"))):  # type: ignore[misc]
                self.assertRegex(str(err), f'^200 {NOT_FEDPOST}: its pages repeat: "[ab]" comes twice as nextCursor$')
            self.assertLessEqual(len(told), 4 * len(cursors))
        for page in ('{"servers":null}', '{"servers":{}}', '{"servers":[],"nextCursor":7}', "[]"):
            with self.assertRaises(FedpostError):
                list(self.fedpost(self.canned(200, page)).pages("listServers", "servers"))

    def test_a_malformed_refusal_is_a_fedpost_error_with_its_status(self) -> None:
        wrong = ['{"type":1,"title":["x"],"status":"y","detail":{},"errors":{"pointer":2},"id":3}', '{"title":"No","errors":[null,1,{"pointer":2}]}']
        huge = self.raw("404 Not Found", lambda: [b'{"title":"No","detail":"', b"x" * (70 << 20), b'"}'])
        for url in (huge, *(self.canned(404, body) for body in (*ODD, *wrong))):
            for err in self.both(url, lambda f: f.get("x"), lambda f: f.get("x")):
                assert isinstance(err, FedpostError), err
                self.assertEqual(err.status, 404)
                self.assertLess(len(str(err)), 1000)
        cut = self.raw("404 Not Found\r\nContent-Length: 100", lambda: [b"not here"])
        for err in self.both(cut, lambda f: f.get("x"), lambda f: f.get("x")):
            self.assertEqual(str(err), "404 Not Found: not here")

    def test_an_answer_that_is_no_json_is_a_fedpost_error(self) -> None:
        for body in ODD:
            for err in self.both(self.canned(200, body), lambda f: f.get("x"), lambda f: f.get("x")):
                self.assertIsInstance(err, FedpostError, body[:80])
        for wrong in ('{"counts":null}', '{"counts":[]}'):
            with self.assertRaises(FedpostError):
                self.fedpost(self.canned(200, wrong)).wait_until_done("x")

    def test_an_answer_is_bounded_in_size_and_time(self) -> None:
        endless = self.raw("200 OK", lambda: itertools.repeat(b"x" * (1 << 20)))
        for err in self.both(endless, lambda f: f.get("x"), lambda f: f.get("x")):
            self.assertEqual(str(err), f"200 {NOT_FEDPOST}: over 67108864 bytes")
        bomb = gzip.compress(b"x" * (70 << 20))
        packed = self.raw(f"200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(bomb)}", lambda: [bomb])
        for err in self.both(packed, lambda f: f.get("x"), lambda f: f.get("x")):
            self.assertEqual(str(err), f"200 {NOT_FEDPOST}: it is compressed, which was not asked for")

        def drops() -> Iterator[bytes]:
            while True:
                yield b" "
                time.sleep(0.02)

        with mock.patch.object(_core, "TIMEOUT", 0.5):
            for err in self.both(self.raw("200 OK", drops), lambda f: f.get("x"), lambda f: f.get("x")):
                self.assertRegex(str(err), r"^No answer from fedpost at http://127.0.0.1:\d+: no whole answer within 0 s$")
            for err in self.both(self.raw("404 Not Found", lambda: itertools.chain([b"not here"], drops())), lambda f: f.get("x"), lambda f: f.get("x")):
                self.assertEqual(str(err), "404 Not Found: not here")

    def test_headers_that_drip_are_bounded_in_time(self) -> None:
        good = b'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{"id":"x"}'

        def drops(first: bytes) -> Iterator[bytes]:
            yield first
            for n in itertools.count():
                yield f"X-{n}: {n}\r\n".encode()
                time.sleep(0.02)

        def read(fedpost: Fedpost) -> None:
            fedpost.get("x")
            fedpost.get("x")

        async def concurrent(fedpost: AsyncFedpost) -> None:
            await fedpost.get("x")
            await fedpost.get("x")

        with mock.patch.object(_core, "TIMEOUT", 0.5):
            for first in (b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 103 Early Hints\r\n", b"HTTP/1.1 101 Switching Protocols\r\n"):
                for url, warm in ((self.bare(lambda _, first=first: drops(first)), False), (self.bare(lambda n, first=first: drops(first) if n else [good]), True)):  # type: ignore[misc]
                    begin = time.monotonic()
                    for err in self.both(url, read, concurrent):
                        self.assertRegex(str(err), r"^No answer from fedpost at http://127.0.0.1:\d+: no whole answer within 0 s$", (first, warm))
                    self.assertLess(time.monotonic() - begin, 15)

    def test_a_request_that_nobody_reads_is_bounded_in_time(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        much: Any = {"activity": {"content": "x" * (64 << 20)}, "keyId": "k", "recipients": []}
        with mock.patch.object(_core, "TIMEOUT", 0.5):
            for err in self.both(f"http://127.0.0.1:{listener.getsockname()[1]}", lambda f: f.send(much), lambda f: f.send(much)):
                self.assertRegex(str(err), "no whole answer within 0 s$")

    def test_pages_without_entries_end_in_an_error(self) -> None:
        """Nobody can stop a loop that gives nothing."""
        asked = itertools.count(1)

        def answer(_: httpx.Request) -> httpx.Response:
            n = next(asked)  # one entry in the middle begins the count anew
            return httpx.Response(200, json={"servers": [{}] if n == 500 else [], "nextCursor": str(n)}) if n <= 2000 else httpx.Response(400)

        with mock.patch.object(_core, "MOST_EMPTY", 1000), Fedpost("http://fedpost.test", http=httpx.Client(transport=httpx.MockTransport(answer))) as fedpost:
            with self.assertRaisesRegex(FedpostError, "1000 pages in a row have no entry"):
                list(fedpost.pages("listServers", "servers"))
        self.assertEqual(next(asked), 1501)

    def test_a_feed_that_is_only_more_is_not_read_in_a_hot_loop(self) -> None:
        asked = itertools.count(1)

        def answer(_: httpx.Request) -> httpx.Response:
            n = next(asked)
            return httpx.Response(200, json={"events": [], "next": str(n), "more": True} if n <= 1010 else {})

        pauses: list[float] = []
        with Fedpost("http://fedpost.test", http=httpx.Client(transport=httpx.MockTransport(answer))) as fedpost:
            with mock.patch("time.sleep", pauses.append), self.assertRaisesRegex(FedpostError, 'it has no "events"'):
                next(fedpost.events(""))
        self.assertEqual(pauses, [0.0] * 1000 + [_core.FIRST_PAUSE] * 10)

    def test_a_cursor_that_no_address_can_carry_is_refused(self) -> None:
        async def read(fedpost: AsyncFedpost) -> None:
            async for _ in fedpost.events("now"):
                pass

        for odd in ("x" * (1 << 20), "\ud800", "\n"):
            url = self.canned(200, json.dumps({"servers": [], "nextCursor": odd, "events": [{}], "next": odd}))
            with self.assertRaisesRegex(FedpostError, f"^200 {NOT_FEDPOST}: its cursor is none$"):
                list(self.fedpost(url).pages("listServers", "servers"))
            for err in self.both(url, lambda f: list(f.events("now")), read):
                self.assertEqual(str(err), f"200 {NOT_FEDPOST}: its cursor is none")

    def test_a_refusal_disturbs_neither_log_nor_terminal(self) -> None:
        odd, long = "\x1b]0;owned\x07\x9b31m\u202e\r\n\ud800", "x" * 400_000
        for body in (
            json.dumps({"title": odd + long, "detail": odd + long, "type": odd, "id": odd, "requestId": odd}),
            json.dumps({"title": "No", "errors": [{"pointer": odd, "detail": odd}] * 5000}),
            "down\x1b[31m\r\n" + long,
        ):
            for err in self.both(self.canned(404, body), lambda f: f.get("x"), lambda f: f.get("x")):
                assert isinstance(err, FedpostError)
                self.assertLess(len(str(err)), 20_000)
                self.assertNotRegex(" ".join([str(err), err.type, str(err.id), str(err.request_id), *(f["detail"] for f in err.errors)]), "[\x00-\x1f\x7f-\x9f\u202e\ud800]")

    def test_a_server_of_a_newer_version_has_states_and_events_that_are_passed_on(self) -> None:
        answers = iter(
            [
                '{"id":"x","status":"delivering","counts":{"held":1,"delivered":2}}',
                '{"id":"x","status":"cancelled","counts":{"queued":1,"delivered":2}}',
                '{"id":"x","status":"done","counts":{"forwarded":1,"delivered":2}}',
                '{"events":[{"id":"evt_1","type":"server.moved","to":{"host":"b.example"}}],"next":"AQ","more":false}',
            ]
        )
        fedpost = self.fedpost(self.serve(lambda *_: (200, {}, next(answers))))
        self.assertEqual(fedpost.wait_until_done("x")["counts"], {"forwarded": 1, "delivered": 2})
        self.assertEqual(next(fedpost.events(""))["type"], "server.moved")

    def test_waiting_ends_after_its_time(self) -> None:
        url = self.canned(200, '{"id":"x","status":"delivering","counts":{"parked":1}}')
        for err in self.both(url, lambda f: f.wait_until_done("x", timeout=0.3), lambda f: f.wait_until_done("x", timeout=0.3)):
            self.assertIsInstance(err, TimeoutError)
            self.assertEqual(str(err), "x is not done after 0.3 s: {'parked': 1}")

    def test_a_feed_says_that_nobody_has_ever_answered_and_outlives_a_server_that_was_there(self) -> None:
        async def read(fedpost: AsyncFedpost) -> None:
            async for _ in fedpost.events(""):
                pass

        begin = time.monotonic()
        for url, patience in (("http://127.0.0.1:1", 0.5), ("http://fedpost.invalid", 30.0)):
            for err in self.both(url, lambda f: list(f.events("")), read, patience):
                assert isinstance(err, FedpostError)
                self.assertEqual(err.status, 0)
        self.assertLess(time.monotonic() - begin, 20)
        asked = itertools.count(1)

        def answer(_: httpx.Request) -> httpx.Response:
            n = next(asked)
            if 1 < n < 4:
                raise httpx.ConnectError("[Errno -2] Name or service not known")
            return httpx.Response(200, json={"events": [{"id": "evt_1"}] if n > 1 else [], "next": str(n), "more": False})

        with Fedpost("http://fedpost.test", patience=0, http=httpx.Client(transport=httpx.MockTransport(answer))) as fedpost:
            self.assertEqual(next(fedpost.events(""))["id"], "evt_1")

    def test_a_call_says_what_it_lacks(self) -> None:
        fedpost = self.fedpost("http://127.0.0.1:1")
        with self.assertRaisesRegex(ValueError, "^the API of fedpost has no operation 'explode'$"):
            fedpost.call("explode")  # type: ignore[arg-type]
        with self.assertRaisesRegex(ValueError, r"^GET /v1/activities/{id} needs its id, and got ''$"):
            fedpost.call("getActivity")
        for id in ("", ".", ".."):
            with self.assertRaisesRegex(ValueError, "needs its id, and got"):
                fedpost.get(id)


class HostileWebhooks(unittest.TestCase):
    SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    BODY = '{"id":"evt_1","type":"recipient.gone"}'

    def signed(self, body: str, key: bytes) -> dict[str, str]:
        at = str(int(time.time()))
        mac = hmac.digest(key, f"evt_1.{at}.{body}".encode(), hashlib.sha256)
        return {"webhook-id": "evt_1", "webhook-timestamp": at, "webhook-signature": "v1," + base64.b64encode(mac).decode()}

    def test_a_webhook_is_refused_where_no_secret_is_set(self) -> None:
        for secret in ("", " ", "\n", "whsec_", " whsec_\r\n", None, "é"):
            with self.assertRaisesRegex(ValueError, "is the setting that holds it empty"):
                verify_webhook(secret, self.signed(self.BODY, b""), self.BODY)  # type: ignore[arg-type]

    def test_whatever_comes_is_refused_as_a_webhook_of_somebody_else(self) -> None:
        key = base64.b64decode(self.SECRET[6:])
        good = self.signed(self.BODY, key)
        self.assertEqual(len(verify_webhook(self.SECRET + "\n", good, self.BODY)), 1)
        for header, value in (
            ("webhook-timestamp", "9" * 400), ("webhook-timestamp", "9" * 5000), ("webhook-timestamp", "٣"), ("webhook-timestamp", "-1"), ("webhook-timestamp", "1e999"),
            ("webhook-id", "\ud800"), ("webhook-signature", "v1,\ud800"), ("webhook-signature", ""),
        ):  # fmt: skip
            with self.assertRaises(FedpostError) as refused:
                verify_webhook(self.SECRET, {**good, header: value}, self.BODY)
            self.assertEqual(refused.exception.status, 401)
        for body in (*ODD, '{"events":7}', '{"events":null}'):
            with self.assertRaises(FedpostError) as refused:
                verify_webhook(self.SECRET, self.signed(body, key), body)
            self.assertEqual(refused.exception.status, 401)
        with self.assertRaises(FedpostError):
            verify_webhook(self.SECRET, good, "\ud800")


if __name__ == "__main__":
    unittest.main()
