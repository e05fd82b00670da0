// A project of somebody else, in which the packed package is installed: what it may write, and what the compiler refuses.
import { type Accepted, Fedpost, FedpostError, type FeedEvent, verifyWebhook } from "@fedpost/client";

const fedpost = new Fedpost("http://127.0.0.1:1", { patience: 0 });
const sent: Promise<Accepted> = fedpost.send({ activity: { actor: "https://a.example" }, keyId: "k", recipients: ["https://b.example/inbox"] });
sent.catch((err: unknown) => console.log("no answer:", err instanceof FedpostError && err.status === 0));

export const paused = (): Promise<string> => fedpost.call("pauseServer", { path: { host: "a.example" }, body: { for: "PT1H" } }).then((s) => s.phase);
export const forgotten = (): Promise<undefined> => fedpost.call("forgetActivity", { path: { id: "x" } });
export const verified: typeof verifyWebhook = verifyWebhook;
export async function first(): Promise<FeedEvent | undefined> {
  for await (const event of fedpost.events("", { types: ["recipient.gone"] })) return event;
  for await (const server of fedpost.pages("listServers", "servers", { query: { phase: "gone" } })) console.log(server.phase);
  return undefined;
}

export async function refused(): Promise<void> {
  // @ts-expect-error no such operation
  await fedpost.call("explode");
  // @ts-expect-error its path needs an id
  await fedpost.call("getActivity", {});
  // @ts-expect-error no such type of event
  fedpost.events("", { types: ["recipient.happy"] });
}
