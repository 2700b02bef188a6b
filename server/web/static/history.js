// Curve of a job: one point per round and per kernel, by trials and by seconds of the job.
//
// The lines are the least times of the search so far and never rise; `race` of a point is the latency
// of a kernel that was raced, or of what an ended job has delivered.

import { ENDED } from "./live.js";

const least = (a, b) => (a === null || a === undefined ? b : b === null || b === undefined ? a : Math.min(a, b));

export class History {
  constructor(tasks, weights) {
    this.tasks = tasks; // names
    this.weights = weights; // one per task
    this.points = [];
    this.trials = new Map();
    this.best = new Map(); // least time in trials, by task
    this.delivered = new Map(); // time of the newest kernel, by task
    this.untuned = new Map(); // the faster of the untuned kernel and NumPy, by task
    this.baseline = null; // their weighted sum, once each task has one
  }

  take(event) {
    if (event.kind === "baseline") this.compare([{ ...event, name: event.task }]);
    if (event.kind === "finished") {
      this.untuned.clear();
      this.baseline = null;
      this.compare(event.tasks);
    }
    if (event.kind === "state" && ENDED.includes(event.state)) this.end();
    const made = event.kind === "kernel" && "latency_s" in event; // missing in events of older versions
    if (event.kind !== "round" && !made) return;
    if (made) this.delivered.set(event.task, event.best_s);
    else this.trials.set(event.task, event.trials);
    const single = this.tasks.length === 1 && this.weights[0] === 1;
    // A range of sizes has times of these sizes, and no part in the sum.
    const latency = single && event.task === this.tasks[0] ? event.best_s : event.latency_s ?? null;
    const raced = made && event.timing !== "trial";
    if (!raced) this.best.set(event.task, least(this.best.get(event.task), event.best_s));
    this.add({
      round: (this.last?.round ?? 0) + (made ? 0 : 1),
      task: event.task,
      seconds: event.seconds,
      latency: raced ? this.last?.latency ?? null : least(this.last?.latency, latency),
      race: raced ? latency : null,
      quality: event.quality,
    });
  }

  add(point) {
    this.points.push({
      ...point,
      trials: [...this.trials.values()].reduce((sum, count) => sum + count, 0),
      best: Object.fromEntries(this.best),
      allocation: Object.fromEntries(this.trials),
    });
  }

  // The latency of record of an ended job.
  end() {
    const times = this.tasks.map((name) => this.delivered.get(name) ?? this.best.get(name) ?? null);
    if (times.includes(null) || this.last === undefined) return;
    const race = times.reduce((sum, time, i) => sum + this.weights[i] * time, 0);
    this.add({ ...this.last, race, quality: undefined });
  }

  compare(results) {
    for (const result of results)
      if (typeof result.baseline_s === "number") this.untuned.set(result.name, result.baseline_s);
    if (!this.tasks.every((name) => this.untuned.has(name))) return;
    this.baseline = this.tasks.reduce((sum, name, i) => sum + this.weights[i] * this.untuned.get(name), 0);
  }

  get last() {
    return this.points[this.points.length - 1];
  }
}
