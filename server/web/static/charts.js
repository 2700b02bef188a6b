// Charts of the dashboard: uPlot with the colours of the page.

const UNITS = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
const WHOLE = [0, 1, 2, 3, 4].flatMap((power) => [1, 2, 5].map((m) => m * 10 ** power)); // tick distances of an integer axis
const MEDIA = matchMedia("(prefers-color-scheme: dark)");

export function latency(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const [scale, unit] = UNITS.find(([s]) => seconds >= s) ?? UNITS[3];
  const value = seconds / scale;
  return `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ${unit}`;
}

function tick(seconds) {
  const [scale, unit] = UNITS.find(([s]) => seconds >= s * 0.9999) ?? UNITS[3];
  return `${Number((seconds / scale).toPrecision(3))} ${unit}`;
}

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Ticks of a logarithmic axis: 1, 2, 5 for a long range, evenly spaced for a short one.
function ticks(min, max) {
  const found = [];
  for (let p = Math.floor(Math.log10(min)); p <= Math.ceil(Math.log10(max)); p++)
    for (const m of [1, 2, 5]) if (m * 10 ** p >= min && m * 10 ** p <= max) found.push(m * 10 ** p);
  if (found.length > 7) return found.filter((v) => /^1e/.test(v.toExponential()) || /^1\.0+e/.test(v.toExponential(3)));
  if (found.length >= 3) return found;
  const raw = (max - min) / 4, base = 10 ** Math.floor(Math.log10(raw));
  const step = base * [1, 2, 5, 10].find((m) => m * base >= raw);
  const even = [];
  for (let v = Math.ceil(min / step) * step; v <= max; v += step) even.push(v);
  return even;
}

function axis(label, more) {
  return {
    stroke: color("--dim"), font: "12px system-ui", label, labelSize: label ? 22 : 0,
    labelFont: "12px system-ui", grid: { stroke: color("--line"), width: 1 },
    ticks: { stroke: color("--line"), width: 1, size: 4 }, ...more,
  };
}

// Draw a star at each point of a series.
function stars(plot, series, fill) {
  const { ctx } = plot;
  ctx.save();
  Object.assign(ctx, { fillStyle: fill, font: `${17 * devicePixelRatio}px system-ui`, textAlign: "center", textBaseline: "middle" });
  plot.data[series].forEach((value, i) => {
    if (value !== null && value !== undefined)
      ctx.fillText("★", plot.valToPos(plot.data[0][i], "x", true), plot.valToPos(value, "y", true));
  });
  ctx.restore();
}

// Chart that is redrawn after a change of its data, size or colours.
// `describe()` returns {x, y: "latency" | "unit" | "count", lines: [{label, values, color, dash, step, width, star}], data}.
export class Chart {
  constructor(place, describe) {
    this.place = place;
    this.describe = describe;
    this.plot = null;
    this.shape = "";
    this.wanted = false;
    new ResizeObserver(() => this.plot && this.plot.setSize(this.size())).observe(place);
    MEDIA.addEventListener("change", () => { this.shape = ""; this.draw(); });
  }

  size() {
    return { width: this.place.clientWidth, height: this.place.classList.contains("tall") ? 270 : 190 };
  }

  draw() {
    if (this.wanted) return;
    this.wanted = true;
    requestAnimationFrame(() => { this.wanted = false; this.now(); });
  }

  now() {
    const told = this.describe();
    if (told.data[0].length === 0) return;
    const shape = JSON.stringify([told.x, told.lines]);
    if (this.plot !== null && shape === this.shape) return this.plot.setData(told.data);
    this.plot?.destroy();
    this.shape = shape;
    this.plot = new uPlot(this.options(told), told.data, this.place);
  }

  options(told) {
    const times = told.y === "latency", counts = told.y === "count";
    const value = (v) => (v === null || v === undefined ? "–" : times ? latency(v) : v.toFixed(counts ? 0 : 2));
    return {
      ...this.size(),
      hooks: { draw: [(plot) => told.lines.forEach((line, i) => line.star && stars(plot, i + 1, color(line.color)))] },
      cursor: { points: { size: 7 }, drag: { x: false, y: false } },
      scales: {
        x: { time: false, range: (_, min, max) => [0, max > 0 ? max : 1] },
        y: times
          ? { distr: 3, range: (_, min, max) => (min > 0 ? [min / 1.15, max * 1.15] : [1e-6, 1e-3]) }
          : { range: (_, min, max) => (counts ? [0, Math.max(1, max * 1.05)] : [Math.min(0, min ?? 0), 1.02]) },
      },
      axes: [
        axis(told.x, { size: 34, incrs: WHOLE }),
        axis("", times
          ? { size: 64, splits: (_, __, min, max) => ticks(min, max), filter: (_, s) => s, values: (_, s) => s.map(tick) }
          : { size: counts ? 52 : 40, incrs: counts ? WHOLE : undefined }),
      ],
      series: [
        { label: told.x, value: (_, v) => (v === null ? "–" : Number(v.toFixed(1))) },
        ...told.lines.map((line) => ({
          label: line.label, stroke: color(line.color), width: line.width ?? 2, dash: line.dash,
          paths: line.star ? () => null : line.step ? uPlot.paths.stepped({ align: 1 }) : undefined, spanGaps: true,
          points: { show: !line.star && (line.points ?? false), size: 5, fill: color(line.color) },
          value: (_, v) => value(v),
        })),
      ],
    };
  }
}

// Radio buttons "trials" and "time": call `changed` with the field of a point to use as x.
export function onSwitch(changed) {
  for (const input of document.querySelectorAll(".switch input"))
    input.addEventListener("change", () => changed(input.value));
}
