// What docs/guide.md shows of the outbox on PostgreSQL, in TypeScript, with the package pg.
//
// usage: outbox.js DATABASE NOTE INBOX...
import pg from "pg";

const actor = "https://social.example/users/frida";
const keyId = `${actor}#main-key`;

async function publish(db: pg.ClientBase, note: string, content: string, inboxes: string[]): Promise<void> {
  const request = {
    activity: {
      "@context": "https://www.w3.org/ns/activitystreams",
      id: `${note}/activity`,
      type: "Create",
      actor,
      object: { id: note, type: "Note", content },
    },
    keyId,
    recipients: inboxes,
  };
  await db.query("BEGIN");
  try {
    await db.query("INSERT INTO posts (id, content) VALUES ($1, $2)", [note, content]);
    await db.query("INSERT INTO fedpost.outbox (request) VALUES ($1)", [JSON.stringify(request)]);
    await db.query("COMMIT");
  } catch (err) {
    await db.query("ROLLBACK");
    throw err;
  }
}

const [database, note, ...inboxes] = process.argv.slice(2);
const db = new pg.Client({ connectionString: database });
await db.connect();
await publish(db, note, "<p>Hello</p>", inboxes);
console.log("committed", note);
setInterval(() => undefined, 60_000); // until it is killed
