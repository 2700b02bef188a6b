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

const MARKS = { star: "★", diamond: "◆", dot: "●" };

// Draw a mark at each point of a series.
function marks(plot, series, line) {
  const { ctx } = plot;
  const size = line.mark === "dot" ? 7 : 17;
  ctx.save();
  Object.assign(ctx, { fillStyle: color(line.color), font: `${size * devicePixelRatio}px system-ui`, textAlign: "center", textBaseline: "middle", globalAlpha: line.mark === "dot" ? 0.75 : 1 });
  plot.data[series].forEach((value, i) => {
    if (value === null || value === undefined) return;
    const x = plot.valToPos(plot.data[0][i], "x", true), y = plot.valToPos(value, "y", true);
    if (inside(plot, x)) ctx.fillText(MARKS[line.mark], x, y);
  });
  ctx.restore();
}

// Limits of a logarithmic axis around times and levels.
function around(min, max, told) {
  const seconds = told.map((level) => level[1]).filter((s) => s > min / 20 && s < max * 20);
  const low = Math.min(min, ...seconds), high = Math.max(max, ...seconds);
  return low > 0 ? [low / 1.15, high * 1.15] : [1e-6, 1e-3];
}

const inside = (plot, x) => x >= plot.bbox.left - 1 && x <= plot.bbox.left + plot.bbox.width + 1;

// Draw a red tick at the foot of the chart for each x of `feet`, a triangle at its top for each of `tops`.
function edges(plot, feet, tops) {
  const { ctx, bbox } = plot, ratio = devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = color("--bad");
  ctx.lineWidth = 1.5 * ratio;
  ctx.beginPath();
  for (const value of feet) {
    const x = plot.valToPos(value, "x", true);
    if (!inside(plot, x)) continue;
    ctx.moveTo(x, bbox.top + bbox.height);
    ctx.lineTo(x, bbox.top + bbox.height - 9 * ratio);
  }
  ctx.stroke();
  Object.assign(ctx, { fillStyle: color("--dim"), font: `${9 * ratio}px system-ui`, textAlign: "center", textBaseline: "top" });
  for (const value of tops) {
    const x = plot.valToPos(value, "x", true);
    if (inside(plot, x)) ctx.fillText("▲", x, bbox.top + 1);
  }
  ctx.restore();
}

// Draw a dashed line with its name at each level that is in sight; names keep a distance.
function levels(plot, told) {
  const { ctx, bbox } = plot, ratio = devicePixelRatio;
  const { min, max } = plot.scales.y;
  ctx.save();
  Object.assign(ctx, { strokeStyle: color("--dim"), fillStyle: color("--text"), lineWidth: ratio, font: `${11.5 * ratio}px system-ui`, textAlign: "right", textBaseline: "bottom" });
  ctx.setLineDash([4 * ratio, 4 * ratio]);
  let above = bbox.top + bbox.height + 2 * ratio; // the lowest name may stand at the foot
  for (const [name, seconds] of [...told].sort((a, b) => a[1] - b[1])) {
    if (seconds < min || seconds > max) continue;
    const y = plot.valToPos(seconds, "y", true);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    const height = Math.min(y - 1, above);
    ctx.fillText(`${name} ${latency(seconds)}`, bbox.left + bbox.width - 4 * ratio, height);
    above = height - 13 * ratio;
  }
  ctx.restore();
}

// Show the text of the nearest point of a series below the pointer.
function tooltip(place, series, text) {
  const box = document.createElement("div");
  box.className = "tip";
  box.hidden = true;
  const near = (plot) => {
    let least = 30, found = -1;
    plot.data[series].forEach((value, i) => {
      if (value === null || value === undefined) return;
      const far = Math.hypot(plot.valToPos(plot.data[0][i], "x") - plot.cursor.left, plot.valToPos(value, "y") - plot.cursor.top);
      if (far < least) [least, found] = [far, i];
    });
    return found;
  };
  return {
    init: [(plot) => plot.over.append(box)],
    setCursor: [(plot) => {
      const i = plot.cursor.left < 0 ? -1 : near(plot);
      box.hidden = i < 0;
      if (i < 0) return;
      box.textContent = text(i);
      const x = plot.valToPos(plot.data[0][i], "x"), width = plot.over.clientWidth;
      box.style.left = `${Math.max(0, Math.min(x + 10, width - box.offsetWidth))}px`;
      box.style.top = `${Math.max(0, plot.valToPos(plot.data[series][i], "y") + 12)}px`;
    }],
  };
}

// Chart that is redrawn after a change of its data, size or colours.
// `describe()` returns {x, y: "latency" | "unit" | "count", lines: [{label, color, dash, step, width, mark, fill}], data} and
// may have: range [least, most] of a linear axis of latencies; levels [[name, seconds]]; feet and tops (values of x);
// tip {series, text(index)}; zoom (drag; a double click shows all).
export class Chart {
  constructor(place, describe) {
    this.place = place;
    this.describe = describe;
    this.plot = null;
    this.shape = "";
    this.wanted = false;
    new ResizeObserver(() => this.plot && this.plot.setSize(this.size())).observe(place);
    const repaint = () => { this.shape = ""; this.draw(); };
    MEDIA.addEventListener("change", repaint);
    new MutationObserver(repaint).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  }

  size() {
    return { width: this.place.clientWidth, height: this.place.classList.contains("tall") ? 270 : 190 };
  }

  // Limits of the horizontal axis: from 0 to the last point, or the chosen part.
  across(min, max) {
    const xs = this.told.data[0];
    if (this.told.zoom && (min > xs[0] || max < xs.at(-1))) return [min, max];
    return (this.all = [0, max > 0 ? max : 1]);
  }

  zoomed() {
    const { min, max } = this.plot.scales.x;
    return this.told.zoom && this.all !== undefined && (min > this.all[0] || max < this.all[1]);
  }

  draw() {
    if (this.wanted) return;
    this.wanted = true;
    requestAnimationFrame(() => { this.wanted = false; this.now(); });
  }

  now() {
    const told = this.describe();
    if (told.data[0].length === 0) return;
    const shape = JSON.stringify([told.x, told.lines, told.range === undefined]);
    this.told = told;
    if (this.plot !== null && shape === this.shape) return this.plot.setData(told.data, !this.zoomed());
    this.plot?.destroy();
    this.shape = shape;
    this.plot = new uPlot(this.options(told), told.data, this.place);
  }

  options(told) {
    const times = told.y === "latency", counts = told.y === "count";
    const value = (v) => (v === null || v === undefined ? "–" : times ? latency(v) : v.toFixed(counts ? 0 : 2));
    const tip = told.tip === undefined ? {} : tooltip(this.place, told.tip.series, (i) => this.told.tip.text(i));
    const linear = told.range !== undefined;
    return {
      ...this.size(),
      hooks: { ...tip, draw: [(plot) => {
        levels(plot, this.told.levels ?? []);
        edges(plot, this.told.feet ?? [], this.told.tops ?? []);
        told.lines.forEach((line, i) => line.mark && marks(plot, i + 1, line));
      }] },
      cursor: { points: { size: 7 }, drag: { x: Boolean(told.zoom), y: false } },
      scales: {
        x: { time: false, range: (_, min, max) => this.across(min, max) },
        y: times
          ? linear
            ? { range: () => this.told.range }
            : { distr: 3, range: (_, min, max) => around(min, max, this.told.levels ?? []) }
          : { range: (_, min, max) => (counts ? [0, Math.max(1, max * 1.05)] : [Math.min(0, min ?? 0), 1.02]) },
      },
      axes: [
        axis(told.x, { size: 34, incrs: WHOLE }),
        axis("", times
          ? { size: 64, ...(linear ? {} : { splits: (_, __, min, max) => ticks(min, max), filter: (_, s) => s }), values: (_, s) => s.map(tick) }
          : { size: counts ? 52 : 40, incrs: counts ? WHOLE : undefined }),
      ],
      series: [
        { label: told.x, value: (_, v) => (v === null ? "–" : Number(v.toFixed(1))) },
        ...told.lines.map((line) => ({
          label: line.label, stroke: color(line.color), fill: line.fill && color(line.color), width: line.width ?? 2, dash: line.dash,
          paths: line.mark ? () => null : line.step ? uPlot.paths.stepped({ align: 1 }) : undefined, spanGaps: true,
          points: { show: !line.mark && (line.points ?? false), size: 5, fill: color(line.color) },
          value: (_, v) => value(v),
        })),
      ],
    };
  }
}

// Radio buttons of one name: call `changed` with the value of the chosen one.
export function onSwitch(changed, name = "x") {
  for (const input of document.querySelectorAll(`.switch input[name="${name}"]`))
    input.addEventListener("change", () => changed(input.value));
}
