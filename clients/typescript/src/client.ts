import type { components, operations } from "./api.js";
import { FedpostError } from "./error.js";
import { type Operation, routes } from "./routes.js";

type Schemas = components["schemas"];

/** The state of an activity: its counts, and a page of its recipients. */
export type Activity = Schemas["Activity"];
export type Accepted = Schemas["Accepted"];
export type AcceptedBatch = Schemas["AcceptedBatch"];
export type Batch = Schemas["Batch"];
export type Event = Schemas["Event"];
export type EventType = Schemas["EventType"];
export type Problem = Schemas["Problem"];
export type RecipientState = Schemas["RecipientState"];
export type Submission = Schemas["Submission"];

/** An event of the feed, and the cursor to continue at. */
export type FeedEvent = Event & {
  /**
   * Where `events` continues without losing an event. Only the last event of a page has the cursor after the page: from the
   * cursor of an earlier one, the events of the page come again, with the same `id`.
   */
  cursor: string;
};

type Parameters<O extends Operation> = operations[O] extends { parameters: infer P } ? P : never;
type Part<P, K extends string> = P extends { [k in K]?: infer T } ? Exclude<T, undefined> : never;
type Body<O extends Operation> = operations[O] extends { requestBody?: { content: { "application/json": infer B } } | undefined } ? B : never;
type Absent<T> = [T] extends [never] ? true : false;

/** What an operation takes: the parameters of its path, its query, and its body. */
export type Input<O extends Operation> = (Absent<Part<Parameters<O>, "path">> extends true ? { path?: never } : { path: Part<Parameters<O>, "path"> }) &
  (Absent<Part<Parameters<O>, "query">> extends true ? { query?: never } : { query?: Part<Parameters<O>, "query"> }) &
  (Absent<Body<O>> extends true ? { body?: never } : { body?: Body<O> });

type Content<R> = R extends { content: { "application/json": infer T } } ? T : undefined;

/** What an operation answers. */
export type Answer<O extends Operation> = operations[O] extends { responses: infer R }
  ? { [S in keyof R]: S extends 200 | 201 | 202 | 204 ? Content<R[S]> : never }[keyof R]
  : never;

export interface Options {
  /** Sent as Bearer token. Space around it is dropped. */
  token?: string;
  /** For how many milliseconds a call that fails is repeated, if that is safe: 30,000 if absent. 0: not at all. */
  patience?: number;
  /** Makes the requests, for example signed for AWS; the global one if absent. It must not follow redirects. */
  fetch?: typeof fetch;
}

export interface CallOptions {
  signal?: AbortSignal;
  /** Further headers of the request, such as `traceparent`. */
  headers?: Record<string, string>;
}

const firstPause = 200;
const longestPause = 10_000;
/** How long one request waits for an event, in seconds. */
const longPoll = 20;
/** In milliseconds: a server that answers without events sooner than this has not waited. */
const notWaited = 2000;
/**
 * How many pages without an event, in a row and each with more behind it, are asked for without a pause: a feed of rare
 * types has some, a faulty server has them without end.
 */
const manyEmpty = 1000;
/** The time limit of a request, in milliseconds: longer than the long poll. */
const timeout = 60_000;
/** The most bytes that are read of an answer. The largest answer of fedpost is a page of a few megabytes. */
const maxAnswer = 64 << 20;
/** The most bytes that are read of a refusal. */
const maxRefusal = 1 << 20;
/** How many pages of a list in a row may be without an entry. One that fedpost has searched in vain stands for 2,000 activities. */
const mostEmpty = 10_000;

/**
 * A client of one fedpost. A call that is safe to repeat is repeated while nobody answers, or the answer is 429 or 5xx:
 * what reads, what sets a state, and `send` and `sendMany`, which give their activity a deduplication key if it has none.
 * `Retry-After` is obeyed, up to 5 minutes. Other calls are repeated only after a 429. What fedpost refuses is thrown as
 * FedpostError. A redirect is not followed: it would take a token or a private key to another server.
 */
export class Fedpost {
  readonly #base: string;
  readonly #token: string | undefined;
  readonly #patience: number;
  readonly #fetch: typeof fetch;
  /** Whether fedpost has ever answered: from then on a name that is unknown is taken for a restart. */
  #answered = false;

  /**
   * Throws a TypeError, which shows neither password nor token, where the address or the token is invalid.
   *
   * @param address such as `http://127.0.0.1:8080`
   */
  constructor(address: string | URL, options: Options = {}) {
    let url: URL | undefined;
    try {
      url = new URL(address);
    } catch {
      // said below
    }
    if (url ? url.username || url.password : String(address).includes("@")) {
      throw new TypeError("the address of fedpost has a user name or a password: leave them out, and give the token as the option token");
    }
    if (!url || !/^https?:$/.test(url.protocol) || url.search || url.hash) {
      throw new TypeError(`${JSON.stringify(String(address))} is no address of fedpost: give one such as http://127.0.0.1:8080`);
    }
    this.#base = url.href.replace(/\/+$/, "");
    this.#token = options.token?.trim(); // a file ends in a line break
    if (this.#token && !/^[ -~]*$/.test(this.#token)) {
      throw new TypeError("the token of fedpost has a line break or another character that is not printable ASCII");
    }
    this.#patience = options.patience ?? 30_000;
    this.#fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
  }

  /** Makes one call, of any operation of the API by its name in openapi.yaml. */
  async call<O extends Operation>(operation: O, input?: Input<O>, options: CallOptions = {}): Promise<Answer<O>> {
    return this.#repeated(operation, input as Call, options, this.#patience);
  }

  /** Submits one activity. Once fedpost has accepted it, it is delivered once, even if its answer is lost. */
  async send(submission: Submission, options: CallOptions = {}): Promise<Accepted> {
    return having("id", "string", await this.#repeated("sendActivity", { body: submission, key: this.#key(submission) }, options, this.#patience));
  }

  /** Submits up to 100 activities: all of them or none. */
  async sendMany(batch: Batch | Submission[], options: CallOptions = {}): Promise<AcceptedBatch> {
    const body = Array.isArray(batch) ? { activities: batch } : batch;
    return having("activities", "array", await this.#repeated("sendActivities", { body, key: this.#key(body) }, options, this.#patience));
  }

  /** A deduplication key for a call that has none, so that it may be repeated. */
  #key(body: { deduplicationKey?: string }): string | undefined {
    return body.deduplicationKey === undefined && this.#patience > 0 ? crypto.randomUUID() : undefined;
  }

  /** The state of an activity, with the first 100 of its recipients. */
  async get(id: string, options: CallOptions = {}): Promise<Activity> {
    return having("id", "string", await this.call("getActivity", { path: { id } }, options));
  }

  /** The recipients of an activity, page by page. */
  recipients(id: string, query: { state?: RecipientState["state"]; host?: string } = {}, options: CallOptions = {}): AsyncGenerator<RecipientState, void, void> {
    return this.pages("getActivity", "recipients", { path: { id }, query }, options);
  }

  /**
   * Waits until all recipients of an activity are finished, and returns the counts. An application that sends much
   * follows `events` instead, with `notify: true`.
   */
  async waitUntilDone(id: string, options: CallOptions = {}): Promise<Activity> {
    for (let pause = 100; ; pause = Math.min(2 * pause, 5000)) {
      const activity = having("counts", "object", await this.call("getActivity", { path: { id }, query: { limit: 1 } }, options));
      const { queued = 0, retrying = 0, parked = 0 } = activity.counts;
      // The status says whether a state that this client does not know is final.
      const ended = activity.status === "done" || activity.status === "cancelled";
      if (ended && Object.keys(activity.counts).length > 0 && queued + retrying + parked === 0) return activity;
      await sleep(pause, options.signal);
    }
  }

  /**
   * The entries of a list, such as `pages("listServers", "servers", { query: { phase: "gone" } })`. If they never end, the
   * caller has to stop.
   */
  async *pages<O extends Operation, F extends keyof Answer<O> & string>(operation: O, field: F, input?: Input<O>, options: CallOptions = {}): AsyncGenerator<Answer<O>[F] extends (infer T)[] ? T : never, void, void> {
    const call = { ...(input as Call | undefined), query: { ...(input as Call | undefined)?.query } };
    // A cursor that comes again is found by Brent's algorithm: the cursor of page 1, 2, 4, 8 and so on is kept.
    let [kept, keep, empty] = ["", 1, 0];
    for (let n = 1; ; n++) {
      const page = having(field, "array", await this.#repeated(operation, call, options, this.#patience));
      yield* page[field] as never[];
      const { nextCursor } = page as { nextCursor?: string };
      if (!nextCursor) return;
      if (nextCursor === kept) throw notFedpost(200, `its pages repeat: ${quoted(nextCursor)} comes twice as nextCursor`);
      empty = (page[field] as never[]).length > 0 ? 0 : empty + 1;
      if (empty === mostEmpty) throw notFedpost(200, `${empty} pages in a row have no entry`);
      if (n === keep) [kept, keep] = [nextCursor, 2 * keep];
      call.query["cursor"] = nextCursor;
    }
  }

  /**
   * Follows the feed of events after a cursor: the `cursor` of an event that was handled; "" for the oldest that is kept
   * (30 days), or "now". It waits for new events and, once fedpost has answered this client, for fedpost itself. It throws
   * if there is no first answer within the client's `patience`, if fedpost refuses the request, and if the cursor does not
   * move on. It ends when `signal` aborts.
   */
  async *events(after: string, options: CallOptions & { types?: EventType[] } = {}): AsyncGenerator<FeedEvent, void, void> {
    const query: { after: string; type?: string; wait?: number } = { after };
    if (options.types?.length) query.type = options.types.join(",");
    let empty = 0;
    for (let pause = firstPause; ; ) {
      const asked = Date.now();
      let wait = 0;
      try {
        const page = having("next", "string", having("events", "array", await this.#repeated("listEvents", { query }, options, this.#answered ? 0 : this.#patience)));
        if (page.next === "" || (page.next === query.after && (page.more || page.events.length > 0))) {
          throw notFedpost(200, `the feed does not move on: next is ${quoted(page.next)} again`);
        }
        if (!page.events.every((event) => typeof event === "object" && event !== null)) throw notFedpost(200, "its events are none");
        pause = firstPause;
        for (const [i, event] of page.events.entries()) {
          yield { ...event, cursor: i === page.events.length - 1 ? page.next : query.after };
        }
        // A server with too many readers who wait, or one that stops, answers at once.
        if (query.wait && page.events.length === 0 && !page.more && (page.retryAfter || Date.now() - asked < notWaited)) {
          wait = Math.max(notWaited, 1000 * upToLongest(Number(page.retryAfter ?? 0)));
        }
        empty = page.events.length > 0 || !page.more ? 0 : empty + 1;
        if (empty > manyEmpty) wait = firstPause;
        query.after = page.next;
        query.wait = longPoll;
      } catch (err) {
        if (options.signal?.aborted) return;
        wait = this.#pauseAfter(err, pause, true) ?? -1;
        if (wait < 0 || (!this.#answered && err instanceof FedpostError && err.status === 0)) throw err;
        pause = Math.min(2 * pause, longestPause);
      }
      if (wait > 0) {
        try {
          await sleep(wait, options.signal);
        } catch {
          return;
        }
      }
    }
  }

  /** Makes a call until it succeeds or must not be repeated any more. */
  async #repeated<O extends Operation>(operation: O, call: Call | undefined, options: CallOptions, patience: number): Promise<Answer<O>> {
    const route = routes[operation];
    if (!route) throw new TypeError(`the API of fedpost has no operation ${JSON.stringify(operation)}`);
    const [method, path, harmless] = route;
    const until = Date.now() + patience;
    for (let pause = firstPause; ; pause = Math.min(2 * pause, longestPause)) {
      try {
        return (await this.#once(method, path, call ?? {}, options)) as Answer<O>;
      } catch (err) {
        const wait = options.signal?.aborted ? undefined : this.#pauseAfter(err, pause, harmless);
        if (wait === undefined || Date.now() + wait > until) throw err;
        await sleep(wait, options.signal);
      }
    }
  }

  async #once(method: string, path: string, call: Call, { signal, headers: further }: CallOptions): Promise<unknown> {
    const filled = path.replace(/{(\w+)}/g, (_, name: string) => {
      const value = call.path?.[name];
      // fetch drops the segments . and .. of a path: the call would be another.
      if (value === undefined || /^\.{0,2}$/.test(String(value))) throw new TypeError(`${method} ${path} needs its ${name}, and got ${JSON.stringify(value)}`);
      return encodeURIComponent(String(value));
    });
    const url = new URL(this.#base + filled);
    for (const [name, value] of Object.entries(call.query ?? {})) {
      if (value !== undefined && value !== "") url.searchParams.set(name, String(value));
    }
    const headers: Record<string, string> = { ...further };
    if (this.#token) headers["Authorization"] = `Bearer ${this.#token}`;
    if (call.key) headers["Idempotency-Key"] = JSON.stringify(call.key); // a string of RFC 9651
    const init: RequestInit = { method, headers, redirect: "manual" };
    if (call.body !== undefined) {
      headers["Content-Type"] = "application/json";
      init.body = JSON.stringify(call.body);
    }
    let response: Response, text: string;
    // AbortSignal.timeout would hold 1.3 KB for a minute after each request.
    const stop = new AbortController();
    const abort = (): void => stop.abort(signal?.reason);
    if (signal?.aborted) abort();
    signal?.addEventListener("abort", abort);
    const timer = setTimeout(() => stop.abort(new DOMException(`no whole answer within ${timeout / 1000} s`, "TimeoutError")), timeout);
    try {
      response = await this.#fetch(url, { ...init, signal: stop.signal });
      if (response.redirected || response.type === "opaqueredirect" || (response.status >= 300 && response.status < 400)) {
        void response.body?.cancel().catch(() => {});
        throw notFedpost(response.status || 302, `it points to ${target(response, url)}, which is not followed: give the address of fedpost itself`);
      }
      text = await textOf(response);
    } catch (err) {
      if (signal?.aborted) throw signal.reason;
      if (err instanceof FedpostError) throw err;
      throw new FedpostError({ status: 0, title: `No answer from fedpost at ${this.#base}`, detail: reason(err) }, undefined, err);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    }
    let answer: unknown;
    try {
      answer = text === "" && response.status === 204 ? undefined : JSON.parse(text);
    } catch {
      const kind = response.headers.get("content-type") ?? "";
      if (response.ok) throw notFedpost(response.status, `${kind || "an answer"} that is not JSON: is the address right?`);
      answer = { detail: kind.startsWith("text/html") ? "text/html, which is not from fedpost: is the address right?" : text.slice(0, 300).trim() };
    }
    if (response.ok) {
      this.#answered = true;
      return answer;
    }
    throw new FedpostError({ title: response.statusText || `HTTP ${response.status}`, ...problemOf(answer), status: response.status }, retryAfter(response));
  }

  /** How long to wait before a call that failed is made again, in milliseconds; undefined: it is not. */
  #pauseAfter(err: unknown, pause: number, harmless: boolean): number | undefined {
    pause = pause / 2 + (Math.random() * pause) / 2; // so that callers that failed together do not retry together
    if (!(err instanceof FedpostError)) return undefined;
    if (err.status === 0 && willBeTheSame(err.detail ?? "", this.#answered)) return undefined;
    const inProgress = err.status === 409 && err.retryAfter !== undefined;
    if (err.status === 429 || (harmless && (err.status === 0 || err.status >= 500 || inProgress))) return Math.max(1000 * (err.retryAfter ?? 0), pause);
    return undefined;
  }
}

interface Call {
  path?: Record<string, unknown>;
  query?: Record<string, unknown>;
  body?: unknown;
  key?: string | undefined;
}

const notFedpost = (status: number, detail: string): FedpostError => new FedpostError({ status, title: "Not an answer of fedpost", detail });

/** The text of an answer, up to a bound. A longer refusal is cut there. */
async function textOf(response: Response): Promise<string> {
  const most = response.ok ? maxAnswer : maxRefusal;
  const decoder = new TextDecoder();
  const reader = response.body?.getReader();
  let text = "";
  for (let size = 0; reader; ) {
    try {
      const { done, value } = await reader.read();
      if (done) break;
      size += value.length;
      text += decoder.decode(value, { stream: true });
    } catch (err) {
      if (response.ok) throw err;
      break;
    }
    if (size > most) {
      void reader.cancel().catch(() => {});
      if (response.ok) throw notFedpost(response.status, `over ${maxAnswer} bytes`);
      break;
    }
  }
  return text + decoder.decode();
}

/** Where a redirect points, without passwords. */
function target(response: Response, from: URL): string {
  const location = response.headers.get("location");
  if (!location) return "another address";
  try {
    const to = new URL(location, from);
    return JSON.stringify(`${to.protocol}//${to.host}${to.pathname.slice(0, 300)}`);
  } catch {
    return "no address";
  }
}

/** The members of a problem document that have the right type. */
function problemOf(answer: unknown): Partial<Problem> {
  const got = (typeof answer === "object" && answer !== null ? answer : {}) as Record<string, unknown>;
  const texts = ["type", "title", "detail", "id", "requestId"].filter((name) => typeof got[name] === "string").map((name) => [name, got[name]]);
  const errors = Array.isArray(got["errors"]) ? got["errors"].filter((e) => typeof e?.pointer === "string" && typeof e?.detail === "string") : [];
  return { ...Object.fromEntries(texts), errors };
}

/** The most seconds that Retry-After is obeyed: no answer may stop a caller for a year. */
const longestRetryAfter = 300;

function upToLongest(seconds: number): number {
  return seconds > 0 ? Math.min(seconds, longestRetryAfter) : 0;
}

/** How many seconds to wait by Retry-After, a number or a date; undefined if it is neither. */
function retryAfter(response: Response): number | undefined {
  const header = response.headers.get("retry-after") ?? "";
  const seconds = /^\d+$/.test(header) ? Number(header) : (Date.parse(header) - Date.now()) / 1000;
  return upToLongest(seconds) || undefined;
}

/** Returns an answer that has the member that each such answer of fedpost has, and throws for any other. */
function having<T>(member: string, type: "string" | "array" | "object", answer: T): T {
  const value = typeof answer === "object" && answer !== null ? (answer as Record<string, unknown>)[member] : undefined;
  if (Array.isArray(value) ? type === "array" : value !== null && typeof value === type) return answer;
  throw notFedpost(200, `it has no ${JSON.stringify(member)}: is the address right, and this client as new as fedpost?`);
}

/** Why a request failed: fetch has it in the cause of its error, or in the error itself (Bun). */
function reason(err: unknown): string {
  const cause = err instanceof Error && err.cause instanceof Error ? err.cause : err;
  const { code, message } = cause as { code?: string; message?: string };
  if (code === "ERR_SSL_WRONG_VERSION_NUMBER" || /TLS handshake failed|InvalidContentType/.test(message ?? "")) return "it does not speak TLS: is it plain HTTP, and the address to begin with http://?";
  // Deno begins with the whole address.
  return cause instanceof Error ? message?.replace(/^error sending request .*?: client error \(\w+\): /, "") || code || cause.name : String(cause);
}

/** Whether a repeated request would fail the same way. The name of a container may be missing during a restart. */
function willBeTheSame(detail: string, answered: boolean): boolean {
  return /certificate|does not speak TLS/i.test(detail) || (!answered && /ENOTFOUND|not known/.test(detail));
}

/** A text from an answer, made fit for an error. */
const quoted = (text: string): string => JSON.stringify(text.slice(0, 100));

function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}
