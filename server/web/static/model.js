// Page of a job of a model: the estimated latency, from its event stream.

import { Chart, latency, onSwitch } from "./charts.js";
import { ENDED, follow } from "./live.js";

const AREAS = 7; // tasks with an area of their own
const job = document.getElementById("job").dataset;
const points = []; // {trials, seconds, latency, race}: the least estimate so far; of a raced or last bundle
const trials = new Map(); // by task
let bundle = null; // the newest one
let along = "trials";

const curve = new Chart(document.getElementById("latency"), () => ({
  x: along === "trials" ? "trials" : "seconds", y: "latency",
  lines: [
    { label: "estimate", color: "--accent", step: true, width: 2.5, points: points.length < 40 },
    { label: "bundle", color: "--good", mark: "star" },
  ],
  data: [points.map((p) => p[along]), points.map((p) => p.latency), points.map((p) => p.race)],
  levels: [...document.querySelectorAll("#lines [data-seconds]")].map((one) => [one.dataset.name, Number(one.dataset.seconds)]),
}));

// Trials of the tasks so far, stacked: the tasks with most trials, and the rest.
const place = document.getElementById("allocation");
const titles = new Map((place?.dataset.titles ?? "").split(";").filter(Boolean).map((one) => one.split(/=(.*)/s).slice(0, 2)));
const rounds = []; // {trials, seconds, by: Map}
const stack = place === null ? null : new Chart(place, () => {
  const last = rounds.at(-1)?.by ?? new Map();
  const most = [...last.entries()].sort((a, b) => b[1] - a[1]).map(([task]) => task).slice(0, AREAS);
  const rest = last.size > most.length;
  const lines = [], data = [];
  let below = rounds.map(() => 0);
  for (const task of most) {
    below = below.map((sum, i) => sum + (rounds[i].by.get(task) ?? 0));
    lines.unshift({ label: titles.get(task) ?? task, color: `--area-${lines.length}`, fill: true, width: 1 });
    data.unshift(below);
  }
  if (rest) {
    lines.unshift({ label: `${last.size - most.length} others`, color: "--line", fill: true, width: 1 });
    data.unshift(rounds.map((one) => one.trials));
  }
  return { x: along === "trials" ? "trials" : "seconds", y: "count", lines, data: [rounds.map((one) => one[along]), ...data] };
});

follow(job, (event) => {
  if (event.kind === "round") {
    trials.set(event.task, event.trials);
    const sum = [...trials.values()].reduce((all, one) => all + one, 0);
    rounds.push({ trials: sum, seconds: event.seconds, by: new Map(trials) });
    stack?.draw();
  }
  if (event.kind === "bundle") bundle = event;
  const raced = event.kind === "bundle" && event.timing === "race";
  const ended = event.kind === "state" && ENDED.includes(event.state) && bundle !== null;
  const estimated = (event.kind === "estimate" || event.kind === "round") && event.latency_s !== null; // all tasks have a time
  if (!raced && !ended && !estimated) return;
  const count = [...trials.values()].reduce((sum, one) => sum + one, 0);
  const before = points.at(-1);
  points.push({
    trials: count + (estimated ? 0 : 1), // uPlot ranges an axis by one of several points with the last x
    seconds: event.seconds ?? bundle.seconds,
    latency: estimated ? Math.min(before?.latency ?? Infinity, event.latency_s) : before?.latency ?? null,
    race: estimated ? null : bundle.latency_s,
  });
  curve.draw();
  tell(points.at(-1));
});

function tell(last) {
  const first = points[0].latency;
  const parts = [`Estimate: ${latency(last.latency)} after ${[...trials.values()].reduce((sum, one) => sum + one, 0)} trials and ${last.seconds.toFixed(1)} s`];
  const star = points.filter((p) => p.race !== null).at(-1);
  if (star !== undefined) parts.push(`bundle (star): ${latency(star.race)}`);
  if (first !== null) parts.push(`first answers: ${latency(first)}`);
  document.getElementById("latency-text").textContent = `${parts.join("; ")}.`;
}

onSwitch((value) => { along = value; curve.draw(); stack?.draw(); });
