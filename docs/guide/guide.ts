// What docs/guide.md shows, in TypeScript: with the client of clients/typescript.
// usage: guide.js INBOX...
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { type Event, Fedpost, FedpostError } from "@fedpost/client";

const actor = "https://social.example/users/frida";
const keyId = `${actor}#main-key`;

const fedpost = new Fedpost(process.env.FEDPOST_URL ?? "http://127.0.0.1:8080", {
  token: process.env.FEDPOST_API_TOKEN,
});

async function key(): Promise<string> {
  try {
    return (await fedpost.call("generateKey", { body: { id: keyId, type: "rsa" } })).publicKeyPem;
  } catch (err) {
    if (!(err instanceof FedpostError && err.status === 409)) throw err;
    return (await fedpost.call("getKey", { path: { id: keyId } })).publicKeyPem;
  }
}

async function send(note: string, inboxes: Iterable<string>): Promise<string> {
  const { id } = await fedpost.send({
    activity: {
      "@context": "https://www.w3.org/ns/activitystreams",
      id: `${note}/activity`,
      type: "Create",
      actor,
      object: { id: note, type: "Note", content: "<p>Hello</p>" },
    },
    keyId,
    recipients: [...inboxes],
    deduplicationKey: `create ${note}`,
    notify: true,
  });
  return id;
}

async function counts(id: string): Promise<Record<string, number>> {
  return (await fedpost.get(id)).counts;
}

async function follow(handle: (event: Event) => Promise<void>): Promise<void> {
  const cursor = existsSync("cursor") ? readFileSync("cursor", "utf8") : "";
  for await (const event of fedpost.events(cursor)) {
    await handle(event);
    writeFileSync("cursor", event.cursor);
  }
}

const followers = new Set(process.argv.slice(2));
console.log("publish", (await key()).split("\n")[0]);
console.log("sent", await send("https://social.example/notes/1", followers));

await follow(async (event) => {
  if (event.type === "recipient.gone" && event.inbox && (event.status === 410 || (event.count ?? 0) >= 10)) {
    if (followers.delete(event.inbox)) console.log("gone", event.inbox);
  }
  if (event.type === "activity.done" && event.activityId) {
    const { delivered = 0, failed = 0 } = await counts(event.activityId);
    console.log("done", delivered, failed);
  }
});
