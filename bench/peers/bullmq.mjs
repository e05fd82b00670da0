// BullMQ: a job for each recipient, which signs and posts. Two processes work, one a core.
import { fork } from "node:child_process";
import { availableParallelism } from "node:os";
import { Queue, Worker } from "bullmq";
import { deliverer, jobsOf } from "./deliver.mjs";
import { serve } from "./face.mjs";
import { startRedis } from "./redis.mjs";

const name = "deliver";
const workers = Number(process.env.PEER_PROCESSES ?? availableParallelism());
const concurrency = Number(process.env.PEER_CONCURRENCY ?? 64);
const perCall = 1000; // jobs in one command

async function work(path) {
  const { Redis } = await import("ioredis");
  const connection = new Redis({ path, maxRetriesPerRequest: null });
  const deliver = deliverer((id) => connection.get(`key:${id}`));
  new Worker(name, ({ data }) => deliver(data), { connection, concurrency, removeOnComplete: { count: 0 } });
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
    async submit(activity) {
      const opts = { attempts: 8, backoff: { type: "exponential", delay: 60_000 }, removeOnComplete: true };
      const jobs = jobsOf(activity).map((data) => ({ name, data, opts }));
      for (let i = 0; i < jobs.length; i += perCall) await queue.addBulk(jobs.slice(i, i + perCall));
    },
    async stop() {
      for (const child of children) child.kill("SIGKILL");
      await redis.stop();
    },
  });
}

await (process.argv[2] === "worker" ? work(process.argv[3]) : main());
