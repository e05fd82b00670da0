import type { components } from "./api.js";
import { FedpostError } from "./error.js";

type Event = components["schemas"]["Event"];

/** The headers of a request, as the Fetch API or as Node have them. */
export type RequestHeaders = Headers | Record<string, string | string[] | undefined>;

const tolerance = 300; // seconds, as Standard Webhooks recommends

/**
 * Checks the signature of a webhook (Standard Webhooks) and returns its events, one or a batch. Throws a FedpostError of
 * status 401 if fedpost has not signed it with the secret (`whsec_…`) within the last 5 minutes. An event may come twice, with
 * the same `id`.
 *
 * @param body the body as it came: a parsed and printed one has another signature.
 */
export async function verifyWebhook(secret: string, headers: RequestHeaders, body: string | Uint8Array): Promise<Event[]> {
  const raw = bytes(typeof secret === "string" ? secret.trim().replace(/^whsec_/, "") : "");
  if (!raw || raw.length === 0) throw new TypeError("the secret of a webhook is whsec_ and base64: is the setting that holds it empty?");
  const id = header(headers, "webhook-id");
  const timestamp = header(headers, "webhook-timestamp");
  if (!(Math.abs(Date.now() / 1000 - Number(timestamp || NaN)) <= tolerance)) throw refused("its time is missing, or more than 5 minutes away");
  const encoder = new TextEncoder();
  const payload = typeof body === "string" ? encoder.encode(body) : body;
  const head = encoder.encode(`${id}.${timestamp}.`);
  const signed = new Uint8Array(head.length + payload.length);
  signed.set(head);
  signed.set(payload, head.length);
  const key = await crypto.subtle.importKey("raw", raw, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
  for (const one of header(headers, "webhook-signature").split(" ")) {
    const [version, text = ""] = one.split(",", 2);
    const signature = bytes(text);
    // While a secret is replaced, each request has two signatures.
    if (version === "v1" && signature && (await crypto.subtle.verify("HMAC", key, signature, signed))) {
      return eventsOf(new TextDecoder().decode(payload));
    }
  }
  throw refused("no signature holds");
}

/** The events of a body that is signed. */
function eventsOf(text: string): Event[] {
  let got: unknown;
  try {
    got = JSON.parse(text);
  } catch {
    throw refused("it is not JSON");
  }
  if (typeof got !== "object" || got === null) throw refused("it has no event");
  if (!("events" in got)) return [got as Event];
  if (!Array.isArray(got.events)) throw refused("its events are no list");
  return got.events as Event[];
}

function refused(why: string): FedpostError {
  return new FedpostError({ status: 401, title: "Not a webhook of fedpost", detail: why });
}

function header(headers: RequestHeaders, name: string): string {
  if (headers instanceof Headers) return headers.get(name) ?? "";
  const value = Object.entries(headers).find(([given]) => given.toLowerCase() === name)?.[1];
  return Array.isArray(value) ? value.join(" ") : (value ?? "");
}

function bytes(base64: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  } catch {
    return undefined;
  }
}
