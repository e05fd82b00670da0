// A Fedify application of two actors, a whole fedpost, and servers of the fediverse that verify.
export * from "../../typescript/test/world.js";
import { createFederation, InProcessMessageQueue, MemoryKvStore, exportJwk, generateCryptoKeyPair, importJwk, verifyRequest } from "@fedify/fedify";
import { Create, CryptographicKey, Note, Person } from "@fedify/vocab";

export const origin = "https://social.example";

export const create = (n, by = "frida") =>
  new Create({ id: new URL(`${origin}/notes/${n}/activity`), actor: new URL(`${origin}/users/${by}`), object: new Note({ id: new URL(`${origin}/notes/${n}`), content: "<p>Hello & ☃</p>" }) });

/** The keys of the actors, as an application has stored them. */
export async function makeKeys() {
  const keys = {};
  for (const name of ["frida", "gus"]) {
    const pair = await generateCryptoKeyPair("RSASSA-PKCS1-v1_5");
    keys[name] = { privateKey: await exportJwk(pair.privateKey), publicKey: await exportJwk(pair.publicKey) };
  }
  return keys;
}

/** A federation whose outbox is a queue. */
export function application(keys, outbox, kv = new MemoryKvStore()) {
  const federation = createFederation({
    kv,
    queue: { inbox: new InProcessMessageQueue({ pollInterval: { milliseconds: 20 } }), outbox },
    manuallyStartQueue: true,
    circuitBreaker: false,
    allowPrivateAddress: true,
    origin,
  });
  federation
    .setActorDispatcher("/users/{identifier}", async (ctx, identifier) => {
      if (!keys[identifier]) return null;
      const pairs = await ctx.getActorKeyPairs(identifier);
      return new Person({ id: ctx.getActorUri(identifier), preferredUsername: identifier, publicKeys: pairs.map((p) => p.cryptographicKey) });
    })
    .setKeyPairsDispatcher(async (_ctx, identifier) => [
      { privateKey: await importJwk(keys[identifier].privateKey, "private"), publicKey: await importJwk(keys[identifier].publicKey, "public") },
    ]);
  return federation;
}

/** Verifies the signature of a request, with the public halves of the keys. */
export async function verified(keys, req, body) {
  const request = new Request(new URL(req.url, `http://${req.headers.host}`), { method: req.method, headers: req.headers, body });
  const documentLoader = async (url) => {
    const name = /\/users\/(\w+)/.exec(url)[1];
    const key = new CryptographicKey({ id: new URL(url), owner: new URL(`${origin}/users/${name}`), publicKey: await importJwk(keys[name].publicKey, "public") });
    return { contextUrl: null, documentUrl: url, document: await key.toJsonLd({ format: "compact" }) };
  };
  return (await verifyRequest(request, { documentLoader, timeWindow: { hours: 1 } })) !== null;
}
