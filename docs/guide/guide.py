"""What docs/guide.md shows, in Python: with the client of clients/python.

usage: guide.py INBOX...
"""

import os
import sys
from pathlib import Path

from fedpost import Fedpost, FedpostError

ACTOR = "https://social.example/users/frida"
KEY = ACTOR + "#main-key"

fedpost = Fedpost(
    os.environ.get("FEDPOST_URL", "http://127.0.0.1:8080"),
    token=os.environ["FEDPOST_API_TOKEN"],
)


def key():
    try:
        return fedpost.call("generateKey", body={"id": KEY, "type": "rsa"})["publicKeyPem"]
    except FedpostError as err:
        if err.status != 409:
            raise
        return fedpost.call("getKey", path={"id": KEY})["publicKeyPem"]


def send(note, inboxes):
    activity = {
        "@context": "https://www.w3.org/ns/activitystreams",
        "id": note + "/activity",
        "type": "Create",
        "actor": ACTOR,
        "object": {"id": note, "type": "Note", "content": "<p>Hello</p>"},
    }
    accepted = fedpost.send({
        "activity": activity,
        "keyId": KEY,
        "recipients": list(inboxes),
        "deduplicationKey": "create " + note,
        "notify": True,
    })
    return accepted["id"]


def counts(id):
    return fedpost.get(id)["counts"]


def follow(handle):
    cursor = Path("cursor")
    for event in fedpost.events(cursor.read_text() if cursor.exists() else ""):
        handle(event)
        cursor.write_text(event["cursor"])


followers = set(sys.argv[1:])
print("publish", key().splitlines()[0], flush=True)
print("sent", send("https://social.example/notes/1", followers), flush=True)


def handle(event):
    if event["type"] == "recipient.gone" and (event["status"] == 410 or event["count"] >= 10):
        if event["inbox"] in followers:
            followers.remove(event["inbox"])
            print("gone", event["inbox"], flush=True)
    if event["type"] == "activity.done":
        n = counts(event["activityId"])
        print("done", n.get("delivered", 0), n.get("failed", 0), flush=True)


follow(handle)
