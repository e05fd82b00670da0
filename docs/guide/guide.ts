// What docs/guide.md shows, in TypeScript: with types that openapi-typescript generates and
// the client openapi-fetch. usage: guide.js INBOX...
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

const actor = "https://social.example/users/frida";
const keyId = `${actor}#main-key`;

const fedpost = createClient<paths>({
  baseUrl: process.env.FEDPOST_URL ?? "http://127.0.0.1:8080",
  headers: { Authorization: `Bearer ${process.env.FEDPOST_API_TOKEN}` },
});

function refused(problem: components["schemas"]["Problem"] | undefined): Error {
  return new Error(`${problem?.title}: ${problem?.detail}`);
}

async function key(): Promise<string> {
  const made = await fedpost.POST("/v1/keys", { body: { id: keyId, type: "rsa" } });
  if (made.data) return made.data.publicKeyPem;
  if (made.response.status !== 409) throw refused(made.error);
  const kept = await fedpost.GET("/v1/keys/{id}", { params: { path: { id: keyId } } });
  if (!kept.data) throw refused(kept.error);
  return kept.data.publicKeyPem;
}

async function send(note: string, inboxes: Iterable<string>): Promise<string> {
  const { data, error } = await fedpost.POST("/v1/activities", {
    body: {
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
    },
  });
  if (!data) throw refused(error);
  return data.id;
}

async function counts(id: string): Promise<components["schemas"]["StateCounts"]> {
  const { data, error } = await fedpost.GET("/v1/activities/{id}", { params: { path: { id } } });
  if (!data) throw refused(error);
  return data.counts;
}

async function follow(told: (event: components["schemas"]["Event"]) => Promise<void>): Promise<never> {
  let after = existsSync("cursor") ? readFileSync("cursor", "utf8") : "";
  for (;;) {
    const { data, error } = await fedpost.GET("/v1/events", { params: { query: { after, wait: 20 } } });
    if (!data) throw refused(error);
    for (const event of data.events) await told(event);
    after = data.next;
    writeFileSync("cursor", after);
    await setTimeout(1000 * (data.retryAfter ?? 0)); // too many wait already
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
