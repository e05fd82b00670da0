from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import http.server
import json
import os
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedpost import AsyncFedpost, Fedpost, FedpostError, verify_webhook
from fedpost.types import ActivityPubSubmission

TOKEN = "only-for-this-test-0123456789"
KEY = "https://social.example/users/frida#main-key"


def note(n: int) -> dict[str, Any]:
    return {
        "@context": "https://www.w3.org/ns/activitystreams",
        "id": f"https://social.example/notes/{n}/activity",
        "type": "Create",
        "actor": "https://social.example/users/frida",
        "object": {"id": f"https://social.example/notes/{n}", "type": "Note", "content": "<p>Hello & goodbye ☃</p>"},
    }


PID = os.getpid()
# Where nobody else listens, who could take the port while fedpost is killed: Linux has all of 127.0.0.0/8.
OWN = f"127.{64 + (PID >> 16 & 63)}.{PID >> 8 & 255}.{PID & 255}" if sys.platform == "linux" else "127.0.0.1"


class World(unittest.TestCase):
    """A whole fedpost, and inboxes on loopback."""

    def setUp(self) -> None:
        self.data = self.enterContext(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)) if hasattr(self, "enterContext") else tempfile.mkdtemp()

    def up(self, listen: str = f"{OWN}:0") -> str:
        self.process = subprocess.Popen(
            [os.environ.get("FEDPOST", "fedpost"), "up", "--listen", listen, "--data", self.data, "--allow-private"],
            env={**os.environ, "FEDPOST_API_TOKEN": TOKEN, "RETRY_FIRST_WAIT": "100ms"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.addCleanup(self.kill, self.process)
        assert self.process.stdout
        for line in self.process.stdout:
            if line.startswith("fedpost listening on "):
                return line.split()[-1]
        raise AssertionError("fedpost up ended: is FEDPOST the path of the program?")

    def kill(self, process: subprocess.Popen[str]) -> None:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()

    def serve(self, answer: Callable[[http.server.BaseHTTPRequestHandler, bytes], tuple[int, dict[str, str], str]]) -> str:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, headers, text = answer(self, body)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            do_GET = do_DELETE = do_POST

            def log_message(self, *_: object) -> None: ...

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=[0.02], daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}"

    def inbox(self, status: int) -> tuple[str, list[bytes]]:
        got: list[bytes] = []

        def answer(_: object, body: bytes) -> tuple[int, dict[str, str], str]:
            got.append(body)
            return status, {}, ""

        return self.serve(answer) + "/inbox", got

    def fedpost(self, url: str, patience: float = 30.0) -> Fedpost:
        client = Fedpost(url, token=TOKEN, patience=patience)
        self.addCleanup(client.close)
        return client


class AgainstARealServer(World):
    def test_an_activity_is_delivered_once_and_every_recipient_has_its_end(self) -> None:
        fedpost = self.fedpost(self.up())
        key = fedpost.call("generateKey", body={"id": KEY, "type": "ed25519"})
        self.assertTrue(key["publicKeyPem"].startswith("-----BEGIN PUBLIC KEY-----"))
        (good, got), (gone, _) = self.inbox(202), self.inbox(410)
        submission: ActivityPubSubmission = {"activity": note(1), "keyId": KEY, "recipients": [good, gone], "deduplicationKey": "create 1"}
        first = fedpost.send(submission)
        self.assertEqual((first["status"], first["recipients"]), ("queued", 2))
        again = fedpost.send(submission)
        self.assertEqual((again["status"], again["id"]), ("duplicate", first["id"]))
        done = fedpost.wait_until_done(first["id"])
        self.assertEqual((done["status"], done["counts"]), ("done", {"delivered": 1, "failed": 1}))
        self.assertEqual([json.loads(body) for body in got], [note(1)])
        failed = list(fedpost.recipients(first["id"], state="failed"))
        self.assertEqual([(r["inbox"], r.get("lastStatus")) for r in failed], [(gone, 410)])

        batch = fedpost.send_many([{"activity": note(n), "keyId": KEY, "recipients": [good]} for n in (2, 3)])
        self.assertEqual(len(batch["activities"]), 2)
        with self.assertRaises(FedpostError) as refused:
            fedpost.send({**submission, "recipients": [good]})
        self.assertEqual((refused.exception.status, refused.exception.id), (422, first["id"]))
        with self.assertRaises(FedpostError) as refused:
            fedpost.send({**submission, "recipients": ["nowhere"], "orderingKey": ""})
        self.assertEqual((refused.exception.status, len(refused.exception.errors)), (400, 2))
        self.assertIn("#/recipients/0/inbox", str(refused.exception))

    def test_the_feed_goes_on_where_it_stopped_through_kill_9(self) -> None:
        url = self.up()
        fedpost, reader = self.fedpost(url), self.fedpost(url)
        fedpost.call("generateKey", body={"id": KEY, "type": "ed25519"})
        gone, _ = self.inbox(410)
        told: list[tuple[str, str]] = []

        def read() -> None:
            for event in reader.events("", types=["recipient.gone"]):
                told.append((event["activityId"], event["cursor"]))
                if len(told) == 6:
                    return

        reading = threading.Thread(target=read)
        reading.start()
        sent: list[str] = []

        def send(n: int) -> None:
            sent.append(fedpost.send({"activity": note(n), "keyId": KEY, "recipients": [gone]})["id"])

        for n in range(0, 6, 2):
            send(n)
            while len(told) <= n:
                time.sleep(0.02)
            self.kill(self.process)  # in the middle of a long poll
            late = threading.Thread(target=send, args=[n + 1])
            late.start()  # repeated until the server is back
            time.sleep(0.3)
            self.up(url.removeprefix("http://"))
            late.join()
        reading.join()
        self.assertEqual(sorted(id for id, _ in told), sorted(sent))
        # What was not dealt with comes again behind its cursor.
        rest = []
        for event in fedpost.events(told[2][1], types=["recipient.gone"]):
            rest.append(event["activityId"])
            if len(rest) == 3:
                break
        self.assertEqual(rest, [id for id, _ in told[3:]])

    def test_the_client_for_asyncio_does_the_same(self) -> None:
        url = self.up()
        gone, _ = self.inbox(410)

        async def run() -> tuple[str, str]:
            async with AsyncFedpost(url, token=TOKEN) as fedpost:
                await fedpost.call("generateKey", body={"id": KEY, "type": "ed25519"})
                accepted = await fedpost.send({"activity": note(1), "keyId": KEY, "recipients": [gone], "notify": True})
                await fedpost.wait_until_done(accepted["id"])
                self.assertEqual([r["state"] async for r in fedpost.recipients(accepted["id"])], ["failed"])
                async for event in fedpost.events("", types=["recipient.gone"]):
                    return accepted["id"], event["activityId"]
            raise AssertionError

        sent, told = asyncio.run(run())
        self.assertEqual(sent, told)


class AgainstACannedServer(World):
    def test_a_send_is_repeated_with_one_key_while_the_server_says_503(self) -> None:
        asked: list[str | None] = []

        def answer(request: http.server.BaseHTTPRequestHandler, _: bytes) -> tuple[int, dict[str, str], str]:
            asked.append(request.headers.get("Idempotency-Key"))
            if len(asked) < 3:
                return 503, {"Retry-After": "1"}, '{"title":"Service Unavailable"}'
            return 202, {}, '{"id":"X","status":"queued","recipients":1}'

        begin = time.monotonic()
        accepted = self.fedpost(self.serve(answer)).send({"activity": note(1), "keyId": KEY, "recipients": ["https://a.example/inbox"]})
        self.assertEqual((accepted["id"], len(asked), len(set(asked))), ("X", 3, 1))
        self.assertRegex(asked[0] or "", r'^"[0-9a-f-]{36}"$')
        self.assertGreaterEqual(time.monotonic() - begin, 1.99, "Retry-After is obeyed")

    def test_what_is_not_harmless_is_not_repeated_and_patience_ends(self) -> None:
        asked: list[str] = []

        def answer(request: http.server.BaseHTTPRequestHandler, _: bytes) -> tuple[int, dict[str, str], str]:
            asked.append(request.path)
            return 503, {"Retry-After": "1"}, '{"title":"Service Unavailable"}'

        fedpost = self.fedpost(self.serve(answer), patience=1.5)
        for call, times in (
            (lambda: fedpost.call("generateKey", body={"id": "x"}), 1),
            (lambda: fedpost.call("forgetActivity", path={"id": "x/y"}), 1),
            (lambda: fedpost.get("x"), 2),
        ):
            asked.clear()
            with self.assertRaises(FedpostError) as refused:
                call()
            self.assertEqual((refused.exception.status, refused.exception.retry_after, len(asked)), (503, 1.0, times))
            self.assertNotIn("x/y", asked[0])  # percent-encoded whole

    def test_what_is_wrong_is_said_in_one_sentence(self) -> None:
        for address in ("", "127.0.0.1:8080", "ftp://a.example", "http://a.example/?x=1"):
            with self.assertRaisesRegex(ValueError, "is no address of fedpost: give one"):
                Fedpost(address)
        page = self.serve(lambda *_: (200, {"Content-Type": "text/html"}, "<p>Welcome"))
        with self.assertRaisesRegex(FedpostError, "^200 Not an answer of fedpost: text/html that is not JSON: is the address right"):
            self.fedpost(page).get("x")
        with self.assertRaisesRegex(FedpostError, "^No answer from fedpost at http://127.0.0.1:1: .*refused"):
            self.fedpost("http://127.0.0.1:1", patience=0).get("x")
        other = self.fedpost(self.serve(lambda *_: (200, {"Content-Type": "application/json"}, '{"hello":"world"}')))
        with self.assertRaisesRegex(FedpostError, 'it has no "id"'):
            other.get("x")
        calls: dict[str, Callable[[], object]] = {
            "id": lambda: other.send({"activity": {}, "keyId": "k", "recipients": []}),
            "activities": lambda: other.send_many([]),
            "counts": lambda: other.wait_until_done("x"),
            "recipients": lambda: next(other.recipients("x")),
            "events": lambda: next(other.events("")),
        }
        for member, call in calls.items():
            with self.assertRaisesRegex(FedpostError, f'^200 Not an answer of fedpost: it has no "{member}": is the address right, and this client'):
                call()
        elsewhere = self.serve(lambda *_: (404, {"Content-Type": "text/html; charset=utf-8"}, "<p>Not here"))
        with self.assertRaisesRegex(FedpostError, "^404 Not Found: text/html, which is not from fedpost: is the address right.$"):
            self.fedpost(elsewhere).get("x")
        with self.assertRaisesRegex(FedpostError, "it does not speak TLS: is it plain HTTP, and the address to begin with http://.$"):  # at once
            self.fedpost(page.replace("http:", "https:")).get("x")
        pem = Path(__file__).parents[2] / "typescript" / "test" / "untrusted.pem"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        secure = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
        secure.socket = context.wrap_socket(secure.socket, server_side=True)
        secure.handle_error = lambda *_: None  # type: ignore[method-assign] # the handshake that fails
        threading.Thread(target=secure.serve_forever, daemon=True).start()
        self.addCleanup(secure.server_close)
        self.addCleanup(secure.shutdown)
        untrusted = self.fedpost(f"https://127.0.0.1:{secure.server_port}")
        for at_once in (lambda: untrusted.get("x"), lambda: next(untrusted.events(""))):
            with self.assertRaisesRegex(FedpostError, "^No answer from fedpost at https:.*certificate verify failed: self-signed certificate"):
                at_once()
        proxy = self.serve(lambda *_: (400, {}, "upstream is down"))
        with self.assertRaisesRegex(FedpostError, "^400 Bad Request: upstream is down$"):
            self.fedpost(proxy).get("x")


class Webhooks(unittest.TestCase):
    SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

    def headers(self, body: str, at: int | None = None) -> dict[str, str]:
        at = int(time.time()) if at is None else at
        mac = hmac.digest(base64.b64decode(self.SECRET[6:]), f"evt_1.{at}.{body}".encode(), hashlib.sha256)
        return {"Webhook-Id": "evt_1", "Webhook-Timestamp": str(at), "Webhook-Signature": "v1,AAAA v1," + base64.b64encode(mac).decode()}

    def test_a_webhook_is_verified(self) -> None:
        one = '{"id":"evt_1","type":"recipient.gone","time":"2026-11-22T08:00:00Z"}'
        self.assertEqual([e["id"] for e in verify_webhook(self.SECRET, self.headers(one), one)], ["evt_1"])
        batch = f'{{"events":[{one},{one}]}}'
        self.assertEqual(len(verify_webhook(self.SECRET, self.headers(batch), batch.encode())), 2)
        for headers, body in ((self.headers(one), one + " "), (self.headers(one, 1000), one), ({}, one), ({**self.headers(one), "Webhook-Signature": "v1,ö"}, one)):
            with self.assertRaises(FedpostError) as refused:
                verify_webhook(self.SECRET, headers, body)
            self.assertEqual(refused.exception.status, 401)
        with self.assertRaises(ValueError):
            verify_webhook("whsec_!", self.headers(one), one)


if __name__ == "__main__":
    unittest.main()
