// BullMQ: a job for each recipient, which signs and posts. This is how servers of the
// fediverse on Node use it: the body and its digest are made once for an activity, and
// travel in each job. Two processes work, one a core; libuv's threads sign.
import { fork } from "node:child_process";
import { createHash, createPrivateKey, sign } from "node:crypto";
import { availableParallelism } from "node:os";
import { promisify } from "node:util";
import { Queue, Worker } from "bullmq";
import { Agent, request } from "undici";
import { serve } from "./face.mjs";
import { startRedis } from "./redis.mjs";

const name = "deliver";
const workers = Number(process.env.PEER_PROCESSES ?? availableParallelism());
const concurrency = Number(process.env.PEER_CONCURRENCY ?? 64);
const perCall = 1000; // jobs in one command

async function work(path) {
  const { Redis } = await import("ioredis");
  const connection = new Redis({ path, maxRetriesPerRequest: null });
  const agent = new Agent({ connections: 8, pipelining: 1, keepAliveTimeout: 30_000 });
  const signAsync = promisify(sign);
  const keys = new Map();
  async function keyOf(id) {
    let key = keys.get(id);
    if (!key) {
      key = createPrivateKey(await connection.get(`key:${id}`));
      keys.set(id, key);
    }
    return key;
  }
  async function deliver({ data }) {
    const url = new URL(data.inbox);
    const date = new Date().toUTCString();
    const key = await keyOf(data.keyId);
    const text = `(request-target): post ${url.pathname}\nhost: ${url.host}\ndate: ${date}\ndigest: ${data.digest}\ncontent-type: application/activity+json`;
    const rsa = key.asymmetricKeyType === "rsa";
    const signature = (await signAsync(rsa ? "sha256" : null, Buffer.from(text), key)).toString("base64");
    const { statusCode, body } = await request(url, {
      method: "POST",
      dispatcher: agent,
      body: data.content,
      headers: {
        date,
        digest: data.digest,
        "content-type": "application/activity+json",
        signature: `keyId="${data.keyId}",algorithm="${rsa ? "rsa-sha256" : "hs2019"}",headers="(request-target) host date digest content-type",signature="${signature}"`,
      },
    });
    await body.dump();
    if (statusCode < 200 || statusCode > 299) throw new Error(`answered ${statusCode}`);
  }
  new Worker(name, deliver, { connection, concurrency, removeOnComplete: { count: 0 } });
}

async function main() {
  const redis = await startRedis();
  const connection = redis.connect();
  const queue = new Queue(name, { connection });
  const children = Array.from({ length: workers }, () => fork(process.argv[1], ["worker", redis.path]));
  await serve({
    async key(id, _type, pem) {
      await connection.set(`key:${id}`, pem);
    },
    async submit({ activity, keyId, inboxes }) {
      const content = JSON.stringify(activity);
      const digest = `SHA-256=${createHash("sha256").update(content).digest("base64")}`;
      const opts = { attempts: 8, backoff: { type: "exponential", delay: 60_000 }, removeOnComplete: true };
      for (let i = 0; i < inboxes.length; i += perCall) {
        await queue.addBulk(inboxes.slice(i, i + perCall).map((inbox) => ({ name, data: { inbox, keyId, content, digest }, opts })));
      }
    },
    async stop() {
      for (const child of children) child.kill("SIGKILL");
      await redis.stop();
    },
  });
}

await (process.argv[2] === "worker" ? work(process.argv[3]) : main());
