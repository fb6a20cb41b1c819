// Interactive charts by uPlot in place of the pictures.

const NAMES = {pytorch: "PyTorch", tensorflow: "TensorFlow", jax: "JAX"};
const DASHES = [[], [6, 4], [2, 3], [10, 3, 2, 3]];
const FONT = "12px system-ui, sans-serif";

const element = (tag, className, text = "") => {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  return made;
};

// The colours of the page, light or dark.
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const shortNumber = value => value.toLocaleString("en-US", {maximumSignificantDigits: 4});

const rounded = value => value.toLocaleString("en-US", {maximumSignificantDigits: 3});

const marker = (context, framework, x, y, size) => {
  context.beginPath();
  if (framework === "tensorflow") context.rect(x - size, y - size, 2 * size, 2 * size);
  else if (framework === "jax") {
    context.moveTo(x, y - 1.2 * size);
    context.lineTo(x + 1.2 * size, y + size);
    context.lineTo(x - 1.2 * size, y + size);
    context.closePath();
  } else context.arc(x, y, size, 0, 2 * Math.PI);
  context.fill();
  context.stroke();
};

// A box beside the pointer. `words` returns its lines for the pointer's place, or null where it points at nothing.
const tip = words => {
  const box = element("div", "tip");
  box.hidden = true;
  return {
    hooks: {
      init: [chart => chart.over.append(box)],
      setCursor: [chart => {
        const {left, top, idx} = chart.cursor;
        const lines = left >= 0 && idx !== null ? words(chart, idx, left, top) : null;
        box.hidden = !lines;
        if (!lines) return;
        box.replaceChildren(...lines.map((line, number) => element("div", number ? "" : "first", line)));
        const beyond = left + box.offsetWidth + 16 > chart.over.clientWidth;
        box.style.left = `${Math.max(0, beyond ? left - box.offsetWidth - 12 : left + 12)}px`;
        box.style.top = `${Math.max(0, Math.min(top, chart.over.clientHeight - box.offsetHeight))}px`;
      }],
    },
  };
};

const axis = (label, more = {}) => ({
  ...(label && {label, labelFont: FONT, labelSize: 20}), font: FONT, stroke: colour("ink-soft"), labelGap: 2,
  grid: {stroke: colour("line"), width: 1}, ticks: {show: false}, ...more,
});

// A bar per cell at the median of its launches, and a dot per launch.
const cellsChart = (data, width) => {
  const places = data.groups.map((_, group) => data.cells.filter(cell => cell.group === group));
  const points = [];
  const wide = 0.84 / Math.max(...places.map(beside => beside.length));
  for (const cell of data.cells) {
    const beside = places[cell.group];
    cell.wide = wide;
    cell.x = cell.group + (beside.indexOf(cell) - (beside.length - 1) / 2) * cell.wide;
    cell.launches.forEach(([value, words], number) => {
      const aside = cell.launches.length > 1 ? number / (cell.launches.length - 1) - 0.5 : 0;
      points.push({x: cell.x + 0.6 * cell.wide * aside, value, words, cell});
    });
  }
  points.sort((a, b) => a.x - b.x);
  const most = Math.max(...points.map(point => point.value));
  const room = (width - 80) / data.groups.length;  // pixels of a group
  const perBar = wide * room;
  const longest = Math.max(...data.groups.map(name => name.length));
  const steep = 6.5 * longest > room;
  const named = perBar > Math.max(76, 6.5 * longest);
  // Words above the bars, if all have room: the median, then verdict and ratio, never a ratio without its verdict.
  const widest = name => Math.max(...data.cells.map(cell => (name(cell) ?? "").length));
  const told = perBar > 7.5 * widest(cell => rounded(cell.median));
  const judged = told && perBar > 4.7 * widest(cell => cell.verdict);
  const below = 20 + 4.4 * longest;  // pixels for labels that are turned
  const labels = named
    ? data.cells.map(cell => `${NAMES[cell.framework]}\n${data.groups[cell.group]}`)
    : data.groups;
  const bars = chart => {
    const {ctx: context} = chart, ratio = devicePixelRatio;
    context.save();
    for (const cell of data.cells) {
      const left = chart.valToPos(cell.x - 0.43 * cell.wide, "x", true);
      const right = chart.valToPos(cell.x + 0.43 * cell.wide, "x", true);
      const [top, bottom] = [cell.median, 0].map(value => chart.valToPos(value, "y", true));
      context.globalAlpha = 0.45;
      context.fillStyle = colour(cell.framework);
      context.fillRect(left, top, right - left, bottom - top);
      context.globalAlpha = 1;
      context.fillRect(left, top - ratio, right - left, 2 * ratio);
      if (told) {
        const above = Math.max(...cell.launches.map(([value]) => value));
        context.textAlign = "center";
        const [middle, height] = [(left + right) / 2, chart.valToPos(above, "y", true) - 9 * ratio];
        const lines = judged && cell.ratio ? [cell.verdict, cell.ratio] : [];
        context.font = FONT.replace("12px", `${10.5 * ratio}px`);
        context.fillStyle = colour("ink-soft");
        lines.forEach((line, number) => context.fillText(line, middle, height - 12 * number * ratio));
        context.fillStyle = colour("ink");
        context.font = `${12 * ratio}px system-ui, sans-serif`;
        context.fillText(rounded(cell.median), middle, height - 13 * lines.length * ratio);
      }
    }
    context.lineWidth = ratio;
    context.strokeStyle = colour("paper");
    for (const {x, value, cell} of points) {
      context.fillStyle = colour(`${cell.framework}-deep`);
      marker(context, cell.framework, chart.valToPos(x, "x", true), chart.valToPos(value, "y", true), 3.5 * ratio);
    }
    context.restore();
  };
  return {
    data: [points.map(point => point.x), points.map(point => point.value)],
    options: {
      height: steep && !named ? 220 + below : 270,
      legend: {show: false},
      cursor: {drag: {x: false, y: false}, points: {show: false}, y: false},
      scales: {x: {time: false, range: [-0.5, data.groups.length - 0.5]}, y: {range: [0, 1.25 * most]}},
      series: [{}, {paths: () => null, points: {show: false}}],
      axes: [
        axis("", {
          grid: {show: false}, gap: 6,
          splits: () => (named ? data.cells.map(cell => cell.x) : data.groups.map((_, group) => group)),
          values: () => labels, filter: (_, splits) => splits,
          ...(steep && !named ? {rotate: 45, size: below} : {size: named ? 42 : 28}),
        }),
        axis(data.unit, {size: 56}),
      ],
      hooks: {draw: [bars]},
      plugins: [tip((_, index) => {
        const {value, words, cell} = points[index];
        return [cell.label, `${words}: ${shortNumber(value)} ${data.unit}`,
          `median of ${cell.launches.length}: ${shortNumber(cell.median)}`, ...(cell.ratio ? [`${cell.ratio} ${cell.base}, ${cell.verdict}`] : [])];
      })],
    },
  };
};

// A line per launch, over the epochs.
const epochsChart = data => {
  const epochs = Math.max(...data.lines.map(line => line.values.length));
  const nearest = (chart, index, top) => {
    let best = null;
    data.lines.forEach((line, number) => {
      const value = line.values[index];
      if (value === undefined) return;
      const away = Math.abs(chart.valToPos(value, "y") - top);
      if (!best || away < best.away) best = {line, number, value, away};
    });
    return best;
  };
  const target = chart => {
    if (data.target === null) return;
    const {ctx: context, bbox} = chart, y = chart.valToPos(data.target, "y", true);
    if (y < bbox.top || y > bbox.top + bbox.height) return;
    context.save();
    context.strokeStyle = colour("ink-soft");
    context.fillStyle = colour("ink-soft");
    context.setLineDash([4 * devicePixelRatio, 4 * devicePixelRatio]);
    context.beginPath();
    context.moveTo(bbox.left, y);
    context.lineTo(bbox.left + bbox.width, y);
    context.stroke();
    context.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
    context.textAlign = "left";
    context.fillText(`target ${data.target}`, bbox.left + 6 * devicePixelRatio, y - 5 * devicePixelRatio);
    context.restore();
  };
  return {
    data: [
      Array.from({length: epochs}, (_, epoch) => epoch + 1),
      ...data.lines.map(line => Array.from({length: epochs}, (_, epoch) => line.values[epoch] ?? null)),
    ],
    options: {
      height: 320,
      legend: {show: false},
      cursor: {drag: {x: false, y: false}, points: {size: 8, one: true}, y: false, focus: {prox: 1e3}},
      focus: {alpha: 0.25},
      scales: {x: {time: false, range: [0.8, epochs + 0.2]}},
      series: [{}, ...data.lines.map(line => ({
        stroke: colour(`${line.framework}-deep`), width: 1, alpha: 0.75, dash: DASHES[line.style % DASHES.length],
        points: {show: epochs < 3, size: 6},
      }))],
      axes: [
        axis("epoch", {incrs: [1, 2, 5, 10, 20, 50, 100], grid: {show: false}, size: 30}),
        axis(data.unit, {size: 56}),
      ],
      hooks: {draw: [target]},
      plugins: [tip((chart, index, left, top) => {
        const found = nearest(chart, index, top);
        return found && [found.line.label, `epoch ${index + 1}: ${found.value.toFixed(4)}`];
      })],
    },
  };
};

const legendOf = data => {
  const legend = element("ul", "key");
  const parts = data.cells ?? data.lines;
  for (const framework of Object.keys(NAMES).filter(name => parts.some(part => part.framework === name))) {
    const entry = element("li", "", NAMES[framework]);
    entry.prepend(element("span", `swatch ${framework}`));
    legend.append(entry);
  }
  if (data.styles?.length > 1)
    legend.append(element("li", "", data.styles.map((name, style) =>
      `${["solid", "dashed", "dotted", "dash-dot"][style % DASHES.length]}: ${name || "usual"}`).join(", ")));
  legend.append(element("li", "", data.cells ? "bar: median, dot: a launch" : "line: one seed"));
  return legend;
};

const drawChart = place => {
  const data = JSON.parse(place.querySelector("script").textContent);
  const make = width => (data.kind === "cells" ? cellsChart : epochsChart)(data, width);
  const plot = place.querySelector(".plot");
  plot.before(legendOf(data));
  let chart = null;
  const draw = () => {
    const width = plot.clientWidth;
    const made = make(width);
    chart?.destroy();
    chart = new uPlot({width, ...made.options}, made.data, plot);
  };
  draw();
  let seen = plot.clientWidth;
  new ResizeObserver(() => {
    if (plot.clientWidth && plot.clientWidth !== seen) {
      seen = plot.clientWidth;
      draw();
    }
  }).observe(plot);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
};

const drawCharts = () => {
  for (const area of document.querySelectorAll(".interactive")) {
    area.querySelector(".charts").hidden = false;
    area.querySelector(".still").hidden = true;
    area.querySelectorAll(".chart").forEach(drawChart);
  }
};

drawCharts();
