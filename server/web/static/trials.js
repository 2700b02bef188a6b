// History of a task: a dot per trial, the best time so far, the first answer and the race.

import { Chart, latency } from "./charts.js";
import { ENDED } from "./live.js";

const LOW = 0.8, HIGH = 3; // limits of the linear axis, times the best
const PEAK = "arithmetic peak";
const SLOWER = 10; // a running job is asked again after at least this many times the last wait

export class TrialChart {
  constructor(job, task, place) {
    this.url = `/jobs/${job}/charts/trials.jsonl?task=${encodeURIComponent(task)}`;
    this.task = task;
    this.along = "trials";
    this.scale = "linear";
    this.rows = []; // trials, as the download has them
    this.first = null; // seconds of the first answer
    this.race = null; // seconds of the kernel in its race
    this.ended = 0; // tuning time of the last event
    this.waits = null;
    this.chart = new Chart(document.getElementById(place), () => this.described());
  }

  // Read an event of the job; trials of a new round are fetched after a while.
  take(event) {
    if (event.seconds !== undefined) this.ended = event.seconds;
    if (event.kind === "kernel" && event.task === this.task) {
      if (event.timing === "trial" && this.first === null) this.first = event.best_s;
      if (event.timing === "race") this.race = event.best_s;
      this.draw();
    }
    const over = event.kind === "state" && ENDED.includes(event.state);
    if (event.kind === "round" || over) this.soon(over);
  }

  soon(over) {
    if (this.waits !== null) { if (over) this.again = true; return; }
    this.waits = setTimeout(() => this.fetch().finally(() => {
      this.waits = null;
      if (this.again) { this.again = false; this.soon(false); }
    }), this.pause ?? 50);
  }

  async fetch() {
    const begin = performance.now();
    const reply = await fetch(this.url);
    if (!reply.ok) return; // the next round asks again
    this.rows = (await reply.text()).split("\n").filter(Boolean).map((line) => JSON.parse(line));
    this.pause = Math.max(500, SLOWER * (performance.now() - begin));
    this.draw();
  }

  draw() {
    this.chart.draw();
  }

  get levels() {
    return [...document.querySelectorAll("#lines [data-seconds]")].map((one) => [one.dataset.name, Number(one.dataset.seconds)]);
  }

  described() {
    const place = (row) => (this.along === "trials" ? row.trial : row.seconds ?? 0);
    const points = this.rows.map((row) => ({ x: place(row), time: row.best_s, row }));
    points.sort((a, b) => a.x - b.x);
    if (this.first !== null) points.unshift({ x: 0, first: this.first });
    const end = this.along === "trials" ? this.rows.length + 1 : Math.max(this.ended, points.at(-1)?.x ?? 0);
    if (this.race !== null) points.push({ x: end, race: this.race });
    let best = null;
    const least = points.map((p) => {
      const time = p.time ?? p.first ?? null;
      if (time !== null && p.race === undefined) best = best === null ? time : Math.min(best, time);
      return best;
    });
    const times = points.map((p) => p.time ?? p.first ?? p.race).filter((time) => time !== null && time !== undefined);
    const lowest = Math.min(...times), most = HIGH * lowest;
    const rivals = this.levels.filter(([name]) => name !== PEAK).map(([, seconds]) => seconds);
    const bottom = LOW * Math.max(Math.min(lowest, ...rivals), lowest / HIGH);
    const linear = this.scale === "linear" && times.length > 0;
    const shown = (time) => (time === null || time === undefined || (linear && time > most) ? null : time);
    return {
      x: this.along === "trials" ? "trials" : "seconds", y: "latency", zoom: true,
      range: linear ? [bottom, most] : undefined,
      lines: [
        { label: "trial", color: "--dim", mark: "dot" },
        { label: "best so far", color: "--accent", step: true, width: 2 },
        { label: "first answer", color: "--text", mark: "diamond" },
        { label: "race", color: "--good", mark: "star" },
      ],
      data: [points.map((p) => p.x), points.map((p) => shown(p.time)), least.map(shown), points.map((p) => shown(p.first)), points.map((p) => shown(p.race))],
      levels: this.levels,
      feet: points.filter((p) => p.row && p.time === null).map((p) => p.x),
      tops: points.filter((p) => p.time !== null && p.time !== undefined && shown(p.time) === null).map((p) => p.x),
      tip: { series: 1, text: (i) => tell(points[i]) },
    };
  }
}

function tell({ row }) {
  const slow = row.slowdown > 1.2 ? `, machine ${row.slowdown.toFixed(1)} times as slow as usual` : "";
  return `Trial ${row.trial}, ${row.outcome}: ${latency(row.best_s)}${slow}\nvariant ${row.variant}; ${row.sizes}`;
}
