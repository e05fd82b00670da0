// What the peers on Node and PostgreSQL have in common: keys in a table, and two processes that
// work, one a core.
import { fork } from "node:child_process";
import { availableParallelism } from "node:os";
import pg from "pg";
import { deliverer } from "./deliver.mjs";
import { serve } from "./face.mjs";

export const url = process.env.DATABASE_URL;
export const concurrency = Number(process.env.PEER_CONCURRENCY ?? 64);
export const perCall = 1000; // jobs in one statement

// run calls work(deliver) in the processes that work. In the first one, begin() makes the queue
// and returns how an activity is handed to it.
export async function run({ begin, work }) {
  const pool = new pg.Pool({ connectionString: url, max: 2 });
  if (process.argv[2] === "worker") {
    await work(deliverer(async (id) => (await pool.query("SELECT pem FROM key WHERE id = $1", [id])).rows[0].pem));
    return;
  }
  await pool.query("CREATE TABLE key (id text PRIMARY KEY, pem text NOT NULL)");
  const submit = await begin();
  const children = Array.from({ length: Number(process.env.PEER_PROCESSES ?? availableParallelism()) }, () => fork(process.argv[1], ["worker"]));
  await serve({
    key: (id, _type, pem) => pool.query("INSERT INTO key VALUES ($1, $2)", [id, pem]),
    submit,
    async stop() {
      for (const child of children) child.kill("SIGKILL");
    },
  });
}
