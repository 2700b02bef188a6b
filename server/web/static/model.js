// Page of a job of a model: the estimated latency, from its event stream.

import { Chart, latency, onSwitch } from "./charts.js";
import { follow } from "./live.js";

const job = document.getElementById("job").dataset;
const points = []; // {trials, seconds, latency}
const trials = new Map(); // by task
let along = "trials";

const curve = new Chart(document.getElementById("latency"), () => ({
  x: along === "trials" ? "trials" : "seconds", y: "latency",
  lines: [{ label: "all calls of kernels", color: "--accent", step: true, width: 2.5, points: points.length < 40 }],
  data: [points.map((p) => p[along]), points.map((p) => p.latency)],
}));

follow(job, (event) => {
  if (event.kind === "round") trials.set(event.task, event.trials);
  if (event.kind !== "estimate" && event.kind !== "round") return;
  if (event.latency_s === null) return; // not every task has a time yet
  const all = [...trials.values()].reduce((sum, count) => sum + count, 0);
  points.push({ trials: all, seconds: event.seconds, latency: event.latency_s });
  curve.draw();
  const first = points[0].latency;
  document.getElementById("latency-text").textContent =
    `${latency(event.latency_s)} after ${all} trials and ${event.seconds.toFixed(1)} s; ` +
    `${latency(first)} by first answers, ${(first / event.latency_s).toFixed(2)} times as long.`;
});
onSwitch((value) => { along = value; curve.draw(); });
