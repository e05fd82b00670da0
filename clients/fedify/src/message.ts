// The messages of Fedify's outbox, as Fedify 2.3 and 2.4 write them: it calls them opaque, so what is read of them stands here.

export interface OutboxMessage {
  type: "outbox";
  /** The origin of the application. */
  baseUrl?: string;
  keys: { keyId: string; privateKey: JsonWebKey }[];
  /** The JSON-LD document that is sent, with its proofs and signature. */
  activity: { actor?: unknown } & Record<string, unknown>;
  activityId?: string;
  inbox: string;
  actorIds?: string[];
  headers?: Record<string, string>;
  /** The key of sendActivity, and behind a line break the origin of the inbox. */
  orderingKey?: string;
  traceContext?: Record<string, string>;
}

export function isOutbox(message: unknown): message is OutboxMessage {
  const m = message as Partial<OutboxMessage> | null;
  return typeof m === "object" && m !== null && m.type === "outbox" && Array.isArray(m.keys) && typeof m.inbox === "string" && typeof m.activity === "object";
}

/** The key that signs requests: the first RSA key, as in Fedify; without one, the first. */
export function signingKey(message: OutboxMessage): OutboxMessage["keys"][number] {
  const key = message.keys.find((k) => k.privateKey.kty === "RSA") ?? message.keys[0];
  if (!key) throw new TypeError(`the activity ${message.activityId} has no key to sign its requests with`);
  return key;
}

/** A digest of texts, as a key of deduplication. */
export async function digestOf(texts: string[]): Promise<string> {
  const bytes = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(texts.join("\n")));
  return Array.from(new Uint8Array(bytes), (b) => b.toString(16).padStart(2, "0")).join("");
}
