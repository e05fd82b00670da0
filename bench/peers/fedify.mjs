// Fedify, with its own queue in the process, or with Redis (PEER_QUEUE=redis). The federation
// is the smallest that can send. Fedify adds a Linked Data signature to the body, once for
// each activity, and signs requests by RFC 9421.
import { webcrypto } from "node:crypto";
import { createFederation, InProcessMessageQueue, MemoryKvStore, ParallelMessageQueue } from "@fedify/fedify";
import { Activity } from "@fedify/fedify/vocab";
import { serve } from "./face.mjs";
import { startRedis } from "./redis.mjs";

const concurrency = Number(process.env.PEER_CONCURRENCY ?? 64);
const overRedis = process.env.PEER_QUEUE === "redis";

let redis;
async function queueOf() {
  if (!overRedis) return new InProcessMessageQueue();
  const { RedisMessageQueue } = await import("@fedify/redis");
  redis = await startRedis();
  return new RedisMessageQueue(() => redis.connect());
}

const keys = new Map();
const federation = createFederation({
  kv: new MemoryKvStore(),
  queue: new ParallelMessageQueue(await queueOf(), concurrency),
  origin: "https://bench.example",
  allowPrivateAddress: true,
});
federation.setActorDispatcher("/users/{identifier}", () => null);
const context = federation.createContext(new URL("https://bench.example"), undefined);

await serve({
  async key(id, type, pem) {
    if (type !== "rsa") throw new Error("Fedify signs requests with RSA only");
    const der = Buffer.from(pem.replace(/-----[^-]+-----|\s/g, ""), "base64");
    const privateKey = await webcrypto.subtle.importKey("pkcs8", der, { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" }, true, ["sign"]);
    keys.set(id, { keyId: new URL(id), privateKey });
  },
  async submit({ activity, keyId, inboxes }) {
    const recipients = inboxes.map((inbox) => ({ id: new URL(`${inbox}#actor`), inboxId: new URL(inbox) }));
    await context.sendActivity(keys.get(keyId), recipients, await Activity.fromJsonLd(activity, context));
  },
  async stop() {
    if (redis) await redis.stop();
  },
});
