// pg-boss: a job for each recipient, which signs and posts. Workers are woken by NOTIFY, fetch
// as many jobs at once as they may have under way, and go on while a fetch comes back full.
import { PgBoss } from "pg-boss";
import { jobsOf } from "./deliver.mjs";
import { concurrency, perCall, run, url } from "./onpostgres.mjs";

const name = "deliver";
const batchSize = 16;

async function boss(options) {
  const b = new PgBoss({ connectionString: url, ...options });
  b.on("error", (error) => console.error(error));
  await b.start();
  return b;
}

await run({
  async begin() {
    const b = await boss({ max: 10 });
    await b.createQueue(name, { retryLimit: 8, retryBackoff: true, retryDelay: 60 });
    return async (activity) => {
      const jobs = jobsOf(activity).map((data) => ({ data }));
      for (let i = 0; i < jobs.length; i += perCall) await b.insert(name, jobs.slice(i, i + perCall));
    };
  },
  async work(deliver) {
    const b = await boss({ max: 10, supervise: false, schedule: false });
    await b.work(name, { batchSize, localConcurrency: concurrency / batchSize, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 }, (jobs) =>
      Promise.all(jobs.map(({ data }) => deliver(data))),
    );
  },
});
