// Comparison of two jobs in one chart, from their events so far.

import { Chart, latency, onSwitch } from "./charts.js";
import { History } from "./history.js";

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

// Merge two curves on one axis; a curve keeps its last value between its points.
function joined(a, b) {
  const xs = [...new Set([...a.points, ...b.points].map((p) => p[along]))].sort((x, y) => x - y);
  const along_x = (history) => {
    let i = -1;
    const end = history.last?.[along] ?? -1;
    return xs.map((x) => {
      while (i + 1 < history.points.length && history.points[i + 1][along] <= x) i++;
      return i < 0 || x > end ? null : history.points[i].latency;
    });
  };
  return [xs, along_x(a), along_x(b)];
}

if (place !== null) {
  const text = document.getElementById("latency-text");
  try {
    const [a, b] = await Promise.all([load(place.dataset.a), load(place.dataset.b)]);
    const chart = new Chart(document.getElementById("latency"), () => ({
      x: along, y: "latency", data: joined(a, b),
      lines: [
        { label: "A", color: "--accent", step: true },
        { label: "B", color: "--text", step: true, dash: [6, 4] },
      ],
    }));
    const told = (name, history) =>
      history.last ? `${name}: trials of ${latency(history.last.latency)} after ${history.last.trials} trials` : `${name}: no round yet`;
    text.textContent = `${told("A", a)}; ${told("B", b)}.`;
    chart.draw();
    onSwitch((value) => { along = value; chart.draw(); });
  } catch (error) {
    text.textContent = `The curves could not be loaded (${error.message}).`;
  }
}
