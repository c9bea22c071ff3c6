// SPDX-License-Identifier: Apache-2.0
// The page of --dashboard: asks for the numbers once a second and draws them. All names that it
// shows become text nodes or text on a canvas, never markup.
"use strict";

const kColours = ["#1f6feb", "#d1572a", "#2b9348", "#9b5de5", "#c9941a", "#0f8b8d", "#d6336c", "#6c757d"];
const kPeriodMs = 1000;
const kTimeoutMs = 4000;
const kRowPixels = {least: 14, most: 28};
const kTimelinePixels = {least: 256, most: 15000};  // browsers draw no canvas that is much higher

const byId = (id) => document.getElementById(id);
const colourOf = (i) => kColours[i % kColours.length];
const state = {newest: null, timeline: null, timelineStep: 0, requests: 0};

function setText(id, text) {
  const element = byId(id);
  if (element.textContent !== text) element.textContent = text;
}

function grouped(number) {
  return Math.round(number).toLocaleString("en-US");
}

function shortNumber(number) {
  if (number === null || !Number.isFinite(number)) return "?";
  const size = Math.abs(number);
  if (size >= 1e9) return `${(number / 1e9).toPrecision(3)} G`;
  if (size >= 1e6) return `${(number / 1e6).toPrecision(3)} M`;
  if (size >= 1e4) return `${(number / 1e3).toPrecision(3)} k`;
  return String(Number(number.toPrecision(4)));
}

function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (bytes >= 1024 && unit + 1 < units.length) {
    bytes /= 1024;
    ++unit;
  }
  return `${unit === 0 ? bytes : bytes.toFixed(1)} ${units[unit]}`;
}

function fillTable(id, rows) {
  const body = byId(id).tBodies[0];
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((cells, i) => {
    const row = body.rows[i] ?? body.insertRow();
    cells.forEach((cell, j) => {
      const place = row.cells[j] ?? row.insertCell();
      if (place.textContent !== cell) place.textContent = cell;
    });
  });
}

/** Makes the canvas as sharp as the screen; returns its context and its size in CSS pixels. */
function prepared(id) {
  const canvas = byId(id);
  const scale = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = "11px system-ui, sans-serif";
  return {context, width, height};
}

/** Draws curves {x, y, colour} on common axes. `text` formats a value of y. */
function drawCurves(id, curves, text = shortNumber) {
  const {context, width, height} = prepared(id);
  const style = getComputedStyle(document.documentElement);
  const isPoint = (curve, i) => curve.x[i] !== null && curve.y[i] !== null;
  let [left, right, low, high] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const curve of curves) {
    for (let i = 0; i < curve.x.length; ++i) {
      if (!isPoint(curve, i)) continue;
      left = Math.min(left, curve.x[i]);
      right = Math.max(right, curve.x[i]);
      low = Math.min(low, curve.y[i]);
      high = Math.max(high, curve.y[i]);
    }
  }
  if (left === Infinity) return;
  if (right === left) right = left + 1;
  if (high === low) [low, high] = [low - (Math.abs(low) || 1) / 10, high + (Math.abs(high) || 1) / 10];
  const edge = {left: 60, right: 10, top: 8, bottom: 18};
  const atX = (x) => edge.left + ((x - left) / (right - left)) * (width - edge.left - edge.right);
  const atY = (y) => height - edge.bottom - ((y - low) / (high - low)) * (height - edge.top - edge.bottom);
  context.strokeStyle = style.getPropertyValue("--line");
  context.fillStyle = style.getPropertyValue("--dim");
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const part of [0, 0.5, 1]) {
    const y = low + part * (high - low);
    context.beginPath();
    context.moveTo(edge.left, atY(y));
    context.lineTo(width - edge.right, atY(y));
    context.stroke();
    context.fillText(text(y), edge.left - 5, atY(y));
  }
  context.textBaseline = "bottom";
  context.fillText(`step ${grouped(right)}`, width - edge.right, height - 3);
  context.textAlign = "left";
  context.fillText(grouped(left), edge.left, height - 3);
  context.lineWidth = 1.5;
  for (const curve of curves) {
    context.strokeStyle = curve.colour;
    context.fillStyle = curve.colour;
    context.beginPath();
    let isBegun = false;
    for (let i = 0; i < curve.x.length; ++i) {
      if (!isPoint(curve, i)) continue;
      if (isBegun) context.lineTo(atX(curve.x[i]), atY(curve.y[i]));
      else context.moveTo(atX(curve.x[i]), atY(curve.y[i]));
      isBegun = true;
    }
    context.stroke();
    if (curve.x.length < 40) {
      for (let i = 0; i < curve.x.length; ++i) {
        if (isPoint(curve, i)) context.fillRect(atX(curve.x[i]) - 2, atY(curve.y[i]) - 2, 4, 4);
      }
    }
  }
}

/** Shows a text in a note, or hides the note if the number is 0. */
function setNote(id, number, text) {
  byId(id).hidden = !number;
  setText(id, number ? text : "");
}

const kNoStepYet = "A step is recorded now and then";

function drawTimeline() {
  const {timeline} = state;
  const wanted = (timeline === null ? 0 : timeline.lanes.length) * kRowPixels.least + 20;
  byId("timeline").style.height = `${Math.min(Math.max(wanted, kTimelinePixels.least), kTimelinePixels.most)}px`;
  const {context, width, height} = prepared("timeline");
  setNote("operations-left-out", timeline?.left_out,
    `The first ${grouped(timeline?.spans.length ?? 0)} operations are shown; ` +
    `${grouped(timeline?.left_out ?? 0)} later ones are left out.`);
  state.hit = () => null;
  if (timeline === null || timeline.spans.length === 0) {
    setText("operation", `${kNoStepYet} while this page is open: every 3 to 30 seconds, or more rarely if that would ` +
      "take more than one percent of the time.");
    return;
  }
  if (byId("operation").textContent.startsWith(kNoStepYet)) setText("operation", "");
  const style = getComputedStyle(document.documentElement);
  const edge = 150;
  const row = Math.min(kRowPixels.most, (height - 20) / timeline.lanes.length);
  const gap = row < 8 ? 0 : 2;
  const atX = (us) => edge + (Math.max(us, 0) / Math.max(timeline.length_us, 1e-9)) * (width - edge - 8);
  context.fillStyle = style.getPropertyValue("--dim");
  context.textBaseline = "middle";
  timeline.lanes.forEach((lane, i) => context.fillText(lane, 4, (i + 0.5) * row, edge - 10));
  context.textAlign = "right";
  context.fillText(`${shortNumber(timeline.length_us)} µs`, width - 8, height - 8);
  context.textAlign = "left";
  for (const [lane, name, begin, length] of timeline.spans) {
    const [from, to] = [atX(begin), atX(begin + length)];
    context.fillStyle = colourOf(name);
    context.fillRect(from, lane * row + gap, Math.max(to - from, 0.5), row - 2 * gap);
  }
  state.hit = (x, y) => timeline.spans.find(([lane, , begin, length]) =>
    lane === Math.floor(y / row) && x >= atX(begin) && x <= Math.max(atX(begin + length), atX(begin) + 1)) ?? null;
}

function draw() {
  const {newest} = state;
  if (newest === null) return;
  const ranks = newest.ranks > 1 ? ` (rank 0 of ${newest.ranks})` : "";
  document.title = `${newest.program}: step ${grouped(newest.step)}`;
  setText("program", newest.program + ranks);
  setText("what", newest.what);
  setText("part", newest.part || "-");
  setText("step", grouped(newest.step));
  setText("loss", newest.loss === null ? "-" : newest.loss.toPrecision(5));
  setText("rate-title", `${newest.unit}/s`);
  setText("rates-title", `${newest.unit} a second`);
  setText("rate", newest.rate === null ? "-" : grouped(newest.rate));
  setText("p50", newest.step_ms === null ? "-" : `${newest.step_ms.p50.toPrecision(4)} ms`);
  setText("live", newest.memory === null ? "-" : bytesText(newest.memory.live_bytes));

  drawCurves("losses", [{...newest.losses, colour: colourOf(0)}]);
  setNote("steps-left-out", newest.steps_left_out,
    `${grouped(newest.steps_left_out)} steps are left out of the curves: they came faster than the program could add them.`);
  drawCurves("rates", [{...newest.rates, colour: colourOf(2)}]);
  drawCurves("metrics", newest.metrics.map(({curve}, i) => ({...curve, colour: colourOf(i)})));
  const names = byId("metric-names");
  while (names.children.length > newest.metrics.length) names.lastChild.remove();
  newest.metrics.forEach(({name, curve}, i) => {
    const item = names.children[i] ?? names.appendChild(document.createElement("li"));
    const value = curve.y[curve.y.length - 1];
    item.style.setProperty("--colour", colourOf(i));
    item.textContent = `${name}: ${value === null ? "?" : value.toFixed(4)}`;
  });

  const times = newest.step_ms;
  fillTable("times", times === null ? [] : [
    ["5 % take at most", `${times.p5.toFixed(3)} ms`],
    ["half", `${times.p50.toFixed(3)} ms`],
    ["95 %", `${times.p95.toFixed(3)} ms`],
    ["99 %", `${times.p99.toFixed(3)} ms`],
    [`the longest of the last ${grouped(times.count)}`, `${times.most.toFixed(3)} ms`],
  ]);
  if (newest.memory !== null) {
    drawCurves("memory", [{...newest.memory.live, colour: colourOf(0)},
                          {...newest.memory.reserved, colour: colourOf(7)}], bytesText);
    fillTable("groups", [
      ...newest.memory.groups.map(({name, bytes}) => [name, bytesText(bytes)]),
      ["all, in use (blue)", bytesText(newest.memory.live_bytes)],
      ["all, in use at the peak", bytesText(newest.memory.peak_live_bytes)],
      ["all, reserved (grey)", bytesText(newest.memory.reserved_bytes)],
    ]);
  }
  if (newest.timeline_step > 0) {
    setText("timeline-title", `Timeline of step ${grouped(newest.timeline_step)}, ` +
      `recorded ${grouped(newest.timeline_age_s)} s ago`);
  }
  drawTimeline();
}

async function ask(path) {
  const answer = await fetch(path, {cache: "no-store", signal: AbortSignal.timeout(kTimeoutMs)});
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

async function update() {
  try {
    state.newest = await ask("state.json");
    ++state.requests;
    if (state.newest.timeline_step !== state.timelineStep) {
      state.timeline = await ask("timeline.json");
      state.timelineStep = state.timeline.step;
    }
    setText("connection", "connected");
  } catch (error) {
    setText("connection", "no answer: the program has ended, or is busy");
  }
  tryToDraw();
}

/** Draws; says so if that fails, and goes on. */
function tryToDraw() {
  try {
    draw();
  } catch (error) {
    console.error(error);
    setText("connection", `The page cannot draw the numbers: ${error.message}`);
  }
}

async function poll() {
  try {
    if (!document.hidden) await update();
  } finally {
    setTimeout(poll, kPeriodMs);
  }
}

byId("timeline").addEventListener("mousemove", (event) => {
  const span = state.hit ? state.hit(event.offsetX, event.offsetY) : null;
  if (span !== null) {
    const [lane, name, begin, length] = span;
    setText("operation", `${state.timeline.names[name]} on ${state.timeline.lanes[lane]}: ` +
      `${shortNumber(begin)} µs, takes ${shortNumber(length)} µs`);
  }
});
window.addEventListener("resize", tryToDraw);
poll();
