// A whole fedpost, and inboxes on loopback.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** FEDPOST, or what `npm test` of the workspace has built. */
const program = process.env.FEDPOST ?? fileURLToPath(new URL("../../../bin/fedpost", import.meta.url));
export const token = "only-for-this-test-0123456789";
export const keyId = "https://social.example/users/frida#main-key";

/** A folder that goes with the test. */
export function folder(t) {
  const dir = mkdtempSync(join(tmpdir(), "fedpost-"));
  t.after(() => rmSync(dir, { recursive: true, force: true, maxRetries: 5 }));
  return dir;
}

/** Where nobody else listens, who could take the port while fedpost is killed: Linux has all of 127.0.0.0/8. */
const own = process.platform === "linux" ? `127.${64 + ((process.pid >> 16) & 63)}.${(process.pid >> 8) & 255}.${process.pid & 255}` : "127.0.0.1";

/** Starts `fedpost up` on a folder, at a port of its own or a given one. */
export async function up(t, dir, listen = `${own}:0`) {
  const child = spawn(program, ["up", "--listen", listen, "--data", dir, "--allow-private"], {
    env: { ...process.env, FEDPOST_API_TOKEN: token, RETRY_FIRST_WAIT: "100ms" },
    stdio: ["ignore", "pipe", "ignore"],
  });
  t.after(() => child.kill("SIGKILL"));
  for await (const line of createInterface({ input: child.stdout })) {
    const url = /^fedpost listening on (http:\S+)/.exec(line)?.[1];
    if (url) {
      child.stdout.resume();
      return {
        url,
        async kill() {
          child.kill("SIGKILL");
          if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
        },
      };
    }
  }
  throw new Error(`${program} up ended: build it with go build -o bin/fedpost ./cmd/fedpost in the clone, or name another in FEDPOST`);
}

/** An HTTP server on loopback. */
export async function serve(t, handler) {
  const server = createServer(handler);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${server.address().port}`;
}

/** An address where nobody listens. */
export async function closed() {
  const server = createServer().listen(0, own);
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return `http://${own}:${port}`;
}

/** A server that answers each request with a status, and counts what it gets. */
export async function inbox(t, status) {
  const got = [];
  const url = await serve(t, (req, res) => {
    let body = "";
    req.on("data", (chunk) => (body += chunk)).on("end", () => {
      got.push(body);
      res.writeHead(status).end();
    });
  });
  return { url: `${url}/inbox`, got };
}

export function note(n) {
  return { "@context": "https://www.w3.org/ns/activitystreams", id: `https://social.example/notes/${n}/activity`, type: "Create", actor: "https://social.example/users/frida", object: { id: `https://social.example/notes/${n}`, type: "Note", content: "<p>Hello & goodbye ☃</p>" } };
}
