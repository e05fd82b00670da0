"""What docs/guide.md shows of the outbox on PostgreSQL, in Python, with psycopg.

usage: outbox.py DATABASE NOTE INBOX...
"""

import json
import signal
import sys

import psycopg

ACTOR = "https://social.example/users/frida"
KEY = ACTOR + "#main-key"


def publish(db, note, content, inboxes):
    request = {
        "activity": {
            "@context": "https://www.w3.org/ns/activitystreams",
            "id": note + "/activity",
            "type": "Create",
            "actor": ACTOR,
            "object": {"id": note, "type": "Note", "content": content},
        },
        "keyId": KEY,
        "recipients": inboxes,
    }
    with db.transaction():
        db.execute("INSERT INTO posts (id, content) VALUES (%s, %s)", (note, content))
        db.execute("INSERT INTO fedpost.outbox (request) VALUES (%s)", (json.dumps(request),))


database, note, *inboxes = sys.argv[1:]
publish(psycopg.connect(database, autocommit=True), note, "<p>Hello</p>", inboxes)
print("committed", note, flush=True)
signal.pause()  # until it is killed
