// Page of a job: charts from its event stream, which begins with the first event.

import { Chart, latency, onSwitch } from "./charts.js";
import { History } from "./history.js";
import { follow } from "./live.js";
import { TrialChart } from "./trials.js";

const MAX_LINES = 8; // largest number of tasks with a line of their own
const DASHES = [undefined, [6, 4], [2, 3], [10, 3, 2, 3]]; // with two colours: one look for each line

const job = document.getElementById("job").dataset;
const names = job.tasks.split(" ");
const searched = job.searched.split(" "); // ranges of sizes in the place of their task
const weights = job.weights.split(" ").map(Number);
const seen = new History(names, weights);
seen.baseline = job.baseline ? Number(job.baseline) : null;
let along = "trials";

// The weighted sum of several tasks, one line for each of them.
const curve = names.length > 1
  ? new Chart(document.getElementById("latency"), () => {
      const lines = [
        { label: "trials, weighted sum", color: "--accent", step: true, width: 2.5, points: seen.points.length < 40 },
        { label: "delivered", color: "--good", mark: "star" },
      ];
      const data = [seen.points.map((p) => p[along] + (p.race !== null && along === "trials" ? 1 : 0)), seen.points.map((p) => p.latency), seen.points.map((p) => p.race)];
      if (names.length <= MAX_LINES)
        for (const name of names) {
          lines.push({ label: name, color: "--dim", step: true, width: 1 });
          data.push(seen.points.map((p) => p.best[name] ?? null));
        }
      if (seen.baseline !== null) {
        lines.push({ label: "untuned or NumPy", color: "--text", dash: [6, 4], width: 1.5 });
        data.push(seen.points.map(() => seen.baseline));
      }
      return { x: along === "trials" ? "trials" : "seconds", y: "latency", lines, data };
    })
  : null;
const trials = job.estimated === undefined ? new TrialChart(job.id, job.chosen, names.length > 1 ? "history" : "latency") : null;

// Trials of each task so far: a step is a round.
const allocation = searched.length > 1 && searched.length <= MAX_LINES
  ? new Chart(document.getElementById("allocation"), () => ({
      x: along === "trials" ? "trials of all tasks" : "seconds", y: "count",
      lines: searched.map((label, number) => ({ label, color: number % 2 ? "--dim" : "--accent", dash: DASHES[number >> 1], step: true })),
      data: [seen.points.map((p) => p[along]), ...searched.map((name) => seen.points.map((p) => p.allocation[name] ?? 0))],
    }))
  : null;

const quality = new Chart(document.getElementById("quality"), () => {
  const told = seen.points.filter((p) => p.quality && "spearman" in p.quality);
  return {
    x: "round", y: "unit",
    lines: [
      { label: "rank correlation", color: "--accent", points: true },
      { label: "top-k recall", color: "--dim", points: true, dash: [4, 3] },
    ],
    data: [told.map((p) => p.round), told.map((p) => p.quality.spearman), told.map((p) => p.quality.top_k_recall)],
  };
});

function caption() {
  const last = seen.last;
  if (last === undefined) return;
  if (job.estimated === undefined) told(last);
  fit();
}

function told(last) {
  const reached = last.latency === null ? "Not every task has a time" : `Fastest ${names.length > 1 ? "trials, summed" : "trial"}: ${latency(last.latency)}`;
  const parts = [`${reached} after ${last.trials} trials and ${last.seconds.toFixed(1)} s`];
  const stars = seen.points.filter((p) => p.race !== null);
  if (stars.length > 0) parts.push(`delivered (star): ${latency(stars.at(-1).race)}`);
  if (seen.baseline !== null) parts.push(`untuned or NumPy: ${latency(seen.baseline)}`);
  document.getElementById("latency-text").textContent = `${parts.join("; ")}.`;
}

function fit() {
  const told = seen.points.filter((p) => p.quality && "spearman" in p.quality);
  if (told.length === 0) return;
  const mean = (name) => told.reduce((sum, p) => sum + p.quality[name], 0) / told.length;
  document.getElementById("quality-text").textContent =
    `On average over ${told.length} rounds: rank correlation ${mean("spearman").toFixed(2)}, ` +
    `top-${told[0].quality.k} recall ${mean("top_k_recall").toFixed(2)}, each before the model learned from its round.`;
}

follow(job, (event) => {
  seen.take(event);
  curve?.draw();
  trials?.take(event);
  quality.draw();
  allocation?.draw();
  caption();
});
onSwitch((value) => { along = value; curve?.draw(); allocation?.draw(); if (trials !== null) { trials.along = value; trials.draw(); } });
onSwitch((value) => { if (trials !== null) { trials.scale = value; trials.draw(); } }, "y");
