/** Lets a Fedify application send through fedpost: `queue: { inbox: own, outbox: new FedpostQueue(fedpost, options) }`. */
import { type KvStore, type MessageQueue, type MessageQueueDepth, type MessageQueueListenOptions, SendActivityError } from "@fedify/fedify";
import { Activity } from "@fedify/vocab";
import { type Accepted, type Event, type Fedpost, FedpostError, type Submission } from "@fedpost/client";
import { Temporal } from "@js-temporal/polyfill";
import { digestOf, isOutbox, type OutboxMessage, signingKey } from "./message.js";
import { all, type EnqueueOptions, handOver, isAtomic, type OwnQueue } from "./own.js";

export type { EnqueueOptions, OwnQueue } from "./own.js";

/** What `onPermanentFailure` gets: what Fedify's setOutboxPermanentFailureHandler gives to its handler. */
export interface PermanentFailure {
  readonly reason: "http";
  readonly inbox: URL;
  readonly activity: Activity;
  readonly error: SendActivityError;
  readonly statusCode: number;
  /** The actors that were to receive the activity at this inbox. */
  readonly actorIds: readonly URL[];
}

export interface FedpostQueueOptions {
  /** The application's own queue, for all messages that are not activities to send: what it promises for them, FedpostQueue promises. */
  queue: OwnQueue;
  /** The application's own store, for the cursor in fedpost's events and the recipients of each activity. */
  kv: KvStore;
  /**
   * Is called for every inbox that has answered 404 or 410, by the process that listens to the queue: remove these followers.
   * If it throws, it is called again, and later events wait.
   */
  onPermanentFailure?: (failure: PermanentFailure) => void | Promise<void>;
}

/** The most inboxes of one call of fedpost. */
const mostInboxes = 50_000;
/** How long the recipients of an activity are stored: longer than fedpost tries, and keeps events. */
const kept = Temporal.Duration.from({ days: 40 });
const cursorKey = ["_fedpost", "cursor"] as const;
/** How many refused inboxes a warning names. */
const mostNamed = 20;
/** The pause before a handler that has thrown is called again, in milliseconds. */
const handlerPause = 5000;

/** What an activity's metadata has for the adapter: the key of its Sent. */
interface Metadata {
  fedify?: string;
}

interface Sent {
  activity: unknown;
  actors: Record<string, string[]>;
}

interface Waiting {
  message: OutboxMessage;
  options: EnqueueOptions | undefined;
  resolve: () => void;
  reject: (reason: unknown) => void;
}

/**
 * The outbox queue of a Fedify application. Messages of one `sendActivity` become one call of fedpost, also where an ordering
 * key makes Fedify enqueue them inbox by inbox; what is no outbox message goes to the application's own queue.
 */
export class FedpostQueue implements OwnQueue {
  readonly #fedpost: Fedpost;
  readonly #options: FedpostQueueOptions;
  /** The keys that fedpost has from this process, by their id. */
  readonly #keys: Map<string, { is: string; stored: Promise<unknown> }> = new Map();
  /** The latest call of fedpost that is under way, by ordering key. */
  readonly #latest: Map<string, Promise<void>> = new Map();
  /** What was enqueued in this turn of the event loop, by activity and then by options: each list is one call. */
  #waiting: Map<object, Map<string, Waiting[]>> = new Map();

  constructor(fedpost: Fedpost, options: FedpostQueueOptions) {
    this.#fedpost = fedpost;
    this.#options = options;
  }

  /** Whether the own queue retries. fedpost always does, and its messages never come back to Fedify. */
  get nativeRetrial(): boolean {
    return this.#options.queue.nativeRetrial === true;
  }

  /** Whether the own queue drops a message whose key it has seen. fedpost always does. */
  get nativeDeduplication(): boolean {
    return this.#options.queue.nativeDeduplication === true;
  }

  /**
   * Whether the own queue takes a batch as a whole. Of activities a batch with a deduplication key always is one call of
   * fedpost. Without a key, more than 50,000 inboxes are several, and repeating them sends nothing twice.
   */
  get atomicEnqueueMany(): boolean {
    return isAtomic(this.#options.queue);
  }

  // biome-ignore lint/suspicious/noExplicitAny: the interface has it
  async enqueue(message: any, options?: EnqueueOptions): Promise<void> {
    if (!isOutbox(message)) return this.#options.queue.enqueue(message, options);
    return new Promise((resolve, reject) => {
      // With an ordering key Fedify enqueues the messages of one activity one by one, all in the same turn.
      if (this.#waiting.size === 0) setTimeout(() => this.#flush(), 0);
      const waiting = { message, options, resolve, reject };
      const call = JSON.stringify([orderingKeyOf(waiting), options?.delay?.toString(), options?.deduplicationKey]);
      const calls = this.#waiting.get(message.activity) ?? new Map<string, Waiting[]>();
      this.#waiting.set(message.activity, calls);
      const group = calls.get(call);
      if (group) group.push(waiting);
      else calls.set(call, [waiting]);
    });
  }

  /** Throws before anything is enqueued where a batch with a deduplication key cannot be enqueued as a whole. */
  async enqueueMany(messages: readonly unknown[], options?: EnqueueOptions): Promise<void> {
    const { queue } = this.#options;
    const toSend = messages.filter(isOutbox);
    const others = messages.filter((m) => !isOutbox(m));
    if (options?.deduplicationKey != null && messages.length > 1) {
      const why =
        toSend.length > 0 && others.length > 0
          ? "activities to send and other messages go to two queues"
          : others.length > 0 && !isAtomic(queue)
            ? "the application's own queue has no enqueueMany that takes all messages or none"
            : new Set(toSend.map((m) => m.activity)).size > 1 || toSend.length > mostInboxes
              ? `a call of fedpost takes one activity and ${mostInboxes} inboxes`
              : undefined;
      if (why) throw new TypeError(`A batch of ${messages.length} messages with one deduplicationKey was refused, because ${why}: enqueue each with a key of its own.`);
    }
    await all([...handOver(queue, others, options), ...toSend.map((m) => this.enqueue(m, options))]);
  }

  /** Listens to the application's own queue, and follows fedpost's events. */
  async listen(handler: (message: unknown) => Promise<void> | void, options: MessageQueueListenOptions = {}): Promise<void> {
    await Promise.all([this.#options.queue.listen(handler, options), this.#follow(options.signal)]);
  }

  /** What waits in fedpost's queues, and in the application's own. What waits for a server that is down is not counted. */
  async getDepth(): Promise<MessageQueueDepth> {
    const [stats, own] = await Promise.all([this.#fedpost.call("getStats"), this.#options.queue.getDepth?.()]);
    let ready = own?.ready ?? own?.queued ?? 0;
    let delayed = own?.delayed ?? 0;
    for (const [name, depth] of Object.entries(stats.queues)) {
      if (name.startsWith("dead")) continue;
      ready += depth.visible;
      delayed += depth.delayed;
    }
    return { queued: ready + delayed, ready, delayed };
  }

  #flush(): void {
    const groups = [...this.#waiting.values()].flatMap((calls) => [...calls.values()]);
    this.#waiting = new Map();
    for (const group of groups) {
      this.#inOrder(group).then(
        () => group.forEach((w) => w.resolve()),
        (err) => group.forEach((w) => w.reject(err)),
      );
    }
  }

  /** Sends the activities of an ordering key one after the other. One that fedpost refuses does not stop the next. */
  #inOrder(group: Waiting[]): Promise<void> {
    const key = orderingKeyOf(group[0] as Waiting);
    if (key === undefined) return this.#send(group);
    const sent = (this.#latest.get(key) ?? Promise.resolve()).then(() => this.#send(group));
    const ended = sent
      .catch(() => {})
      .then(() => {
        if (this.#latest.get(key) === ended) this.#latest.delete(key);
      });
    this.#latest.set(key, ended);
    return sent;
  }

  /** Sends one activity to all of its inboxes. */
  async #send(group: Waiting[]): Promise<void> {
    const { message, options } = group[0] as Waiting;
    const key = signingKey(message);
    await this.#store(key.keyId, key.privateKey);
    const orderingKey = orderingKeyOf(group[0] as Waiting);
    const ordered = orderingKey === undefined ? {} : { orderingKey };
    const delay = options?.delay ? { delay: options.delay.total("millisecond") / 1000 } : {};
    const trace = Object.fromEntries(Object.entries(message.traceContext ?? {}).filter(([name]) => name === "traceparent" || name === "tracestate"));
    for (let at = 0; at < group.length; at += mostInboxes) {
      const part = group.slice(at, at + mostInboxes).map((w) => w.message);
      const inboxes = part.map((m) => m.inbox).sort();
      // A repeated sendActivity signs anew, so its bytes differ: its id and inboxes say that it is the same.
      const digest = await digestOf([message.activityId ?? JSON.stringify(message.activity), ...inboxes]);
      const actors = Object.fromEntries(part.filter((m) => m.actorIds?.length).map((m) => [m.inbox, m.actorIds as string[]]));
      const told = this.#options.onPermanentFailure !== undefined && Object.keys(actors).length > 0;
      const metadata: Metadata = told ? { fedify: digest } : {};
      const submission: Submission = {
        ...ordered,
        ...delay,
        activity: message.activity, // JSON.stringify writes it as Fedify would
        keyId: key.keyId,
        allowKeyOfOther: true, // Fedify has decided who signs: a forwarded activity is another's
        recipients: part.map((m) => ({ inbox: m.inbox, ...headersOf(m) })),
        deduplicationKey: await keyOf(group[0] as Waiting, digest),
        ...(told ? { metadata: { ...metadata } } : {}),
      };
      // Before the call: the process may end right after it, and fedpost reports events nevertheless.
      if (told) await this.#options.kv.set(["_fedpost", "sent", digest], { activity: message.activity, actors } satisfies Sent, { ttl: kept as never });
      await this.#hand(submission, key, trace);
    }
  }

  async #hand(submission: Submission, key: OutboxMessage["keys"][number], headers: Record<string, string>): Promise<void> {
    try {
      await this.#accepted(submission, headers);
    } catch (err) {
      if (!(err instanceof FedpostError && err.status === 400 && err.errors.some((e) => e.pointer === "#/keyId"))) throw err;
      this.#keys.delete(key.keyId); // somebody has deleted it in fedpost
      await this.#store(key.keyId, key.privateKey);
      await this.#accepted(submission, headers);
    }
  }

  /** Returns when fedpost has accepted the activity, now or before. */
  async #accepted(submission: Submission, headers: Record<string, string>): Promise<void> {
    try {
      warnOfRefused(submission, await this.#fedpost.send(submission, { headers }));
    } catch (err) {
      // The same activity to the same inboxes, with newer signatures: the first is on its way.
      if (!(err instanceof FedpostError && err.status === 422 && err.id)) throw err;
    }
  }

  /** Stores a signing key in fedpost, once for each process and key. */
  #store(id: string, jwk: JsonWebKey): Promise<unknown> {
    const is = JSON.stringify(jwk);
    const known = this.#keys.get(id);
    if (known?.is === is) return known.stored;
    const stored = this.#fedpost.call("putKey", { path: { id }, body: { privateKeyJwk: { ...jwk } } });
    this.#keys.set(id, { is, stored });
    stored.catch(() => {
      if (this.#keys.get(id)?.stored === stored) this.#keys.delete(id); // the next activity tries again
    });
    return stored;
  }

  /** Calls onPermanentFailure for inboxes that are gone, until the signal aborts. */
  async #follow(signal: AbortSignal | undefined): Promise<void> {
    const { kv, onPermanentFailure } = this.#options;
    if (!onPermanentFailure) return;
    while (!signal?.aborted) {
      try {
        const cursor = (await kv.get<string>(cursorKey)) ?? "";
        for await (const event of this.#fedpost.events(cursor, { types: ["recipient.gone"], ...(signal ? { signal } : {}) })) {
          await this.#failed(event, onPermanentFailure);
          await kv.set(cursorKey, event.cursor);
        }
      } catch (err) {
        console.error("fedpost: inboxes that are gone are not reported for now; it is tried again in 5 s:", err);
        await pause(handlerPause, signal);
      }
    }
  }

  async #failed(event: Event, told: NonNullable<FedpostQueueOptions["onPermanentFailure"]>): Promise<void> {
    const { fedify } = (event.metadata ?? {}) as Metadata;
    if (!event.inbox || typeof fedify !== "string") return;
    const sent = await this.#options.kv.get<Sent>(["_fedpost", "sent", fedify]);
    if (!sent) return; // of another application, or without actors
    const inbox = new URL(event.inbox);
    const statusCode = event.status ?? 410;
    await told({
      reason: "http",
      inbox,
      activity: await Activity.fromJsonLd(sent.activity),
      error: new SendActivityError(inbox, statusCode, event.reason ?? "", ""),
      statusCode,
      actorIds: (sent.actors[event.inbox] ?? []).map((id) => new URL(id)),
    });
  }
}

/** The key that the caller has given, apart from other applications' keys; else the digest. */
async function keyOf({ message, options }: Waiting, digest: string): Promise<string> {
  return options?.deduplicationKey == null ? digest : digestOf(["key", message.baseUrl ?? "", options.deduplicationKey]);
}

/** Names the inboxes that fedpost cannot send to. It has recorded them as failed, and sends to all others. */
function warnOfRefused(submission: Submission, accepted: Accepted): void {
  const { refused = [], refusedCount = refused.length } = accepted as { refused?: { inbox: string; why: string }[]; refusedCount?: number };
  if (refused.length === 0) return;
  const named = refused.slice(0, mostNamed).map(({ inbox, why }) => `${inbox} (${why})`);
  const more = refusedCount > named.length ? `, and ${refusedCount - named.length} more` : "";
  const id = "activity" in submission ? submission.activity["id"] : undefined;
  console.warn(`fedpost: the activity ${id} goes to no inbox of these, and to all others: ${named.join(", ")}${more}`);
}

function orderingKeyOf({ message, options }: Waiting): string | undefined {
  return (options?.orderingKey ?? message.orderingKey)?.split("\n", 1)[0];
}

/** Waits, or until a signal aborts. */
function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener("abort", end);
    if (signal?.aborted) end();
  });
}

/** The headers of a recipient's own: Collection-Synchronization, which the signature has to cover (FEP-8fcf). */
function headersOf(message: OutboxMessage): { headers?: { name: string; value: string; sign: boolean }[] } {
  const all = Object.entries(message.headers ?? {});
  if (all.length === 0) return {};
  return { headers: all.map(([name, value]) => ({ name, value, sign: name.toLowerCase() === "collection-synchronization" })) };
}
