// Goes through the operator's page in a real browser: every page in light, dark and at
// phone width, each looked at by axe-core, and every action.
//
// usage: node page.mjs URL TOKEN [FOLDER for pictures]   (the test starts it)
import { chromium } from "playwright-core";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [, , base, token, folder] = process.argv;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const faults = [];
let quiet = false; // errors on the console are expected
const fault = (where, what) => { faults.push(where + ": " + what); };
if (folder) mkdirSync(folder, { recursive: true });

const browser = await chromium.launch({ executablePath: process.env.FEDPOST_CHROMIUM, args: ["--no-sandbox", "--disable-dev-shm-usage"] });

// open makes a window that reports everything that must not happen.
async function open(options, where) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.on("dialog", (d) => { fault(where, "a stranger's text ran: " + d.message()); d.dismiss(); });
  page.on("pageerror", (e) => fault(where, "script: " + e.message));
  page.on("console", (m) => { if (m.type() === "error" && !quiet && !page.url().includes("nowhere.example")) fault(where, "console: " + m.text()); });
  page.on("request", (r) => { if (!r.url().startsWith(base)) fault(where, "asks elsewhere: " + r.url()); });
  return page;
}

async function signIn(page) {
  await page.goto(base + "/");
  await page.fill("#secret", token);
  await page.click("button");
  await page.waitForURL(base + "/");
}

// look holds a page against what everybody needs: no sideways scroll on a phone, and what
// axe-core asks for, in light and dark. Whoever set FEDPOST_SHOTS gets pictures.
async function look(page, place) {
  // The policy forbids scripts from elsewhere, the checker's included: it runs in a world
  // of its own.
  const session = await page.context().newCDPSession(page);
  const { frameTree } = await session.send("Page.getFrameTree");
  const { executionContextId } = await session.send("Page.createIsolatedWorld", { frameId: frameTree.frame.id, worldName: "axe" });
  const run = async (expression) => {
    const { result, exceptionDetails } = await session.send("Runtime.evaluate", { contextId: executionContextId, awaitPromise: true, returnByValue: true, expression });
    if (exceptionDetails) fault(place, "axe: " + JSON.stringify(exceptionDetails));
    return result.value;
  };
  await run(axe);
  const words = "r.violations.map((v) => v.id + ' (' + v.impact + '): ' + v.help + ' ' + v.nodes.slice(0, 3).map((n) => n.target.join(' ')).join(', '))";
  for (const [name, size, colorScheme, rules] of [
    ["light", wide, "light", "{resultTypes: ['violations']}"],
    ["dark", wide, "dark", "{resultTypes: ['violations'], runOnly: ['color-contrast']}"],
    ["phone", phone, "light", "{resultTypes: ['violations'], runOnly: ['target-size', 'link-name', 'button-name']}"],
  ]) {
    await page.setViewportSize(size);
    await page.emulateMedia({ colorScheme });
    const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    if (over > 0) fault(place + " " + name, "scrolls sideways by " + over + " px");
    const found = await run("axe.run(document, " + rules + ").then((r) => ({passed: r.passes.length, faults: " + words + "}))");
    if (!found?.passed) fault(place + " " + name, "axe has looked at nothing");
    for (const v of found?.faults ?? []) fault(place + " " + name, "axe: " + v);
    if (folder) await page.screenshot({ path: `${folder}/${place}-${name}.png`, fullPage: true });
  }
  await page.setViewportSize(wide);
  await session.detach();
}

const wide = { width: 1280, height: 900 }, phone = { width: 360, height: 740 };
const encoded = encodeURIComponent;
const activity = process.env.FEDPOST_ACTIVITY;
const places = {
  overview: "/", servers: "/servers", "servers-all": "/servers?phase=all", "servers-waiting": "/servers?phase=waiting",
  server: "/servers/mastodon.down.example", "server-inbox": "/servers/" + encoded("inbox:https://pleroma.example/users/someone/inbox"),
  "server-paused": "/servers/limited.example", "server-blocked": "/servers/" + encoded("*.bad.example"), "server-sipher": "/servers/" + encoded("https://peer.example"),
  block: "/servers/mastodon.down.example/block", pause: "/servers/mastodon.down.example/pause", limit: "/servers/limited.example/limit",
  retry: "/activities/" + activity + "/retry", dead: "/dead", "dead-host": "/dead?host=hub.example", "dead-retry": "/dead/retry?host=hub.example",
  events: "/events", keys: "/keys", "key-new": "/keys/new", webhooks: "/webhooks", "webhook-new": "/webhooks/new", "webhook-change": "/webhooks/pager/change", activities: "/activities", activity: "/activities/" + activity, cancel: "/activities/" + activity + "/cancel",
  found: "/activities?state=dead", "activity-parked": "/activities/" + activity + "?state=parked", error: "/servers/nowhere.example/check", done: "/servers/mastodon.down.example?done=check",
};

{
  const page = await open({ viewport: wide }, "pages");
  await page.goto(base + "/servers");
  if (!page.url().endsWith("/sign-in")) fault("sign-in", "is not asked to sign in");
  await look(page, "sign-in");
  await signIn(page);
  for (const [place, path] of Object.entries(places)) {
    const answer = await page.goto(base + path);
    if (place !== "error" && answer.status() !== 200) fault(place, "status " + answer.status());
    await look(page, place);
  }
  await page.context().close();
}

// Everything can be read and done without script, and with the keyboard.
{
  const page = await open({ javaScriptEnabled: false, viewport: wide }, "no script");
  await signIn(page);
  if (!(await page.textContent("main")).includes("mastodon.down.example")) fault("no script", "nothing is shown");
  await page.goto(base + "/servers/mastodon.down.example");
  await page.click("text=Check now");
  await page.click("main button");
  if (!(await page.textContent("main")).includes("checked within a minute")) fault("no script", "the check is not confirmed: " + page.url());
  await page.context().close();
}
{
  const page = await open({ viewport: wide }, "keyboard");
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

// Every action: from the page that offers it, through the question, to what is said then.
{
  const page = await open({ viewport: wide }, "actions");
  await signIn(page);
  const down = "/servers/mastodon.down.example";
  for (const [from, button, fill, yes, says] of [
    [down, "Block", async () => { await page.check("[name=subdomains]"); await page.fill("[name=reason]", "abuse"); }, "Block", "The server is blocked."],
    ["/servers/" + encoded("*.bad.example"), "Unblock", null, "Unblock", "no longer blocked"],
    [down, "Pause", async () => page.selectOption("[name=for]", { label: "12 hours" }), "Pause", "they wait until"],
    [down, "Resume", null, "Resume", "released step by step"],
    [down, "Check now", null, "Check", "checked within a minute"],
    [down, "Limit rate", async () => page.fill("[name=perMinute]", "60"), "Set the limit", "The rate limit is set."],
    ["/dead?host=hub.example", "Retry all for this server", null, "Retry", "are retried"],
    ["/dead?host=hub.example", "Retry all, refused ones too", async () => { if (!await page.isChecked("[name=failed]")) throw new Error("not ticked"); }, "Retry", "are retried"],
    ["/dead?host=hub.example", "Drop all for this server", null, "Drop for good", "are dropped"],
    ["/servers/gone.example", "Delete record", null, "Delete", "record is deleted"],
    ["/keys", "Delete https://social.example/users/frida#main-key", null, "Delete it for good", "The key is deleted"],
    ["/keys", "Create a key", async () => page.fill("#f-id", "https://social.example/users/frida#main-key"), "Create the key", "The key is created"],
    ["/webhooks", "Test pager", null, "Send it", "what became of it"],
    ["/webhooks", "Change app", async () => page.check("[value='server.gone']"), "Change it", "is changed"],
    ["/webhooks", "Delete old", null, "Delete it", "is deleted"],
    ["/activities/" + activity, "Retry", null, "Retry", "are retried"],
    ["/activities/" + activity, "Delete from fedpost", null, "Delete it for good", "The activity is deleted from fedpost"],
    ["/activities/" + activity, "Cancel", null, "Cancel the activity", "The activity is cancelled"],
  ]) {
    await page.goto(base + from);
    await page.getByRole("link", { name: button, exact: true }).click();
    await page.getByRole("link", { name: "Do nothing" }).waitFor();
    if (fill) await fill();
    await page.getByRole("button", { name: yes, exact: true }).click();
    const said = await page.locator("[role=status]").textContent({ timeout: 5000 }).catch(() => "nothing");
    if (!said.includes(says)) fault(button, "says " + said);
  }
  await page.goto(base + down);
  await page.getByRole("link", { name: "Block", exact: true }).click();
  await page.getByRole("link", { name: "Do nothing" }).click();
  if (page.url() !== base + down) fault("do nothing", "leads to " + page.url());
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.waitForURL(/sign-in$/);
  await page.context().close();
}

// New events appear by themselves.
{
  const page = await open({ viewport: wide }, "events");
  await signIn(page);
  await page.goto(base + "/events?about=gone");
  await page.getByText("appear by themselves").waitFor({ timeout: 5000 }).catch(() => fault("events", "there is no stream"));
  await page.getByText("streamed.example").waitFor({ timeout: 5000 }).catch(() => fault("events", "a new event does not appear"));
  const first = await page.locator("#events tbody tr").first().textContent();
  if (!first.includes("streamed.example")) fault("events", "the newest is not first: " + first);
  await page.context().close();
}

// An open page renews itself, leaves a reader in peace, and says when it is old.
{
  const page = await open({ viewport: wide }, "renewal");
  await page.clock.install();
  await signIn(page);
  const heading = () => page.locator("h1").textContent();
  const change = () => page.evaluate(() => { document.querySelector("h1").textContent = "old"; });
  const renewed = () => page.waitForFunction(() => document.querySelector("h1").textContent !== "old", null, { timeout: 5000 }).then(() => true, () => false);
  await change();
  await page.clock.fastForward(11000);
  if (!(await renewed())) fault("renewal", "the page is not renewed");
  await change();
  await page.focus("main a");
  await page.clock.fastForward(11000);
  await page.waitForTimeout(300);
  if (await heading() !== "old") fault("renewal", "disturbs somebody in the middle of the page");
  await page.evaluate(() => document.activeElement.blur());
  await page.getByRole("button", { name: "Stop refreshing" }).click();
  await page.clock.fastForward(11000);
  await page.waitForTimeout(300);
  if (await heading() !== "old") fault("renewal", "does not stop");
  await page.getByRole("button", { name: "Refresh again" }).click();
  await page.clock.fastForward(11000);
  if (!(await renewed())) fault("renewal", "does not go on");
  await page.goto(base + "/?done=check");
  if (await page.locator("[role=status]").count() !== 1 || page.url() !== base + "/") fault("renewal", "what was done is not said, or said again: " + page.url());
  await change();
  await page.clock.fastForward(11000);
  if (!(await renewed()) || await page.locator("[role=status]").count() !== 0) fault("renewal", "what was done is said again");
  await page.route(base + "/", (r) => r.fulfill({ status: 502, body: "" }));
  quiet = true;
  await page.clock.fastForward(11000);
  await page.getByText("This page is out of date").waitFor({ timeout: 5000 }).catch(() => fault("renewal", "an old page does not say so"));
  await page.unroute(base + "/");
  await page.clock.fastForward(11000);
  await page.getByText("This page is out of date").waitFor({ state: "hidden", timeout: 5000 }).catch(() => fault("renewal", "a new page says that it is old"));
  await page.context().close();
}

await browser.close();
for (const f of faults) console.log(f);
process.exit(faults.length ? 1 : 0);
