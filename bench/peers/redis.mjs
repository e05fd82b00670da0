// A Redis server of the measurement's own, on a Unix socket in a directory of its own, with
// Debian's settings: snapshots now and then, no append-only file. So what it has accepted is
// not on disk; fedpost's 202 is.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";

export async function startRedis() {
  const dir = mkdtempSync(join(tmpdir(), "fedpost-peer-redis-"));
  const path = join(dir, "redis.sock");
  const server = spawn(
    process.env.REDIS_SERVER ?? "redis-server",
    ["--port", "0", "--unixsocket", path, "--dir", dir, "--save", "3600 1 300 100 60 10000", "--maxmemory-policy", "noeviction"],
    { stdio: ["ignore", "ignore", "inherit"] },
  );
  const ended = new Promise((resolve) => server.once("exit", resolve));
  const connect = () => new Redis({ path, maxRetriesPerRequest: null, retryStrategy: (n) => Math.min(50 * n, 500) });
  const first = connect();
  first.on("error", () => {}); // until the server listens
  await first.ping();
  first.disconnect();
  async function stop() {
    server.kill("SIGKILL");
    await ended;
    rmSync(dir, { recursive: true, force: true });
  }
  return { path, connect, stop };
}
