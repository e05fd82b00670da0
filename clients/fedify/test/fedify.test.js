import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { getEventListeners, once } from "node:events";
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { InProcessMessageQueue, MemoryKvStore } from "@fedify/fedify";
import { testMessageQueue } from "@fedify/testing";
import { Delete, Create } from "@fedify/vocab";
import { Fedpost } from "@fedpost/client";
import { Temporal } from "@js-temporal/polyfill";
import { FedpostQueue } from "@fedpost/fedify";
import { application, create, folder, makeKeys, origin, serve, token, up, verified } from "./world.js";

const keys = await makeKeys();

/** A server whose inboxes verify each request, and answer as `answers` says of its path, else 202. */
async function remote(t, answers = () => 202) {
  const got = [];
  const url = await serve(t, async (req, res) => {
    const chunks = [];
    for await (const chunk of req) chunks.push(chunk);
    const body = Buffer.concat(chunks).toString();
    const status = req.method === "POST" ? answers(req.url, JSON.parse(body)) : 404;
    if (req.method === "POST") got.push({ path: req.url, body, status, signed: await verified(keys, req, body), headers: req.headers });
    res.writeHead(status).end();
  });
  return { url, got, accepted: () => got.filter((g) => g.status === 202), follower: (n) => ({ id: new URL(`${url}/users/${n}`), inboxId: new URL(`${url}/users/${n}/inbox`), endpoints: null }) };
}

/** A queue on a fedpost of its own, and what it asks fedpost for. */
async function sending(t, options = {}) {
  const server = await up(t, folder(t));
  const asked = [];
  const fedpost = new Fedpost(server.url, {
    token,
    fetch: (url, init) => {
      asked.push({ call: `${init.method} ${new URL(url).pathname}`, body: init.body, headers: init.headers });
      return fetch(url, init);
    },
  });
  const kv = new MemoryKvStore();
  const queue = new FedpostQueue(fedpost, { kv, queue: new InProcessMessageQueue(), ...options });
  const context = application(keys, queue, kv).createContext(new URL(origin), undefined);
  return { asked, fedpost, queue, context, sends: () => asked.filter((a) => a.call === "POST /v1/activities") };
}

const sender = (identifier) => ({ identifier });
async function until(what, true_, seconds = 60) {
  for (const end = Date.now() + 1000 * seconds; Date.now() < end; await new Promise((r) => setTimeout(r, 20))) if (await true_()) return;
  assert.fail(`not within ${seconds} s: ${what}`);
}

test("what is no activity goes through the application's own queue", async () => {
  const own = new InProcessMessageQueue({ pollInterval: { milliseconds: 50 } });
  const make = () => new FedpostQueue(new Fedpost("http://127.0.0.1:1"), { kv: new MemoryKvStore(), queue: own });
  await testMessageQueue(make, ({ controller }) => controller.abort(), { testOrderingKey: true });
});

test("two actors reach 200 followers, signed, in one call each, and a repeated call changes nothing", async (t) => {
  const { context, sends, asked, fedpost } = await sending(t);
  const servers = await Promise.all([1, 2, 3, 4].map(() => remote(t)));
  const followers = servers.flatMap((s) => Array.from({ length: 50 }, (_, n) => s.follower(n)));
  for (const [n, by] of [[1, "frida"], [2, "gus"], [1, "frida"]]) await context.sendActivity(sender(by), followers, create(n, by));
  assert.equal(sends().length, 3);
  assert.equal(asked.filter((a) => a.call.startsWith("PUT /v1/keys/")).length, 2); // once for each actor
  // A machine that is too busy to answer in time gets a delivery twice.
  const delivered = (s) => new Set(s.got.map((g) => g.path + JSON.parse(g.body).id)).size;
  await until("all delivered", () => servers.every((s) => delivered(s) === 100), 240);
  for (const { got } of servers) {
    assert.ok(got.every((g) => g.signed), "each signature holds");
    assert.ok(got.every((g) => g.headers["content-type"].startsWith("application/activity+json")));
    assert.equal(new Set(got.map((g) => g.path + JSON.parse(g.body).id)).size, 100);
  }
  // To the byte what Fedify would have sent.
  const activity = JSON.parse(sends()[0].body).activity;
  assert.ok(servers[0].got.some((g) => g.body === JSON.stringify(activity)));
  assert.ok(!sends().some((s) => s.body.includes('"kty"') || s.body.includes("privateKey")), "no private key in a message");
  assert.equal((await fedpost.call("getStats")).counts.accepted, 400); // recipients
});

test("with an ordering key a Delete waits for the Create that failed, in one call for all inboxes", async (t) => {
  const { context, sends } = await sending(t);
  let failures = 2;
  const server = await remote(t, (_, body) => (body.type === "Create" && failures-- > 0 ? 503 : 202));
  const followers = [server.follower(1)];
  const options = { orderingKey: "notes/7" };
  const more = await remote(t);
  await context.sendActivity(sender("frida"), [...followers, ...Array.from({ length: 20 }, (_, n) => more.follower(n))], create(7), options);
  await context.sendActivity(sender("frida"), followers, new Delete({ id: new URL(`${origin}/notes/7#delete`), actor: new URL(`${origin}/users/frida`), object: new URL(`${origin}/notes/7`) }), options);
  await until("the Delete is delivered", () => server.accepted().length === 2);
  assert.deepEqual(server.got.map((g) => [JSON.parse(g.body).type, g.status]), [["Create", 503], ["Create", 503], ["Create", 202], ["Delete", 202]]);
  assert.equal(sends().length, 2);
  assert.equal(JSON.parse(sends()[0].body).recipients.length, 21);
  assert.equal(JSON.parse(sends()[0].body).orderingKey, "notes/7");
});

test("an inbox that is gone is told with its actors, again until it was dealt with", async (t) => {
  const told = [];
  const { context, queue } = await sending(t, {
    onPermanentFailure: (failure) => {
      told.push(failure);
    },
  });
  const server = await remote(t, (path) => (path.includes("/gone") ? 410 : 202));
  await context.sendActivity(sender("gus"), [server.follower("here"), server.follower("gone")], create(3, "gus"));
  const stop = new AbortController();
  const listening = queue.listen(() => {}, { signal: stop.signal });
  await until("told", () => told.length > 0);
  stop.abort();
  await listening;
  const [{ reason, inbox, activity, error, statusCode, actorIds }] = told;
  assert.deepEqual([reason, inbox.href, statusCode, error.name, error.statusCode], ["http", `${server.url}/users/gone/inbox`, 410, "SendActivityError", 410]);
  assert.deepEqual(actorIds.map(String), [`${server.url}/users/gone`]);
  assert.ok(activity instanceof Create && activity.id.href === `${origin}/notes/3/activity`);
  assert.equal(told.length, 1);
});

test("what fedpost refuses is thrown by sendActivity, and depth counts what waits", async (t) => {
  const { context, queue } = await sending(t);
  await assert.rejects(context.sendActivity(sender("frida"), [{ id: new URL("https://a.example/1"), inboxId: new URL("ftp://a.example/inbox"), endpoints: null }], create(9)), /400 Invalid request/);
  assert.deepEqual(await queue.getDepth(), { queued: 0, ready: 0, delayed: 0 });
});

// FEDPOST_LONG=1 kills 50 times.
test("nothing is lost when the application and fedpost are killed", async (t) => {
  const kills = process.env.FEDPOST_LONG ? 50 : 5;
  const dir = folder(t);
  const server = await remote(t);
  let fedpost = await up(t, dir);
  const at = new URL(fedpost.url).host;
  const settings = JSON.stringify({ keys, fedpost: fedpost.url, inbox: server.url });
  const journal = join(folder(t), "journal");
  const start = (once) => spawn(process.execPath, [new URL("./app.js", import.meta.url).pathname, journal, once ? "once" : "on"], { env: { ...process.env, APP: settings }, stdio: ["ignore", "ignore", "inherit"] });
  let app = start();
  t.after(() => app.kill("SIGKILL"));
  const size = () => (existsSync(journal) ? statSync(journal).size : 0);
  for (let n = 0; n < kills; n++) {
    const before = size();
    await until("the application posts", () => size() > before);
    await new Promise((resolve) => setTimeout(resolve, 300 * Math.random()));
    if (n % 2 === 0) {
      app.kill("SIGKILL");
      await once(app, "exit");
      app = start();
    } else {
      await fedpost.kill();
      fedpost = await up(t, dir, at);
    }
  }
  app.kill("SIGKILL");
  await once(app, "exit");
  app = start(true); // it finishes what it has begun
  const [code] = await once(app, "exit");
  assert.equal(code, 0);
  const begun = readFileSync(journal, "utf8").split("\n").filter((l) => l.startsWith("begin ")).map((l) => l.slice(6));
  const wanted = [...new Set(begun)].flatMap((id) => Array.from({ length: 20 }, (_, n) => `/users/${n}/inbox ${id}`));
  const counted = () => {
    const all = new Map();
    for (const g of server.got) all.set(`${g.path} ${JSON.parse(g.body).id}`, (all.get(`${g.path} ${JSON.parse(g.body).id}`) ?? 0) + 1);
    return all;
  };
  const everywhere = () => {
    const all = counted();
    return wanted.every((w) => all.has(w));
  };
  // What fedpost had in hand when it died comes back when its visibility timeout ends.
  await until("each activity is everywhere", everywhere, 240).catch((err) => {
    const missing = wanted.filter((w) => !counted().has(w));
    throw new Error(`${missing.length} of ${wanted.length} deliveries are missing, such as ${missing[0]}`, { cause: err });
  });
  const twice = [...counted().values()].filter((n) => n > 1).length;
  t.diagnostic(`${kills} kills, ${wanted.length} deliveries, ${twice} of them twice`);
  // Before each kill the journal grew by a line: an activity has two.
  assert.ok(begun.length >= kills / 2 && server.got.every((g) => g.signed));
  // A request under way when fedpost is killed is the gap between an answer and its record.
  assert.ok(twice <= 64 * Math.floor(kills / 2), `${twice} deliveries came twice`);
});

test("each recipient has its headers, and the call the trace", async () => {
  const asked = [];
  const fetch = async (url, init) => {
    asked.push({ body: JSON.parse(init.body), headers: init.headers });
    return new Response('{"id":"X","status":"queued","recipients":2}', { status: 202 });
  };
  const queue = new FedpostQueue(new Fedpost("http://127.0.0.1:1", { fetch }), { kv: new MemoryKvStore(), queue: new InProcessMessageQueue() });
  const shared = { type: "outbox", keys: [{ keyId: `${origin}/users/frida#main-key`, privateKey: keys.frida.privateKey }], activity: { id: "x", actor: `${origin}/users/frida` }, activityId: "x", traceContext: { traceparent: "00-aa-bb-01", other: "no" } };
  const synchronization = 'collectionId="c", url="u", digest="d"';
  await queue.enqueueMany([
    { ...shared, inbox: "https://a.example/inbox", headers: { "collection-synchronization": synchronization } },
    { ...shared, inbox: "https://b.example/inbox", headers: {} },
  ]);
  const [put, post] = asked;
  assert.deepEqual(put.body, { privateKeyJwk: keys.frida.privateKey });
  assert.deepEqual(post.body.recipients, [{ inbox: "https://a.example/inbox", headers: [{ name: "collection-synchronization", value: synchronization, sign: true }] }, { inbox: "https://b.example/inbox" }]);
  assert.deepEqual([post.headers.traceparent, post.headers.other], ["00-aa-bb-01", undefined]);
  await assert.rejects(queue.enqueue({ ...shared, activity: { id: "y" }, keys: [], inbox: "https://a.example/inbox" }), /has no key to sign/);
});

test("an inbox that is gone is told also where the application died before it had an answer", async (t) => {
  const server = await up(t, folder(t));
  const kv = new MemoryKvStore();
  const told = [];
  const make = (fetch) =>
    new FedpostQueue(new Fedpost(server.url, { token, fetch }), {
      kv,
      queue: new InProcessMessageQueue(),
      onPermanentFailure: (failure) => {
        told.push(failure);
      },
    });
  const gone = await remote(t, () => 410);
  // fedpost has the activity, and the process that sent it never hears so.
  let hear;
  const unheard = new Promise((resolve) => {
    hear = () => resolve(new Response("{}", { status: 400 }));
  });
  let sent;
  const died = new Promise((resolve) => {
    const queue = make(async (url, init) => {
      const answer = await fetch(url, init);
      if (new URL(url).pathname !== "/v1/activities") return answer;
      resolve();
      return unheard;
    });
    sent = application(keys, queue, kv).createContext(new URL(origin), undefined).sendActivity(sender("frida"), [gone.follower("gone")], create(1));
  });
  await died;
  const stop = new AbortController();
  const listening = make(fetch).listen(() => {}, { signal: stop.signal });
  await until("told", () => told.length > 0, 15).finally(() => stop.abort());
  await listening;
  assert.deepEqual(told[0].actorIds.map(String), [`${gone.url}/users/gone`]);
  // A request that never ends would keep the process of the tests for a minute.
  hear();
  await assert.rejects(sent, /400/);
});

/** A queue on a fedpost that is played, and what it is asked. */
function played(answer, options = {}) {
  const asked = [];
  const fetch = async (url, init) => {
    asked.push({ path: new URL(url).pathname, body: init.body && JSON.parse(init.body) });
    return (await answer(asked.at(-1), init)) ?? new Response('{"id":"X","status":"queued","recipients":1}', { status: 202 });
  };
  const queue = new FedpostQueue(new Fedpost("http://127.0.0.1:1", { fetch }), { kv: new MemoryKvStore(), queue: new InProcessMessageQueue(), ...options });
  const calls = () => asked.filter((a) => a.path === "/v1/activities").map((a) => a.body);
  return { queue, calls, sends: () => calls().map((body) => body.activity.id) };
}

const message = (id, more = {}) => ({ type: "outbox", keys: [{ keyId: `${origin}/users/frida#main-key`, privateKey: keys.frida.privateKey }], activity: { id, actor: `${origin}/users/frida` }, activityId: id, inbox: "https://a.example/inbox", ...more });

test("activities of one ordering key are handed over in their order, whatever happens to the first", async () => {
  for (const first of [() => new Response("{}", { status: 503 }), () => new Response('{"title":"No"}', { status: 400 })]) {
    let answers = 0;
    const { queue, sends } = played(async ({ path, body }) => {
      if (path !== "/v1/activities" || body.activity.id !== "create" || answers++ > 0) return undefined;
      await new Promise((resolve) => setTimeout(resolve, 50));
      return first();
    });
    const ordered = { orderingKey: "notes/7\nhttps://a.example" };
    const all = [queue.enqueue(message("create", ordered)), queue.enqueue(message("delete", ordered)), queue.enqueue(message("other"))];
    await new Promise((resolve) => setTimeout(resolve, 10));
    all.push(queue.enqueue(message("undo", ordered)));
    await Promise.allSettled(all);
    assert.deepEqual(sends().filter((id) => id !== "other"), answers > 1 ? ["create", "create", "delete", "undo"] : ["create", "delete", "undo"]);
    assert.ok(sends().indexOf("other") <= 1, "nobody else waits");
  }
});

test("the time to hand over an activity grows with its inboxes, not with their square", async () => {
  const { queue } = played(async () => undefined);
  const took = async (n) => {
    const shared = message("x");
    const begin = process.cpuUsage();
    await queue.enqueueMany(Array.from({ length: n }, (_, i) => ({ ...shared, inbox: `https://a.example/${i}` })));
    const { user, system } = process.cpuUsage(begin);
    return (user + system) / 1000;
  };
  await took(1000);
  const [few, many] = [await took(5000), await took(50_000)];
  assert.ok(many < 40 * few, `${few} ms of processor for 5,000 inboxes, ${many} ms for 50,000`);
});

test("a key that was deleted in fedpost is stored again", async (t) => {
  const { context, fedpost, asked } = await sending(t);
  const server = await remote(t);
  await context.sendActivity(sender("frida"), [server.follower(1)], create(1));
  await until("the first is delivered", () => server.got.length === 1);
  const { keys: [{ id }] } = await fedpost.call("listKeys");
  await fedpost.call("deleteKey", { path: { id }, query: { force: true } });
  await context.sendActivity(sender("frida"), [server.follower(1)], create(2));
  await until("the second is delivered", () => server.got.length === 2);
  assert.ok(server.got.every((g) => g.signed));
  assert.equal(asked.filter((a) => a.call.startsWith("PUT /v1/keys/")).length, 2);
});

test("a store that fails again and again leaves nothing at the signal", async (t) => {
  let failures = 0;
  const kv = new MemoryKvStore();
  kv.get = async () => {
    if (++failures === 30) stop.abort();
    listeners.push(getEventListeners(stop.signal, "abort").length);
    throw new Error("the store is away");
  };
  const listeners = [];
  const stop = new AbortController();
  const { queue } = played(async () => undefined, { kv, queue: { listen: async () => {} }, onPermanentFailure: () => {} });
  t.mock.method(console, "error", () => {});
  const real = globalThis.setTimeout;
  t.after(() => {
    globalThis.setTimeout = real;
  });
  globalThis.setTimeout = (then, ms) => real(then, ms === 5000 ? 0 : ms);
  await queue.listen(() => {}, { signal: stop.signal });
  assert.equal(failures, 30);
  assert.equal(Math.max(...listeners), listeners[0]);
});

test("an odd inbox refuses no other: its name is logged, and sendActivity succeeds", async (t) => {
  const refused = Array.from({ length: 30 }, (_, n) => ({ inbox: `ftp://${n}.example/inbox`, why: "no http" }));
  const warnings = [];
  t.mock.method(console, "warn", (text) => warnings.push(text));
  let odd = 1;
  const { queue } = played(async ({ path }) => (path === "/v1/activities" ? Response.json({ id: "X", status: "queued", recipients: 1, refused: refused.slice(0, odd), ...(odd > 1 ? { refusedCount: 300 } : {}) }, { status: 202 }) : undefined));
  const shared = message("x");
  await queue.enqueueMany([shared, { ...shared, inbox: "ftp://0.example/inbox" }]);
  assert.deepEqual(warnings, ["fedpost: the activity x goes to no inbox of these, and to all others: ftp://0.example/inbox (no http)"]);
  odd = 30;
  await queue.enqueue(message("y", { orderingKey: "notes/7\nhttps://a.example" }));
  assert.match(warnings[1], /19\.example\/inbox \(no http\), and 280 more$/);
  odd = 0;
  await queue.enqueue(message("z"));
  assert.equal(warnings.length, 2);
});

test("activities with a deduplicationKey are dropped by fedpost, in one call or not at all", async () => {
  const { queue, calls } = played(async () => undefined);
  const shared = message("x");
  const three = ["a", "b", "c"].map((name) => ({ ...shared, inbox: `https://${name}.example/inbox` }));
  await queue.enqueueMany(three, { deduplicationKey: "k" });
  await queue.enqueue(message("y"), { deduplicationKey: "k" });
  await queue.enqueue(message("y"), { deduplicationKey: "l" });
  await queue.enqueue({ ...message("y"), baseUrl: "https://other.example" }, { deduplicationKey: "k" });
  await queue.enqueueMany(three);
  const keysOf = calls().map((body) => body.deduplicationKey);
  assert.equal(calls()[0].recipients.length, 3);
  assert.deepEqual(keysOf.map((key) => keysOf.indexOf(key)), [0, 0, 2, 3, 4]);
  const many = Array.from({ length: 50_001 }, () => shared);
  for (const [batch, why] of [[[shared, message("y")], /one activity/], [many, /50000 inboxes/], [[shared, "a task"], /two queues/]]) await assert.rejects(queue.enqueueMany(batch, { deduplicationKey: "m" }), why);
  assert.equal(calls().length, 5);
});

test("messages of one activity with other options are another call", async () => {
  const { queue, calls } = played(async () => undefined);
  const shared = message("x");
  const delay = Temporal.Duration.from({ seconds: 3 });
  await Promise.all([queue.enqueue(shared), queue.enqueue({ ...shared, inbox: "https://b.example/inbox" }, { delay }), queue.enqueue({ ...shared, inbox: "https://c.example/inbox" }, { deduplicationKey: "k" })]);
  assert.deepEqual(calls().map((body) => [body.recipients.length, body.delay ?? 0]), [[1, 0], [1, 3], [1, 0]]);
});
