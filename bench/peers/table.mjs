// Medians of the reports in a directory, as a table. Ratios are of the same round, and the
// median of the rounds: how many times as many deliveries a second fedpost makes, and how
// many times as much processor time (of all processes, Redis included) the peer needs for one.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const dir = process.argv[2];
const us = process.argv[3]; // whom the others are compared with
const works = new Map(); // results by work, peer and round
let failed = 0;
let machine = "";
for (const file of readdirSync(dir).sort()) {
  const [work, peer, round, kind] = file.split(".");
  if (kind === "failed") failed += 1;
  if (kind !== "json") continue;
  const report = JSON.parse(readFileSync(join(dir, file), "utf8"));
  machine = report.machine;
  const peers = works.get(work) ?? new Map();
  const rounds = peers.get(peer) ?? new Map();
  rounds.set(round, report.results[0]);
  works.set(work, peers.set(peer, rounds));
}

function median(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

const rate = (result) => result.perSecond;
const cost = (result) => result.server.millisecondsEach;
const digits = (n) => String(Number(n.toPrecision(3)));

// ratio is what ours is to theirs, or a dash if no round has both.
function ratio(ours, theirs, of) {
  const ratios = [...theirs.keys()].filter((round) => ours?.has(round)).map((round) => of(ours.get(round), theirs.get(round)));
  return ratios.length ? digits(median(ratios)) : "–";
}
const faster = (ours, theirs) => ratio(ours, theirs, (a, b) => rate(a) / rate(b));
const cheaper = (ours, theirs) => ratio(ours, theirs, (a, b) => cost(b) / cost(a));

console.log(`${machine}\n`);
console.log("| work | who | a second, median (rounds) | processor ms each | fedpost: × a second | and × as cheap |");
console.log("|---|---|---|---|---|---|");
for (const [work, peers] of works) {
  const ours = peers.get(us);
  for (const [peer, rounds] of peers) {
    const results = [...rounds.values()];
    const rates = results.map((r) => Math.round(rate(r))).join(", ");
    const ratios = peer === us ? ["", ""] : [faster(ours, rounds), cheaper(ours, rounds)];
    console.log(`| ${[work, peer, `${Math.round(median(results.map(rate)))} (${rates})`, digits(median(results.map(cost))), ...ratios].join(" | ")} |`);
  }
}
if (failed) console.log(`\n${failed} runs have no figure, because deliveries went wrong or took too long.`);
