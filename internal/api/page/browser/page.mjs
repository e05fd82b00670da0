// Goes through the operator's page in a real browser: every page in light, dark and at
// phone width, each looked at by axe-core, and every action.
//
// usage: node page.mjs LOOK_URL TOKEN FOLDER   (the test starts it)
import { chromium } from "playwright-core";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [, , base, token, folder] = process.argv;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const faults = [];
const fault = (where, what) => { faults.push(where + ": " + what); };
mkdirSync(folder, { recursive: true });

const browser = await chromium.launch({ executablePath: process.env.FEDPOST_CHROMIUM, args: ["--no-sandbox", "--disable-dev-shm-usage"] });

// open makes a window that reports everything that must not happen.
async function open(options, where) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.on("dialog", (d) => { fault(where, "a stranger's text ran: " + d.message()); d.dismiss(); });
  page.on("pageerror", (e) => fault(where, "script: " + e.message));
  page.on("console", (m) => { if (m.type() === "error" && !page.url().includes("nowhere.example")) fault(where, "console: " + m.text()); });
  page.on("request", (r) => { if (!r.url().startsWith(base)) fault(where, "asks elsewhere: " + r.url()); });
  return page;
}

async function signIn(page) {
  await page.goto(base + "/");
  await page.fill("#secret", token);
  await page.click("button");
  await page.waitForURL(base + "/");
}

// look holds a page against what everybody needs: a name, no sideways scroll, and axe.
async function look(page, where) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  if (wide > 0) fault(where, "scrolls sideways by " + wide + " px");
  // The policy forbids scripts from elsewhere, the checker's included: it runs in a world of its own.
  const session = await page.context().newCDPSession(page);
  const { frameTree } = await session.send("Page.getFrameTree");
  const { executionContextId } = await session.send("Page.createIsolatedWorld", { frameId: frameTree.frame.id, worldName: "axe" });
  await session.send("Runtime.evaluate", { expression: axe, contextId: executionContextId });
  const { result, exceptionDetails } = await session.send("Runtime.evaluate", {
    contextId: executionContextId, awaitPromise: true, returnByValue: true,
    expression: "axe.run(document, {resultTypes: ['violations']}).then((r) => r.violations.map((v) => v.id + ' (' + v.impact + '): ' + v.help + ' ' + v.nodes.slice(0, 3).map((n) => n.target.join(' ')).join(', ')))",
  });
  if (exceptionDetails) fault(where, "axe: " + JSON.stringify(exceptionDetails));
  for (const v of result.value ?? []) fault(where, "axe: " + v);
  await session.detach();
}

const encoded = encodeURIComponent;
const activity = process.env.FEDPOST_ACTIVITY;
const places = {
  overview: "/", servers: "/servers", "servers-all": "/servers?phase=all", "servers-none": "/servers?phase=healthy",
  server: "/servers/mastodon.down.example", "server-inbox": "/servers/" + encoded("inbox:https://pleroma.example/users/someone/inbox"),
  "server-paused": "/servers/limited.example", "server-blocked": "/servers/" + encoded("*.bad.example"), "server-sipher": "/servers/" + encoded("https://peer.example"),
  block: "/servers/mastodon.down.example/block", pause: "/servers/mastodon.down.example/pause", limit: "/servers/limited.example/limit",
  dead: "/dead", "dead-host": "/dead?host=hub.example", "dead-retry": "/dead/retry?host=hub.example",
  activities: "/activities", activity: "/activities/" + activity, cancel: "/activities/" + activity + "/cancel",
  error: "/servers/nowhere.example/check", done: "/servers/mastodon.down.example?done=check",
};

const looks = {
  light: { colorScheme: "light", viewport: { width: 1280, height: 900 } },
  dark: { colorScheme: "dark", viewport: { width: 1280, height: 900 } },
  phone: { colorScheme: "light", viewport: { width: 360, height: 740 }, deviceScaleFactor: 2 },
};

for (const [name, options] of Object.entries(looks)) {
  const page = await open(options, name);
  await page.goto(base + "/servers");
  if (!page.url().endsWith("/sign-in")) fault(name, "is not asked to sign in");
  await look(page, name + " sign-in");
  await page.screenshot({ path: `${folder}/sign-in-${name}.png`, fullPage: true });
  await signIn(page);
  for (const [place, path] of Object.entries(places)) {
    const where = name + " " + place;
    const answer = await page.goto(base + path);
    if (place !== "error" && answer.status() !== 200) fault(where, "status " + answer.status());
    await look(page, where);
    await page.screenshot({ path: `${folder}/${place}-${name}.png`, fullPage: true });
  }
  await page.context().close();
}

// Everything can be read and done without script, and with the keyboard.
{
  const page = await open({ javaScriptEnabled: false, viewport: { width: 1280, height: 900 } }, "no script");
  await signIn(page);
  if (!(await page.textContent("main")).includes("mastodon.down.example")) fault("no script", "nothing is shown");
  await page.goto(base + "/servers/mastodon.down.example");
  await page.click("text=Check now");
  await page.click("main button");
  if (!(await page.textContent("main")).includes("probed within a minute")) fault("no script", "the check is not confirmed: " + page.url());
  await page.context().close();
}
{
  const page = await open({ viewport: { width: 1280, height: 900 } }, "keyboard");
  await signIn(page);
  await page.keyboard.press("Tab");
  if (await page.evaluate(() => document.activeElement.className) !== "skip") fault("keyboard", "the first stop is not the skip link");
  await page.goto(base + "/servers/mastodon.down.example");
  const stops = [];
  for (let i = 0; i < 30; i++) {
    await page.keyboard.press("Tab");
    stops.push(await page.evaluate(() => document.activeElement.textContent.trim()));
    if (stops.at(-1) === "Block") break;
  }
  if (stops.at(-1) !== "Block") fault("keyboard", "no way to Block: " + stops.join(", "));
  await page.keyboard.press("Enter");
  await page.waitForURL(/block$/);
  await page.context().close();
}

await browser.close();
for (const f of faults) console.log(f);
process.exit(faults.length ? 1 : 0);
