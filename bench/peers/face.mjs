// What `fedpost bench --server` needs of a program that it measures: the line that says
// where it listens, and of fedpost's API the calls that make a key and submit an
// activity. What a peer does behind them is its own.
import { generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";

async function read(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return JSON.parse(Buffer.concat(parts).toString("utf8"));
}

function answer(response, status, value) {
  const text = JSON.stringify(value);
  response.writeHead(status, { "content-type": "application/json", "content-length": Buffer.byteLength(text) });
  response.end(text);
}

// serve answers until the process is told to stop. peer.key(id, type, privatePem) keeps a
// key; peer.submit({ activity, keyId, inboxes }) returns when the queue has the activity;
// peer.stop() ends what the peer has started.
export async function serve(peer) {
  let accepted = 0;
  async function handle(request, response) {
    if (request.method === "DELETE") return answer(response, 200, {});
    const body = await read(request);
    if (request.url === "/v1/keys") {
      const rsa = { modulusLength: 2048 };
      const pair = body.type === "rsa" ? generateKeyPairSync("rsa", rsa) : generateKeyPairSync("ed25519");
      const privatePem = pair.privateKey.export({ type: "pkcs8", format: "pem" });
      await peer.key(body.id, body.type, privatePem);
      return answer(response, 201, { id: body.id, type: body.type, publicKeyPem: pair.publicKey.export({ type: "spki", format: "pem" }) });
    }
    const inboxes = body.recipients.map((r) => (typeof r === "string" ? r : r.inbox));
    await peer.submit({ activity: body.activity, keyId: body.keyId, inboxes });
    accepted += 1;
    return answer(response, 202, { id: String(accepted), status: "queued", recipients: inboxes.length });
  }
  const server = createServer((request, response) => {
    handle(request, response).catch((error) => {
      console.error(error);
      answer(response, 500, { title: String(error) });
    });
  });
  async function stop() {
    server.close();
    server.closeAllConnections();
    await peer.stop();
    process.exit(0);
  }
  process.once("SIGINT", stop);
  process.once("SIGTERM", stop);
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  console.log(`fedpost listening on http://127.0.0.1:${server.address().port}`);
}
