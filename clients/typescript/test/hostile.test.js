// What a hostile server, or a hostile answer on the way, must not do to a client.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { getEventListeners, once } from "node:events";
import { createServer } from "node:net";
import { test } from "node:test";
import { Fedpost, FedpostError, verifyWebhook } from "@fedpost/client";
import { serve } from "./world.js";

const json = (res, status, body, headers = {}) => res.writeHead(status, { "Content-Type": "application/json", ...headers }).end(typeof body === "string" ? body : JSON.stringify(body));

test("a redirect is not followed", async (t) => {
  const taken = [];
  const elsewhere = await serve(t, async (req, res) => {
    let body = "";
    for await (const chunk of req) body += chunk;
    taken.push([req.headers.authorization, body]);
    json(res, 200, { id: "x" });
  });
  for (const status of [301, 302, 303, 307, 308]) {
    let asked = 0;
    const url = await serve(t, (_, res) => {
      asked++;
      json(res, status, "", { Location: `${elsewhere.replace("http://", "http://user:password@")}/taken` });
    });
    const fedpost = new Fedpost(url, { token: "secret" });
    for (const call of [() => fedpost.get("x"), () => fedpost.call("putKey", { path: { id: "x" }, body: { privateKeyPem: "private" } })]) {
      await assert.rejects(call(), { name: "FedpostError", status, message: `${status} Not an answer of fedpost: it points to "${elsewhere}/taken", which is not followed: give the address of fedpost itself` });
    }
    assert.equal(asked, 2);
  }
  assert.deepEqual(taken, []);
});

test("no error shows a password or a token", async (t) => {
  for (const address of ["http://frida:hunter2@127.0.0.1:8080", "http://hunter2@127.0.0.1", "http://frida:hunter2@127.0.0.1:port", "ftp://frida:hunter2@a.example"]) {
    assert.throws(() => new Fedpost(address), (err) => err instanceof TypeError && /give the token/.test(err.message) && !err.message.includes("hunter2"));
  }
  for (const token of ["hunter2\nX-Other: 1", "hunter2\t3", "hunter2\0", "hunter2é", "hunter2\x7f"]) {
    assert.throws(() => new Fedpost("http://127.0.0.1:8080", { token }), (err) => err instanceof TypeError && /the token of fedpost has a line break/.test(err.message) && !err.message.includes("hunter2"));
  }
  const got = [];
  const url = await serve(t, (req, res) => {
    got.push(req.headers.authorization);
    json(res, 200, { id: "x" });
  });
  await new Fedpost(url, { token: " secret\r\n" }).get("x");
  assert.deepEqual(got, ["Bearer secret"]);
});

test("Retry-After is obeyed for 5 minutes at most", async (t) => {
  for (const [header, seconds] of [["31536000", 300], ["9".repeat(30), 300], ["-31536000", undefined], ["Fri, 31 Dec 9999 23:59:59 GMT", 300], ["Fri, 31 Dec 1999 23:59:59 GMT", undefined], ["soon", undefined]]) {
    const url = await serve(t, (_, res) => json(res, 503, { title: "Not now" }, { "Retry-After": header }));
    await assert.rejects(new Fedpost(url, { patience: 0 }).get("x"), { status: 503, retryAfter: seconds });
  }
});

test("no pause of a feed is longer than a timer can be, which would end it at once", async (t) => {
  const idle = { events: [], next: "AQ", more: false };
  const answers = [
    () => new Response("{}", { status: 503, headers: { "Retry-After": "31536000" } }),
    () => Response.json(idle),
    () => Response.json({ ...idle, retryAfter: 31536000 }),
  ];
  const stop = new AbortController();
  const pauses = [];
  const real = globalThis.setTimeout;
  t.after(() => {
    globalThis.setTimeout = real;
  });
  globalThis.setTimeout = (then, ms) => {
    if (ms <= 60_000) return real(then, ms); // the time limit of a request, and what fetch itself waits for
    if (pauses.push(ms) === 2) stop.abort();
    return setImmediate(then);
  };
  const fedpost = new Fedpost("http://127.0.0.1:1", { fetch: async () => answers.shift()() });
  for await (const _ of fedpost.events("", { signal: stop.signal })) assert.fail("there is no event");
  assert.deepEqual(pauses, [300_000, 300_000]);
});

test("a feed that stands still ends in an error", async (t) => {
  for (const page of [{ events: [{ id: "evt_1" }], next: "AQ", more: false }, { events: [], next: "AQ", more: true }, { events: [{ id: "evt_1" }], more: false }, { events: [], next: 7, more: true }, { events: {}, next: "AQ", more: false }, { events: [null], next: "AQ", more: false }]) {
    let asked = 0;
    const url = await serve(t, (_, res) => (++asked > 10 ? json(res, 400, {}) : json(res, 200, page)));
    const told = [];
    await assert.rejects(async () => {
      for await (const e of new Fedpost(url).events("")) told.push(e.id);
    }, { name: "FedpostError", title: "Not an answer of fedpost" });
    assert.ok(asked <= 2 && told.length <= 1, `asked ${asked} times, told ${told}`);
  }
});

test("pages that go in a circle end in an error", async (t) => {
  for (const next of [{ "": "a", a: "a" }, { "": "a", a: "b", b: "c", c: "a" }]) {
    let asked = 0;
    const url = await serve(t, (req, res) => (++asked > 10 ? json(res, 400, {}) : json(res, 200, { servers: [{}], nextCursor: next[new URL(req.url, "http://x").searchParams.get("cursor") ?? ""] })));
    let n = 0;
    await assert.rejects(async () => {
      for await (const _ of new Fedpost(url).pages("listServers", "servers")) n++;
    }, { message: /^200 Not an answer of fedpost: its pages repeat: "[ab]" comes twice as nextCursor$/ });
    assert.ok(n >= Object.keys(next).length && n <= 2 * Object.keys(next).length, `${n} entries`);
  }
  const odd = await serve(t, (_, res) => json(res, 200, { servers: null }));
  await assert.rejects(new Fedpost(odd).pages("listServers", "servers").next(), FedpostError);
});

test("pages without entries end in an error, as nobody can stop a loop that gives nothing", async () => {
  let asked = 0;
  // One entry in the middle begins the count anew.
  const fetch = async () => (++asked > 20_000 ? new Response("{}", { status: 400 }) : Response.json({ servers: asked === 5000 ? [{}] : [], nextCursor: String(asked) }));
  await assert.rejects(async () => {
    for await (const _ of new Fedpost("http://127.0.0.1:1", { fetch }).pages("listServers", "servers"));
  }, { message: "200 Not an answer of fedpost: 10000 pages in a row have no entry" });
  assert.equal(asked, 15_000);
});

test("a long cursor is not printed whole", async () => {
  const next = "x".repeat(1 << 20);
  const fetch = async () => Response.json({ servers: [], nextCursor: next, events: [{}], next });
  for (const call of [(f) => f.pages("listServers", "servers").next(), (f) => f.events(next).next()]) await assert.rejects(call(new Fedpost("http://127.0.0.1:1", { fetch })), (err) => err instanceof FedpostError && err.message.length < 1000);
});

test("a feed that is only more is not read in a hot loop", async () => {
  let asked = 0;
  const stop = new AbortController();
  const fetch = async () => {
    if (++asked === 1001) setTimeout(() => stop.abort(), 1000);
    return Response.json(asked > 5000 ? {} : { events: [], next: String(asked), more: true });
  };
  for await (const _ of new Fedpost("http://127.0.0.1:1", { fetch }).events("", { signal: stop.signal })) assert.fail("there is no event");
  assert.ok(asked > 1000 && asked < 1020, `asked ${asked} times`);
});

test("a refusal disturbs neither log nor terminal", async () => {
  const odd = "\u001b]0;owned\u0007\u009b31m\u202e\r\n";
  const long = "x".repeat(500_000);
  const bodies = [
    JSON.stringify({ title: odd + long, detail: odd + long, type: odd, id: odd, requestId: odd }),
    JSON.stringify({ title: "No", errors: Array.from({ length: 5000 }, () => ({ pointer: odd, detail: odd })) }),
    `down${odd}${long}`,
  ];
  for (const body of bodies) {
    await assert.rejects(new Fedpost("http://127.0.0.1:1", { fetch: async () => new Response(body, { status: 404 }) }).get("x"), (err) => {
      assert.ok(err.status === 404 && err.message.length < 20_000, `${err.message.length} characters`);
      assert.doesNotMatch(JSON.stringify([err.message, err.type, err.id, err.requestId, err.errors]), /\\u00|\\n|\p{Cc}|\p{Cf}/u);
      return true;
    });
  }
});

test("a server of a newer version has states and events that are passed on", async () => {
  const answers = [
    { id: "x", status: "delivering", counts: { held: 1, delivered: 2 } },
    { id: "x", status: "cancelled", counts: { queued: 1, delivered: 2 } },
    { id: "x", status: "done", counts: { forwarded: 1, delivered: 2 } },
    { events: [{ id: "evt_1", type: "server.moved", to: { host: "b.example" } }], next: "AQ", more: false },
  ];
  const fedpost = new Fedpost("http://127.0.0.1:1", { fetch: async () => Response.json(answers.shift()) });
  assert.deepEqual((await fedpost.waitUntilDone("x")).counts, { forwarded: 1, delivered: 2 });
  assert.equal((await fedpost.events("").next()).value.type, "server.moved");
});

test("an answer that is cut off is asked for again", async (t) => {
  for (const framing of ["Content-Length: 100\r\n\r\n", 'Transfer-Encoding: chunked\r\n\r\n7\r\n{"id":"\r\n']) {
    let asked = 0;
    const server = createServer((socket) => {
      socket.on("error", () => {}).once("data", () => {
        if (++asked === 1) {
          socket.write(`HTTP/1.1 200 OK\r\n${framing}`);
          setTimeout(() => socket.destroy(), 50);
        } else socket.end('HTTP/1.1 200 OK\r\nContent-Length: 10\r\nConnection: close\r\n\r\n{"id":"x"}');
      });
    }).listen(0, "127.0.0.1");
    t.after(() => server.close());
    await once(server, "listening");
    assert.equal((await new Fedpost(`http://127.0.0.1:${server.address().port}`).get("x")).id, "x");
    assert.equal(asked, 2);
  }
});

test("a call that the compiler has not seen says what it lacks", async () => {
  const fedpost = new Fedpost("http://127.0.0.1:1", { fetch: () => assert.fail("nothing is asked") });
  await assert.rejects(fedpost.call("explode"), { name: "TypeError", message: 'the API of fedpost has no operation "explode"' });
  for (const id of [undefined, "", ".", ".."]) await assert.rejects(fedpost.get(id), { name: "TypeError", message: `GET /v1/activities/{id} needs its id, and got ${JSON.stringify(id)}` });
});

test("an answer without a body is none of fedpost", async (t) => {
  const url = await serve(t, (_, res) => json(res, 200, ""));
  await assert.rejects(new Fedpost(url).call("getStats"), { name: "FedpostError", title: "Not an answer of fedpost" });
});

test("a feed says that nobody has ever answered, and outlives a server that was there", async (t) => {
  const away = () => Promise.reject(new TypeError("fetch failed", { cause: Object.assign(new Error("getaddrinfo ENOTFOUND fedpost"), { code: "ENOTFOUND" }) }));
  const refused = () => Promise.reject(new TypeError("fetch failed", { cause: new Error("connect ECONNREFUSED") }));
  const begin = Date.now();
  await assert.rejects(new Fedpost("http://fedpost", { fetch: away }).events("").next(), { status: 0 });
  await assert.rejects(new Fedpost("http://fedpost", { fetch: refused, patience: 500 }).events("").next(), { status: 0 });
  assert.ok(Date.now() - begin < 5000);
  let asked = 0;
  const restarting = async () => (++asked === 1 ? Response.json({ events: [], next: "AQ", more: false }) : asked < 4 ? away() : Response.json({ events: [{ id: "evt_1" }], next: "Ag", more: false }));
  assert.equal((await new Fedpost("http://fedpost", { fetch: restarting, patience: 0 }).events("").next()).value.id, "evt_1");
});

test("a malformed refusal is a FedpostError with its status", async (t) => {
  const bodies = ["", "no", "null", '"no"', "[1]", "7", '{"title":', "[".repeat(100_000), '{"type":1,"title":["x"],"status":"y","detail":{},"errors":{"pointer":2},"id":3}', '{"title":"No","errors":[null,1,{"pointer":2}]}', `{"title":"No","detail":"${"x".repeat(70 << 20)}"}`];
  for (const body of bodies) {
    const url = await serve(t, (_, res) => json(res, 404, body));
    await assert.rejects(new Fedpost(url).get("x"), (err) => err instanceof FedpostError && err.status === 404 && typeof err.title === "string" && Array.isArray(err.errors) && err.message.length < 1000, body.slice(0, 100));
  }
  const cut = await serve(t, (_, res) => {
    res.writeHead(404, { "Content-Length": "100" }).write("not here");
    setTimeout(() => res.destroy(), 50);
  });
  await assert.rejects(new Fedpost(cut).get("x"), { name: "FedpostError", status: 404, detail: "not here" });
});

test("an answer without end is not kept", async (t) => {
  const url = await serve(t, (_, res) => {
    res.writeHead(200, { "Content-Type": "application/json" });
    const chunk = "x".repeat(1 << 20);
    const more = () => {
      while (!res.destroyed && res.write(chunk));
    };
    res.on("drain", more).on("error", () => {});
    more();
  });
  await assert.rejects(new Fedpost(url).get("x"), { name: "FedpostError", message: "200 Not an answer of fedpost: over 67108864 bytes" });
});

test("a request leaves nothing at a signal that lives on", async (t) => {
  const url = await serve(t, (_, res) => json(res, 200, { id: "x" }));
  const { signal } = new AbortController();
  for (let n = 0; n < 20; n++) await new Fedpost(url).get("x", { signal });
  assert.equal(getEventListeners(signal, "abort").length, 0);
});

test("a webhook is refused where no secret is set, and whatever else comes is refused as one of somebody else", async () => {
  const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
  const at = String(Math.floor(Date.now() / 1000));
  const signed = (body, key) => ({ "webhook-id": "evt_1", "webhook-timestamp": at, "webhook-signature": `v1,${createHmac("sha256", key).update(`evt_1.${at}.${body}`).digest("base64")}` });
  const body = '{"id":"evt_1","type":"recipient.gone"}';
  for (const empty of ["", " ", "\n", "whsec_", " whsec_\r\n", undefined, null]) {
    await assert.rejects(verifyWebhook(empty, signed(body, ""), body), TypeError);
    await assert.rejects(verifyWebhook(empty, {}, body), TypeError);
  }
  const key = Buffer.from(secret.slice(6), "base64");
  for (const odd of ["", "hello", "null", "7", '"events"', '{"events":7}', "[".repeat(100_000)]) await assert.rejects(verifyWebhook(secret, signed(odd, key), odd), { name: "FedpostError", status: 401 }, odd.slice(0, 20));
  const good = signed(body, key);
  for (const headers of [{ ...good, "webhook-timestamp": "9".repeat(400) }, { ...good, "webhook-timestamp": "Infinity" }, { ...good, "webhook-id": "\ud800" }, { ...good, "webhook-signature": "v1,\ud800" }]) {
    await assert.rejects(verifyWebhook(secret, headers, body), { name: "FedpostError", status: 401 });
  }
  assert.equal((await verifyWebhook(`${secret}\n`, good, body)).length, 1);
});
