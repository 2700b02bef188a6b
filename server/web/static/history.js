// Curve of a job: one point per round and per race, by trials and by seconds of the job.

export class History {
  constructor(tasks, weights) {
    this.tasks = tasks; // names
    this.weights = weights; // one per task
    this.points = [];
    this.trials = new Map();
    this.best = new Map();
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
    const raced = event.kind === "kernel" && "latency_s" in event; // missing in events of older versions
    if (event.kind !== "round" && !raced) return;
    if (!raced) this.trials.set(event.task, event.trials);
    this.best.set(event.task, event.best_s);
    const one = this.tasks.length === 1;
    this.points.push({
      round: raced ? this.last?.round ?? 0 : (this.last?.round ?? 0) + 1,
      task: event.task,
      trials: [...this.trials.values()].reduce((sum, count) => sum + count, 0),
      seconds: event.seconds,
      latency: one && this.weights[0] === 1 ? event.best_s : event.latency_s ?? null,
      best: Object.fromEntries(this.best),
      allocation: Object.fromEntries(this.trials),
      quality: event.quality,
    });
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
