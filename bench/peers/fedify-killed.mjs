// What Fedify's queue on Redis loses when the application is killed: an application posts to 20
// followers again and again and is killed at random moments; what sendActivity had accepted and
// no follower got is lost. usage: fedify-killed.mjs [kills]
import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { createFederation, generateCryptoKeyPair, MemoryKvStore, ParallelMessageQueue } from "@fedify/fedify";
import { Create, Note } from "@fedify/fedify/vocab";
import { RedisMessageQueue } from "@fedify/redis";
import { Redis } from "ioredis";
import { startRedis } from "./redis.mjs";

const followers = 20;
const workers = Number(process.env.PEER_CONCURRENCY ?? 10);
const waiting = (redis) => redis.zcard("fedify_queue");

/** Posts while the queue is short, until it is killed; with no journal it only works. */
async function application({ path, inbox, journal }) {
  const connect = () => new Redis({ path });
  const redis = connect();
  const queue = new ParallelMessageQueue(new RedisMessageQueue(connect, { pollInterval: { seconds: 1 } }), workers);
  const federation = createFederation({ kv: new MemoryKvStore(), queue, origin: "https://bench.example", allowPrivateAddress: true });
  federation.setActorDispatcher("/users/{identifier}", () => null);
  if (!journal) return federation.startQueue();
  const context = federation.createContext(new URL("https://bench.example"), undefined);
  const { privateKey } = await generateCryptoKeyPair("RSASSA-PKCS1-v1_5");
  const key = { keyId: new URL("https://bench.example/users/zoe#main-key"), privateKey };
  const to = Array.from({ length: followers }, (_, n) => ({ id: new URL(`${inbox}/users/${n}`), inboxId: new URL(`${inbox}/users/${n}/inbox`) }));
  for (;;) {
    const id = new URL(`https://bench.example/${crypto.randomUUID()}`);
    await context.sendActivity(key, to, new Create({ id, actor: new URL("https://bench.example/users/zoe"), object: new Note({ content: "hello" }) }));
    appendFileSync(journal, `${id}\n`);
    while ((await waiting(redis)) > 2 * followers) await wait(20);
  }
}

async function measure(kills) {
  const got = new Map();
  const server = createServer((req, res) => {
    let body = "";
    req.on("data", (part) => (body += part));
    req.on("end", async () => {
      await wait(50); // as a server elsewhere takes
      const delivery = `${JSON.parse(body).id} ${req.url}`;
      got.set(delivery, (got.get(delivery) ?? 0) + 1);
      res.writeHead(202).end();
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const redis = await startRedis();
  const look = redis.connect();
  const folder = mkdtempSync(join(tmpdir(), "fedpost-killed-"));
  const settings = { path: redis.path, inbox: `http://127.0.0.1:${server.address().port}`, journal: join(folder, "journal") };
  const start = (s) => spawn(process.execPath, [process.argv[1]], { env: { ...process.env, APPLICATION: JSON.stringify(s) }, stdio: ["ignore", "ignore", "inherit"] });
  for (let n = 0; n < kills; n++) {
    const before = got.size;
    const child = start(settings);
    while (got.size < before + followers) await wait(20);
    await wait(500 * Math.random());
    child.kill("SIGKILL");
    await once(child, "exit");
  }
  const last = start({ ...settings, journal: "" });
  for (let quiet = 0, before = -1; quiet < 15; before = got.size) {
    await wait(1000);
    quiet = (await waiting(look)) > 0 || got.size !== before ? 0 : quiet + 1;
  }
  last.kill("SIGKILL");
  const accepted = readFileSync(settings.journal, "utf8").trim().split("\n");
  const wanted = accepted.flatMap((id) => Array.from({ length: followers }, (_, n) => `${id} /users/${n}/inbox`));
  const lost = wanted.filter((w) => !got.has(w)).length;
  const twice = [...got.values()].filter((n) => n > 1).length;
  console.log(`${kills} kills with ${workers} workers: of ${wanted.length} deliveries ${lost} lost, ${twice} made twice`);
  look.disconnect();
  server.close();
  server.closeAllConnections();
  await redis.stop();
  rmSync(folder, { recursive: true });
}

if (process.env.APPLICATION) await application(JSON.parse(process.env.APPLICATION));
else await measure(Number(process.argv[2] ?? 20));
