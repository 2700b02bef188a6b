// Page of a job of a model: the estimated latency, from its event stream.

import { Chart, latency, onSwitch } from "./charts.js";
import { ENDED, follow } from "./live.js";

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
}));

follow(job, (event) => {
  if (event.kind === "round") trials.set(event.task, event.trials);
  if (event.kind === "bundle") bundle = event;
  const raced = event.kind === "bundle" && event.timing === "race";
  const ended = event.kind === "state" && ENDED.includes(event.state) && bundle !== null;
  const estimated = (event.kind === "estimate" || event.kind === "round") && event.latency_s !== null; // all tasks have a time
  if (!raced && !ended && !estimated) return;
  const count = [...trials.values()].reduce((sum, one) => sum + one, 0);
  const before = points.at(-1);
  points.push({
    trials: count,
    seconds: event.seconds ?? bundle.seconds,
    latency: estimated ? Math.min(before?.latency ?? Infinity, event.latency_s) : before?.latency ?? null,
    race: estimated ? null : bundle.latency_s,
  });
  curve.draw();
  tell(points.at(-1));
});

function tell(last) {
  const first = points[0].latency;
  const parts = [`Estimate: ${latency(last.latency)} after ${last.trials} trials and ${last.seconds.toFixed(1)} s`];
  const star = points.filter((p) => p.race !== null).at(-1);
  if (star !== undefined) parts.push(`bundle (star): ${latency(star.race)}`);
  if (first !== null) parts.push(`first answers: ${latency(first)}`);
  document.getElementById("latency-text").textContent = `${parts.join("; ")}.`;
}

onSwitch((value) => { along = value; curve.draw(); });
