// An application that posts and posts, and is killed. It writes down what it begins before it sends, and sends again what it
// does not know to be accepted. usage: app.js JOURNAL on|once
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { InProcessMessageQueue, MemoryKvStore } from "@fedify/fedify";
import { Fedpost } from "@fedpost/client";
import { FedpostQueue } from "@fedpost/fedify";
import { application, create, origin, token } from "./world.js";

const [journal, mode] = process.argv.slice(2);
const { keys, fedpost, inbox } = JSON.parse(process.env.APP);
const kv = new MemoryKvStore();
const queue = new FedpostQueue(new Fedpost(fedpost, { token }), { kv, queue: new InProcessMessageQueue() });
const context = application(keys, queue, kv).createContext(new URL(origin), undefined);
const followers = Array.from({ length: 20 }, (_, n) => ({ id: new URL(`${inbox}/users/${n}`), inboxId: new URL(`${inbox}/users/${n}/inbox`), endpoints: null }));

const open = new Set();
let n = 0;
for (const line of existsSync(journal) ? readFileSync(journal, "utf8").split("\n") : []) {
  const [what, id] = line.split(" ");
  if (what === "begin") open.add(id), n++;
  if (what === "end") open.delete(id);
}
const post = async (number) => {
  const by = number % 2 ? "frida" : "gus";
  const activity = create(number, by);
  await context.sendActivity({ identifier: by }, followers, activity);
  appendFileSync(journal, `end ${activity.id.href}\n`);
};
for (const id of open) await post(Number(/notes\/(\d+)\//.exec(id)[1]));
while (mode === "on") {
  appendFileSync(journal, `begin ${create(++n).id.href}\n`);
  await post(n);
}
