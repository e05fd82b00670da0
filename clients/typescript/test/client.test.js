import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer as createSecure } from "node:https";
import { test } from "node:test";
import { Fedpost, FedpostError, verifyWebhook } from "@fedpost/client";
import { closed, folder, inbox, keyId, note, serve, token, up } from "./world.js";

test("an activity is delivered to the byte, once, and every recipient has its end", async (t) => {
  const server = await up(t, folder(t));
  const fedpost = new Fedpost(server.url, { token });
  const key = await fedpost.call("generateKey", { body: { id: keyId, type: "ed25519" } });
  assert.match(key.publicKeyPem, /^-----BEGIN PUBLIC KEY-----/);
  const [good, gone] = [await inbox(t, 202), await inbox(t, 410)];
  const submission = { activity: note(1), keyId, recipients: [good.url, gone.url], deduplicationKey: "create 1" };
  const first = await fedpost.send(submission);
  assert.deepEqual([first.status, first.recipients], ["queued", 2]);
  const again = await fedpost.send(submission);
  assert.deepEqual([again.status, again.id], ["duplicate", first.id]);
  const done = await fedpost.waitUntilDone(first.id);
  assert.deepEqual([done.status, done.counts], ["done", { delivered: 1, failed: 1 }]);
  assert.deepEqual(good.got, [JSON.stringify(note(1))]);
  const failed = [];
  for await (const r of fedpost.recipients(first.id, { state: "failed" })) failed.push(r);
  assert.deepEqual(failed.map((r) => [r.inbox, r.lastStatus]), [[gone.url, 410]]);

  const batch = await fedpost.sendMany([2, 3].map((n) => ({ activity: note(n), keyId, recipients: [good.url] })));
  assert.equal(batch.activities.length, 2);
  await assert.rejects(fedpost.send({ ...submission, recipients: [good.url] }), (err) => err instanceof FedpostError && err.status === 422 && err.id === first.id);
  await assert.rejects(fedpost.send({ ...submission, recipients: ["nowhere"], priority: "urgent" }), (err) => err.status === 400 && err.errors.length === 2 && /#\/priority/.test(err.message));
});

test("the feed goes on where it stopped, through kill -9", async (t) => {
  const dir = folder(t);
  let server = await up(t, dir);
  const fedpost = new Fedpost(server.url, { token });
  await fedpost.call("generateKey", { body: { id: keyId, type: "ed25519" } });
  const gone = await inbox(t, 410);
  const stop = new AbortController();
  const told = [];
  const cursors = [];
  const all = 6;
  const reading = (async () => {
    for await (const e of fedpost.events("", { types: ["recipient.gone"], signal: stop.signal })) {
      told.push(e.activityId);
      cursors.push(e.cursor);
      if (told.length === all) stop.abort();
    }
  })();
  const sent = [];
  const send = async (n) => sent.push((await fedpost.send({ activity: note(n), keyId, recipients: [gone.url] })).id);
  for (let n = 0; n < all; n += 2) {
    await send(n);
    while (told.length <= n) await new Promise((resolve) => setTimeout(resolve, 20));
    await server.kill(); // in the middle of a long poll
    const late = send(n + 1); // repeated until the server is back
    await new Promise((resolve) => setTimeout(resolve, 300));
    server = await up(t, dir, new URL(server.url).host);
    await late;
  }
  await reading;
  assert.deepEqual([...told].sort(), [...sent].sort());
  // What was not dealt with comes again behind its cursor.
  const rest = [];
  for await (const e of fedpost.events(cursors[2], { types: ["recipient.gone"] })) {
    rest.push(e.activityId);
    if (rest.length === all - 3) break;
  }
  assert.deepEqual(rest, told.slice(3));
});

test("a send is repeated with one key while the server says 503", async (t) => {
  const asked = [];
  const url = await serve(t, (req, res) => {
    asked.push(req.headers["idempotency-key"]);
    if (asked.length < 3) return res.writeHead(503, { "Retry-After": "1" }).end('{"title":"Service Unavailable"}');
    res.writeHead(202, { "Content-Type": "application/json" }).end('{"id":"X","status":"queued","recipients":1}');
  });
  const begin = Date.now();
  const submission = { activity: note(1), keyId, recipients: ["https://a.example/inbox"] };
  assert.equal((await new Fedpost(url).send(submission)).id, "X");
  assert.equal(asked.length, 3);
  assert.match(asked[0], /^"[0-9a-f-]{36}"$/);
  assert.deepEqual(new Set(asked).size, 1);
  assert.ok(Date.now() - begin >= 1990, "Retry-After is obeyed");
});

test("what is not harmless is not repeated, and patience ends", async (t) => {
  let asked = 0;
  const url = await serve(t, (_, res) => {
    asked++;
    res.writeHead(503, { "Retry-After": "1" }).end('{"title":"Service Unavailable"}');
  });
  for (const [call, times] of [
    [(f) => f.call("generateKey", { body: { id: "x" } }), 1],
    [(f) => f.call("forgetActivity", { path: { id: "x" } }), 1],
    [(f) => f.get("x"), 2],
  ]) {
    asked = 0;
    await assert.rejects(call(new Fedpost(url, { patience: 1500 })), (err) => err.status === 503 && err.retryAfter === 1);
    assert.equal(asked, times);
  }
});

test("what is wrong is said in one sentence", async (t) => {
  for (const address of ["", "127.0.0.1:8080", "ftp://a.example", "http://a.example/?x=1"]) assert.throws(() => new Fedpost(address), /is no address of fedpost: give one/);
  const page = await serve(t, (_, res) => res.writeHead(200, { "Content-Type": "text/html" }).end("<p>Welcome"));
  await assert.rejects(new Fedpost(page).get("x"), { name: "FedpostError", message: "200 Not an answer of fedpost: text/html that is not JSON: is the address right?" });
  const nobody = await closed();
  await assert.rejects(new Fedpost(nobody, { patience: 0 }).get("x"), (err) => err.status === 0 && err.message.startsWith(`No answer from fedpost at ${nobody}: `) && /refused/i.test(err.message));
  const other = await serve(t, (_, res) => res.writeHead(200, { "Content-Type": "application/json" }).end('{"hello":"world"}'));
  const lacks = (member) => ({ name: "FedpostError", message: `200 Not an answer of fedpost: it has no "${member}": is the address right, and this client as new as fedpost?` });
  await assert.rejects(new Fedpost(other).send({}), lacks("id"));
  await assert.rejects(new Fedpost(other).get("x"), lacks("id"));
  await assert.rejects(new Fedpost(other).sendMany([]), lacks("activities"));
  await assert.rejects(new Fedpost(other).waitUntilDone("x"), lacks("counts"));
  await assert.rejects(new Fedpost(other).recipients("x").next(), lacks("recipients"));
  await assert.rejects(new Fedpost(other).events("").next(), lacks("events"));
  const elsewhere = await serve(t, (_, res) => res.writeHead(404, { "Content-Type": "text/html; charset=utf-8" }).end("<p>Not here"));
  await assert.rejects(new Fedpost(elsewhere).get("x"), { message: "404 Not Found: text/html, which is not from fedpost: is the address right?" });
  const plain = other.replace("http:", "https:");
  const asked = [(f) => f.get("x"), (f) => f.events("").next()];
  for (const call of asked) await assert.rejects(call(new Fedpost(plain)), { message: `No answer from fedpost at ${plain}: it does not speak TLS: is it plain HTTP, and the address to begin with http://?` }); // at once
  const pem = readFileSync(new URL("./untrusted.pem", import.meta.url));
  const untrusted = createSecure({ key: pem, cert: pem }, () => {}).listen(0, "127.0.0.1");
  t.after(() => untrusted.close());
  await once(untrusted, "listening");
  const stranger = `https://127.0.0.1:${untrusted.address().port}`;
  for (const call of asked) await assert.rejects(call(new Fedpost(stranger)), (err) => err.message.startsWith(`No answer from fedpost at ${stranger}: `) && /(self[- ]signed|invalid peer) certificate/.test(err.message)); // at once
  for (const call of asked) await assert.rejects(call(new Fedpost("http://fedpost.invalid")), (err) => err.status === 0 && /ENOTFOUND|not known/.test(err.detail)); // at once
  const proxy = await serve(t, (_, res) => res.writeHead(400).end("upstream is down"));
  await assert.rejects(new Fedpost(proxy).get("x"), { message: "400 Bad Request: upstream is down" });
});

test("a webhook is verified", async () => {
  const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
  const sign = (body, at) => createHmac("sha256", Buffer.from(secret.slice(6), "base64")).update(`evt_1.${at}.${body}`).digest("base64");
  const headers = (body, at = Math.floor(Date.now() / 1000)) => ({ "webhook-id": "evt_1", "webhook-timestamp": String(at), "webhook-signature": `v1,AAAA v1,${sign(body, at)}` });
  const one = '{"id":"evt_1","type":"recipient.gone","time":"2026-11-22T08:00:00Z"}';
  assert.deepEqual((await verifyWebhook(secret, headers(one), one)).map((e) => e.id), ["evt_1"]);
  const batch = `{"events":[${one},${one}]}`;
  assert.equal((await verifyWebhook(secret, new Headers(headers(batch)), new TextEncoder().encode(batch))).length, 2);
  const written = Object.fromEntries(Object.entries(headers(one)).map(([name, value]) => [name.replace(/^w|-\w/g, (c) => c.toUpperCase()), value])); // as a Lambda function gets them
  assert.equal((await verifyWebhook(secret, written, one)).length, 1);
  for (const [h, body] of [[headers(one), `${one} `], [headers(one, 1000), one], [{}, one], [{ ...headers(one), "webhook-signature": "v1,!" }, one]]) {
    await assert.rejects(verifyWebhook(secret, h, body), { status: 401 });
  }
});
