"""What docs/guide.md shows, in Python, with the client that openapi-python-client generates.

usage: guide.py INBOX...
"""

import os
import sys
from pathlib import Path
from time import sleep

from httpx import Timeout

from fedpost_client import AuthenticatedClient
from fedpost_client.api.activities import get_activity, send_activity
from fedpost_client.api.events import list_events
from fedpost_client.api.keys import generate_key, get_key
from fedpost_client.models import (
    ActivityPubSubmission, ActivityPubSubmissionActivity, EventType, GenerateKey, KeyType, Problem,
)

ACTOR = "https://social.example/users/frida"
KEY = ACTOR + "#main-key"

fedpost = AuthenticatedClient(
    base_url=os.environ.get("FEDPOST_URL", "http://127.0.0.1:8080"),
    token=os.environ["FEDPOST_API_TOKEN"],
    timeout=Timeout(30),
)


def answered(answer):
    if answer is None or isinstance(answer, Problem):
        raise RuntimeError(answer)
    return answer


def key():
    made = generate_key.sync(client=fedpost, body=GenerateKey(id=KEY, type_=KeyType.RSA))
    if isinstance(made, Problem) and made.status == 409:
        made = get_key.sync(KEY, client=fedpost)
    return answered(made).public_key_pem


def send(note, inboxes):
    activity = ActivityPubSubmissionActivity.from_dict({
        "@context": "https://www.w3.org/ns/activitystreams",
        "id": note + "/activity",
        "type": "Create",
        "actor": ACTOR,
        "object": {"id": note, "type": "Note", "content": "<p>Hello</p>"},
    })
    submission = ActivityPubSubmission(
        activity=activity,
        key_id=KEY,
        recipients=list(inboxes),
        deduplication_key="create " + note,
        notify=True,
    )
    return answered(send_activity.sync(client=fedpost, body=submission)).id


def counts(id):
    return answered(get_activity.sync(id, client=fedpost)).counts.additional_properties


def follow(told):
    cursor = Path("cursor")
    after = cursor.read_text() if cursor.exists() else ""
    while True:
        page = answered(list_events.sync(client=fedpost, after=after, wait=20))
        for event in page.events:
            told(event)
        after = page.next_
        cursor.write_text(after)
        sleep(page.retry_after or 0)  # too many wait already


followers = set(sys.argv[1:])
print("publish", key().splitlines()[0], flush=True)
print("sent", send("https://social.example/notes/1", followers), flush=True)


def told(event):
    if event.type_ == EventType.RECIPIENT_GONE and (event.status == 410 or event.count >= 10):
        if event.inbox in followers:
            followers.remove(event.inbox)
            print("gone", event.inbox, flush=True)
    if event.type_ == EventType.ACTIVITY_DONE:
        n = counts(event.activity_id)
        print("done", n.get("delivered", 0), n.get("failed", 0), flush=True)


follow(told)
