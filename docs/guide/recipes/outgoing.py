"""The recipe for Django of docs/guide.md, as a whole application in one file.

usage: outgoing.py INBOX...     (FEDPOST_URL, FEDPOST_API_TOKEN)
"""

import json
import os
import sys

import django
from django.conf import settings

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
)
django.setup()

from django.db import connection, models, transaction  # noqa: E402

from fedpost import Fedpost  # noqa: E402

fedpost = Fedpost(os.environ["FEDPOST_URL"], token=os.environ["FEDPOST_API_TOKEN"])


class Outgoing(models.Model):
    activity = models.TextField()  # as text: jsonb would reorder its members
    key_id = models.TextField()
    inboxes = models.JSONField()

    class Meta:
        app_label = "outgoing"


def publish(activity, key_id, inboxes):
    """Call it in the transaction that stores the post: both are there, or neither."""
    row = Outgoing.objects.create(activity=json.dumps(activity), key_id=key_id, inboxes=inboxes)
    transaction.on_commit(lambda: hand_over(row), robust=True)


def hand_over(row):
    accepted = fedpost.send({
        "activity": json.loads(row.activity),
        "keyId": row.key_id,
        "recipients": row.inboxes,
        "deduplicationKey": f"outgoing {row.pk}",
    })
    row.delete()
    print("sent", accepted["id"], flush=True)


def hand_over_what_is_left():
    """What a crash or an outage of fedpost has left: from a management command, each minute."""
    for row in Outgoing.objects.order_by("pk"):
        hand_over(row)


def main(inboxes):
    with connection.schema_editor() as schema:
        schema.create_model(Outgoing)
    actor = "https://social.example/users/frida"
    like = {"id": actor + "/likes/1", "type": "Like", "actor": actor, "object": inboxes[0]}
    try:
        with transaction.atomic():
            publish({**like, "id": actor + "/likes/0"}, actor + "#main-key", inboxes)
            raise RuntimeError("the post was not stored")
    except RuntimeError:
        pass  # and nothing is sent
    with transaction.atomic():
        publish(like, actor + "#main-key", inboxes)
    Outgoing.objects.create(activity=json.dumps({**like, "id": actor + "/likes/2"}), key_id=actor + "#main-key", inboxes=inboxes)
    hand_over_what_is_left()
    print("left", Outgoing.objects.count())


if __name__ == "__main__":
    main(sys.argv[1:])
