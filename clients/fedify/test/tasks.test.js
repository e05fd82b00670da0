import assert from "node:assert/strict";
import { test } from "node:test";
import { InProcessMessageQueue, MemoryKvStore } from "@fedify/fedify";
import { Fedpost } from "@fedpost/client";
import { FedpostQueue } from "@fedpost/fedify";
import { Own, tasksOn } from "./tasks.js";

const fedpost = new Fedpost("http://127.0.0.1:1", {
  fetch: () => {
    throw new Error("a task is nothing for fedpost");
  },
});
/** The outbox queue, to which Fedify 2.4 gives tasks that have no queue of their own. */
const over = (own) => new FedpostQueue(fedpost, { kv: new MemoryKvStore(), queue: own });
const refusal = /^TypeError: A batch of 3 messages with one deduplicationKey was refused, because the application's own queue has no enqueueMany that takes all messages or none: enqueue each/;

test("the queue promises what the application's own queue promises, no more", () => {
  const promises = (own) => {
    const { nativeRetrial, nativeDeduplication, atomicEnqueueMany } = over(own);
    return [nativeRetrial, nativeDeduplication, atomicEnqueueMany];
  };
  assert.deepEqual(promises(new Own()), [false, false, false]);
  assert.deepEqual(promises(new Own({ many: true })), [false, false, true]);
  assert.deepEqual(promises(new Own({ many: true, atomicEnqueueMany: false, nativeRetrial: true })), [true, false, false]);
  assert.deepEqual(promises(new Own({ nativeDeduplication: true, atomicEnqueueMany: true })), [false, true, false]);
  assert.deepEqual(promises(new Own({ many: true, nativeDeduplication: true, nativeRetrial: true })), [true, true, true]);
  assert.deepEqual(promises(new InProcessMessageQueue()), [false, false, true]);
});

test("a task with a deduplicationKey runs once: Fedify's marker says so where the own queue does not", async () => {
  const ran = [];
  const kv = new MemoryKvStore();
  const tasks = tasksOn(over(new InProcessMessageQueue({ pollInterval: { milliseconds: 5 } })), { kv, handler: (data) => ran.push(data) });
  for (const data of ["first", "second"]) await tasks.enqueue([data], { deduplicationKey: "k" });
  await tasks.enqueue(["another"], { deduplicationKey: "l" });
  const stop = new AbortController();
  const listening = tasks.listen(stop.signal);
  for (let n = 0; ran.length < 2 && n < 1000; n++) await new Promise((r) => setTimeout(r, 5));
  stop.abort();
  await listening;
  assert.deepEqual(ran, ["first", "another"]);
  assert.ok(await kv.get(["_fedify", "taskDeduplication", "k"]));
});

test("a key goes to an own queue that knows keys, without a marker, and with the ordering key", async () => {
  const own = new Own({ nativeDeduplication: true, many: true });
  const kv = new MemoryKvStore();
  const tasks = tasksOn(over(own), { kv });
  await tasks.enqueue(["a"], { deduplicationKey: "k", orderingKey: "user:alice" });
  await tasks.enqueue(["a", "b", "c"], { deduplicationKey: "batch" });
  assert.deepEqual([own.enqueued[0].options.deduplicationKey, own.enqueued[0].options.orderingKey, own.enqueued[0].message.orderingKey], ["k", "user:alice", "user:alice"]);
  assert.deepEqual([own.batches.length, own.batches[0].messages.length, own.batches[0].options.deduplicationKey], [1, 3, "batch"]);
  assert.equal(await kv.get(["_fedify", "taskDeduplication", "k"]), undefined);
});

test("without a key, and without a store for markers, nothing is dropped or forwarded", async () => {
  for (const kv of [new MemoryKvStore(), null]) {
    const own = new Own();
    const tasks = tasksOn(over(own), { kv });
    for (let n = 0; n < 2; n++) await tasks.enqueue(["a"], kv ? {} : { deduplicationKey: "k" });
    await tasks.enqueue(["a", "b", "c"]);
    assert.equal(own.enqueued.length, 5);
    assert.ok(own.enqueued.every(({ options }) => options.deduplicationKey === undefined));
  }
  const own = new Own();
  await assert.rejects(tasksOn(over(own), { kv: null, fallback: "closed" }).enqueue(["a"], { deduplicationKey: "k" }), TypeError);
  assert.equal(own.enqueued.length, 0);
});

test("three tasks with one key are enqueued all or none", async () => {
  for (const promises of [{}, { many: true, atomicEnqueueMany: false }, { nativeDeduplication: true }]) {
    const own = new Own(promises);
    await assert.rejects(tasksOn(over(own)).enqueue(["a", "b", "c"], { deduplicationKey: "k" }), /atomic enqueueMany/);
    // Whoever asks nevertheless is refused before anything is enqueued.
    await assert.rejects(over(own).enqueueMany(["a", "b", "c"], { deduplicationKey: "k" }), (err) => refusal.test(String(err)));
    assert.equal(own.enqueued.length + own.batches.length, 0);
    await tasksOn(over(own)).enqueue(["a"], { deduplicationKey: "one" });
    await over(own).enqueueMany(["b"], { deduplicationKey: "two" });
    assert.equal(own.enqueued.length, 2);
  }
  const own = new Own({ many: true });
  const tasks = tasksOn(over(own));
  for (let n = 0; n < 2; n++) await tasks.enqueue(["a", "b", "c"], { deduplicationKey: "k" });
  assert.deepEqual([own.enqueued.length, own.batches.length, own.batches[0].messages.length], [0, 1, 3]);
});

test("a failed enqueue takes its marker back, and each failure is told", async () => {
  const own = new Own({ fails: 1 });
  const tasks = tasksOn(over(own));
  await assert.rejects(tasks.enqueue(["a"], { deduplicationKey: "k" }), /own queue is down/);
  await tasks.enqueue(["a"], { deduplicationKey: "k" });
  await tasks.enqueue(["a"], { deduplicationKey: "k" });
  assert.equal(own.enqueued.length, 1);
  const half = new Own({ fails: 2 });
  await assert.rejects(over(half).enqueueMany(["a", "b", "c"]), AggregateError);
  assert.equal(half.enqueued.length, 1); // the others were still enqueued
});

test("a task that throws once runs again: by Fedify, or by an own queue that retries", async () => {
  let calls = 0;
  const attempts = [];
  const tasks = tasksOn(over(new InProcessMessageQueue({ pollInterval: { milliseconds: 5 } })), {
    handler: (_, { attempt }) => {
      attempts.push(attempt);
      if (calls++ === 0) throw new Error("the first time");
    },
  });
  await tasks.enqueue(["a"]);
  const stop = new AbortController();
  const listening = tasks.listen(stop.signal);
  for (let n = 0; calls < 2 && n < 1000; n++) await new Promise((r) => setTimeout(r, 5));
  stop.abort();
  await listening;
  assert.deepEqual(attempts, [0, 1]);

  const own = new Own({ nativeRetrial: true });
  const told = [];
  own.listen = async (handler) => handler({ type: "task", data: '"b"', attempt: 0 }).catch((err) => told.push(err.message));
  await tasksOn(over(own), {
    handler: () => {
      throw new Error("for the own queue");
    },
  }).listen();
  assert.deepEqual([told, own.enqueued.length], [["for the own queue"], 0]);
});
