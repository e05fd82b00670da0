// What Fedify 2.4 asks of a queue for its background tasks, as its federation/tasks/enqueue.ts and middleware.ts (commit
// ac08358, August 2026) do it: no released version has tasks yet. Validation, metrics and the codec are left out.
import { MemoryKvStore } from "@fedify/fedify";

/** An application with tasks on a queue: `kv: null` is a store without conditional writes. */
export function tasksOn(queue, { kv = new MemoryKvStore(), fallback = "open", handler = () => {} } = {}) {
  const cas = kv?.cas?.bind(kv);
  return {
    /** enqueueTask with one payload, enqueueTaskMany with several. */
    async enqueue(items, { delay, orderingKey, deduplicationKey: key } = {}) {
      const native = queue.nativeDeduplication === true;
      const atomic = queue.enqueueMany != null && queue.atomicEnqueueMany !== false;
      if (key != null && items.length > 1 && !atomic && (native || cas)) throw new TypeError("its message queue does not provide an atomic enqueueMany");
      if (key != null && !native && !cas && fallback === "closed") throw new TypeError("deduplicationKey was set, but …");
      const messages = items.map((data) => ({ type: "task", id: crypto.randomUUID(), baseUrl: "https://social.example", taskName: "t", data: JSON.stringify(data), started: new Date().toISOString(), attempt: 0, orderingKey, traceContext: {} }));
      const marker = ["_fedify", "taskDeduplication", key];
      const token = crypto.randomUUID();
      const claims = key != null && !native && cas;
      if (claims && !(await cas(marker, undefined, token))) return;
      const options = { delay, orderingKey, deduplicationKey: native ? key : undefined };
      try {
        if (messages.length === 1) await queue.enqueue(messages[0], options);
        else if (queue.enqueueMany != null) await queue.enqueueMany(messages, options);
        else await Promise.all(messages.map((m) => queue.enqueue(m, { delay, orderingKey })));
      } catch (err) {
        if (claims) await cas(marker, token, undefined);
        throw err;
      }
    },
    /** Handles what the queue has, until the signal aborts. */
    listen(signal) {
      return queue.listen(
        async (message) => {
          try {
            await handler(JSON.parse(message.data), message);
          } catch (err) {
            if (queue.nativeRetrial) throw err; // the queue has it still
            await queue.enqueue({ ...message, attempt: message.attempt + 1 }, { orderingKey: message.orderingKey });
          }
        },
        { signal },
      );
    },
  };
}

/** An own queue that keeps what it gets, and makes these promises. */
export class Own {
  enqueued = [];
  batches = [];
  constructor({ many = false, fails = 0, ...promises } = {}) {
    Object.assign(this, promises);
    if (many)
      this.enqueueMany = async (messages, options) => {
        if (fails-- > 0) throw new Error("the own queue is down");
        this.batches.push({ messages, options });
      };
    this.enqueue = async (message, options) => {
      if (fails-- > 0) throw new Error("the own queue is down");
      this.enqueued.push({ message, options });
    };
  }
  async listen() {}
}
