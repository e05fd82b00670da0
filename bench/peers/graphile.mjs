// graphile-worker: a job for each recipient, which signs and posts. Jobs are fetched and
// completed in batches, as its documentation advises for throughput.
import { makeWorkerUtils, run as start } from "graphile-worker";
import { jobsOf } from "./deliver.mjs";
import { concurrency, perCall, run, url } from "./onpostgres.mjs";

const identifier = "deliver";

await run({
  async begin() {
    const utils = await makeWorkerUtils({ connectionString: url });
    await utils.migrate();
    return async (activity) => {
      const jobs = jobsOf(activity).map((payload) => ({ identifier, payload, maxAttempts: 8 }));
      if (jobs.length === 1) return utils.addJob(identifier, jobs[0].payload, { maxAttempts: 8 });
      for (let i = 0; i < jobs.length; i += perCall) await utils.addJobs(jobs.slice(i, i + perCall));
    };
  },
  async work(deliver) {
    await start({
      preset: {
        worker: { connectionString: url, concurrentJobs: concurrency, pollInterval: 500, localQueue: { size: concurrency + 1, refetchDelay: { durationMs: 20 } }, completeJobBatchDelay: 5, failJobBatchDelay: 5, maxPoolSize: 20 },
      },
      taskList: { [identifier]: deliver },
    });
  },
});
