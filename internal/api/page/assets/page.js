// Refreshes open pages. Everything works without it, by reloading.

// The text after an action is shown once, not again after a refresh.
(() => {
  "use strict";
  const here = new URL(location.href);
  if (!here.searchParams.has("done")) return;
  here.searchParams.delete("done");
  history.replaceState(null, "", here);
})();

(() => {
  "use strict";
  const table = document.getElementById("events");
  if (!table) return;
  const live = document.getElementById("live");
  const most = 500; // rows that stay
  const stream = new EventSource(table.dataset.stream);
  const say = (text) => { if (live.textContent !== text) live.textContent = text; };
  let lost = 0;
  stream.onopen = () => { clearTimeout(lost); lost = 0; say("Newest first. New events appear by themselves."); };
  stream.onmessage = (m) => {
    // A row is parsed in a table; the server has escaped what strangers wrote.
    const rows = new DOMParser().parseFromString("<table><tbody>" + m.data + "</tbody></table>", "text/html").querySelectorAll("tr");
    const body = table.tBodies[0];
    body.prepend(...rows);
    while (body.rows.length > most) body.lastElementChild.remove();
    document.querySelector(".empty")?.remove();
  };
  // The stream is reopened every few seconds, so only a longer silence is an error.
  stream.onerror = () => { lost ||= setTimeout(() => say("fedpost does not answer. This page is out of date."), 10000); };
  addEventListener("pagehide", () => stream.close());
})();

(() => {
  "use strict";
  const every = Number(document.body.dataset.refresh) * 1000;
  const main = document.getElementById("main");
  const renewal = document.getElementById("renewal");
  if (!every || !main || !renewal) return;

  let paused = false;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "quiet";
  const say = () => { button.textContent = paused ? "Refresh again" : "Stop refreshing"; };
  button.addEventListener("click", () => { paused = !paused; say(); });
  say();
  renewal.textContent = "Refreshed every " + every / 1000 + " seconds. ";
  renewal.append(button);

  // No refresh while somebody types, selects text or has the focus within the page.
  const busy = () => {
    const at = document.activeElement;
    return (at && at !== main && main.contains(at)) || !getSelection().isCollapsed;
  };

  const renew = async () => {
    if (paused || document.hidden || busy()) return;
    const answer = await fetch(location.href, { headers: { "X-Requested-With": "page" } });
    if (answer.redirected) { location.reload(); return; }
    if (!answer.ok) throw new Error(String(answer.status));
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (busy()) return;
    const open = [...main.querySelectorAll("details[open][id]")].map((d) => d.id);
    main.replaceChildren(...next.getElementById("main").childNodes);
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
    document.title = next.title;
    document.querySelector("footer time").replaceWith(next.querySelector("footer time"));
    stale.hidden = true;
  };

  // If fedpost does not answer, the page says that it is out of date.
  const stale = document.createElement("p");
  stale.className = "note bad";
  stale.setAttribute("role", "alert");
  stale.hidden = true;
  main.before(stale);
  const old = () => {
    if (stale.hidden) stale.textContent = "fedpost has not answered since " + new Date().toISOString().slice(11, 19) + " UTC. This page is out of date.";
    stale.hidden = false;
  };

  const again = () => setTimeout(() => renew().catch(old).finally(again), every);
  again();
})();
