// Comparison of jobs of one workload in one chart, from their events so far.

import { Chart, latency, onSwitch } from "./charts.js";
import { History } from "./history.js";

const COLORS = ["--accent", "--text", "--good", "--wait", "--bad"];
const DASHES = [undefined, [6, 4], [2, 3], [8, 3, 2, 3], [4, 4]]; // colours are not the only difference
const place = document.getElementById("comparison");
let along = "trials";

async function load(id) {
  const reply = await fetch(`/v1/jobs/${id}/events?format=jsonl`);
  if (!reply.ok) throw new Error(`status ${reply.status}`);
  const events = (await reply.text()).split("\n").filter(Boolean).map((line) => JSON.parse(line));
  const tasks = new Set(events.filter((e) => e.kind === "round").map((e) => e.task));
  const history = new History([...tasks], [...tasks].map(() => 1));
  events.forEach((event) => history.take(event));
  return history;
}

// Merge curves on one axis; a curve keeps its last value between its points.
function joined(histories) {
  const xs = [...new Set(histories.flatMap((one) => one.points.map((p) => p[along])))].sort((x, y) => x - y);
  return [xs, ...histories.map((history) => {
    let i = -1;
    const end = history.last?.[along] ?? -1;
    return xs.map((x) => {
      while (i + 1 < history.points.length && history.points[i + 1][along] <= x) i++;
      return i < 0 || x > end ? null : history.points[i].latency;
    });
  })];
}

if (place !== null) {
  const text = document.getElementById("latency-text");
  const ids = place.dataset.jobs.split(" ");
  try {
    const histories = await Promise.all(ids.map(load));
    const chart = new Chart(document.getElementById("latency"), () => ({
      x: along, y: "latency", data: joined(histories),
      lines: ids.map((id, i) => ({ label: id.slice(0, 8), color: COLORS[i], step: true, dash: DASHES[i] })),
    }));
    const told = (id, history) =>
      history.last ? `${id.slice(0, 8)}: trials of ${latency(history.last.latency)} after ${history.last.trials} trials` : `${id.slice(0, 8)}: no round yet`;
    text.textContent = `${ids.map((id, i) => told(id, histories[i])).join("; ")}.`;
    chart.draw();
    onSwitch((value) => { along = value; chart.draw(); });
  } catch (error) {
    text.textContent = `The curves could not be loaded (${error.message}).`;
  }
}
