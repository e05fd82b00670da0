// How the peers on Node sign and post, as servers of the fediverse do it: the body and its
// digest are made once for an activity and travel in each job; connections are kept; libuv's
// threads sign.
import { createHash, createPrivateKey, sign } from "node:crypto";
import { promisify } from "node:util";
import { Agent, request } from "undici";

const signAsync = promisify(sign);

export function jobsOf({ activity, keyId, inboxes }) {
  const content = JSON.stringify(activity);
  const digest = `SHA-256=${createHash("sha256").update(content).digest("base64")}`;
  return inboxes.map((inbox) => ({ inbox, keyId, content, digest }));
}

// deliverer returns a function that delivers a job; pemOf(id) resolves to a key in PEM, and is
// asked once for each.
export function deliverer(pemOf) {
  const agent = new Agent({ connections: 8, pipelining: 1, keepAliveTimeout: 30_000 });
  const keys = new Map();
  async function keyOf(id) {
    let key = keys.get(id);
    if (!key) {
      key = createPrivateKey(await pemOf(id));
      keys.set(id, key);
    }
    return key;
  }
  return async function deliver({ inbox, keyId, content, digest }) {
    const url = new URL(inbox);
    const date = new Date().toUTCString();
    const key = await keyOf(keyId);
    const text = `(request-target): post ${url.pathname}\nhost: ${url.host}\ndate: ${date}\ndigest: ${digest}\ncontent-type: application/activity+json`;
    const rsa = key.asymmetricKeyType === "rsa";
    const signature = (await signAsync(rsa ? "sha256" : null, Buffer.from(text), key)).toString("base64");
    const { statusCode, body } = await request(url, {
      method: "POST",
      dispatcher: agent,
      body: content,
      headers: {
        date,
        digest,
        "content-type": "application/activity+json",
        signature: `keyId="${keyId}",algorithm="${rsa ? "rsa-sha256" : "hs2019"}",headers="(request-target) host date digest content-type",signature="${signature}"`,
      },
    });
    await body.dump();
    if (statusCode < 200 || statusCode > 299) throw new Error(`answered ${statusCode}`);
  };
}
