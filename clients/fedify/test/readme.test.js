import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import assert from "node:assert/strict";
import { test } from "node:test";
import { folder, inbox, token, up } from "./world.js";

test("the program of README.md delivers", async (t) => {
  const [, program] = /```js\n([^]*?)```/.exec(readFileSync(new URL("../README.md", import.meta.url), "utf8"));
  const { url } = await up(t, folder(t));
  const mo = await inbox(t, 202);
  const text = program.replaceAll("http://127.0.0.1:8080", url).replaceAll("http://127.0.0.1:8090", new URL(mo.url).origin);
  const child = spawn(process.execPath, ["--input-type=module", "--eval", text], { cwd: new URL("..", import.meta.url), env: { ...process.env, FEDPOST_APP_TOKEN: token }, stdio: ["ignore", "ignore", "pipe"] });
  t.after(() => child.kill("SIGKILL"));
  let errors = "";
  child.stderr.on("data", (text) => (errors += text));
  for (let n = 0; mo.got.length === 0 && child.exitCode === null && n < 3000; n++) await new Promise((r) => setTimeout(r, 20));
  assert.equal(mo.got.length, 1, errors);
  assert.equal(JSON.parse(mo.got[0]).type, "Like");
});
