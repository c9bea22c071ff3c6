// SPDX-License-Identifier: Apache-2.0
// Texts for numbers, and charts of curves on a canvas, with the values under the pointer.
"use strict";

// Each has a contrast of at least 3 to the page's background, light or dark.
const kColours = ["#1f6feb", "#d1572a", "#2b9348", "#9b5de5", "#a87a14", "#0f8b8d", "#d6336c", "#6c757d"];
const kDashes = [[], [7, 3], [2, 3], [9, 3, 2, 3]];
const kMostValues = 8;  // in the text for a place on a chart

const byId = (id) => document.getElementById(id);
const colourOf = (i) => kColours[i % kColours.length];
const dashOf = (i) => kDashes[Math.floor(i / kColours.length) % kDashes.length];

/** The charts that have been drawn, by the id of their canvas. */
const charts = {};
/** The place of the pointer on a chart: {id, x}, in CSS pixels; null if it is on none. */
let pointerOnChart = null;

function setText(id, text) {
  const element = byId(id);
  if (element.textContent !== text) element.textContent = text;
}

/** Shows a text in a note, or hides the note if `isShown` is false. */
function setNote(id, isShown, text) {
  byId(id).hidden = !isShown;
  setText(id, isShown ? text : "");
}

function grouped(number) {
  return Math.round(number).toLocaleString("en-US");
}

/** Returns a text for a number, which may be a text already if it is not finite. */
function shortNumber(number) {
  if (typeof number === "string") return number;
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
  return `${unit === 0 ? Math.round(bytes) : bytes.toFixed(1)} ${units[unit]}`;
}

/** Fills the body of a table; the first cell of a row is its header. */
function fillTable(id, rows) {
  const body = byId(id).tBodies[0];
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((cells, i) => {
    const row = body.rows[i] ?? body.insertRow();
    cells.forEach((cell, j) => {
      let place = row.cells[j];
      if (place === undefined) {
        place = row.appendChild(document.createElement(j === 0 ? "th" : "td"));
        if (j === 0) place.scope = "row";
      }
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

const isPoint = (curve, i) => curve.x[i] !== null && curve.y[i] !== null;
const lowOf = (curve, i) => curve.low?.[i] ?? curve.y[i];
const highOf = (curve, i) => curve.high?.[i] ?? curve.y[i];

/** Returns the ranges of x and y of all points, bands included; null if there are none. */
function rangesOf(curves) {
  let [left, right, low, high] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const curve of curves) {
    for (let i = 0; i < curve.x.length; ++i) {
      if (!isPoint(curve, i)) continue;
      left = Math.min(left, curve.x[i]);
      right = Math.max(right, curve.x[i]);
      low = Math.min(low, lowOf(curve, i));
      high = Math.max(high, highOf(curve, i));
    }
  }
  if (left === Infinity) return null;
  if (right === left) right = left + 1;
  if (high === low) [low, high] = [low - (Math.abs(low) || 1) / 10, high + (Math.abs(high) || 1) / 10];
  return {left, right, low, high};
}

/** Returns the index of the curve's point that is nearest to x; -1 if it has none. */
function nearestPoint(curve, x) {
  let nearest = -1;
  for (let i = 0; i < curve.x.length; ++i) {
    if (isPoint(curve, i) && (nearest < 0 || Math.abs(curve.x[i] - x) < Math.abs(curve.x[nearest] - x))) nearest = i;
  }
  return nearest;
}

/** Returns the text for a point: its steps, and the mean and the extremes of its values. */
function pointText(curve, i, text) {
  const value = text(curve.y[i]);
  const band = curve.low ? `, ${text(lowOf(curve, i))} to ${text(highOf(curve, i))}` : "";
  const name = curve.name ? `${curve.name} ` : "";
  return `${name}${value}${band}`;
}

function drawBand(context, curve, atX, atY) {
  context.globalAlpha = 0.25;
  let begin = 0;
  for (let i = 0; i <= curve.x.length; ++i) {
    if (i < curve.x.length && isPoint(curve, i)) continue;
    if (i > begin) {
      context.beginPath();
      for (let j = begin; j < i; ++j) context.lineTo(atX(curve.x[j]), atY(highOf(curve, j)));
      for (let j = i - 1; j >= begin; --j) context.lineTo(atX(curve.x[j]), atY(lowOf(curve, j)));
      context.closePath();
      context.fill();
      context.stroke();
    }
    begin = i + 1;
  }
  context.globalAlpha = 1;
}

function drawLine(context, curve, atX, atY) {
  context.beginPath();
  let isBegun = false;
  for (let i = 0; i < curve.x.length; ++i) {
    if (isPoint(curve, i)) {
      if (isBegun) context.lineTo(atX(curve.x[i]), atY(curve.y[i]));
      else context.moveTo(atX(curve.x[i]), atY(curve.y[i]));
    }
    isBegun = isPoint(curve, i);  // a gap where no value is finite
  }
  context.stroke();
  if (curve.x.length < 40) {
    for (let i = 0; i < curve.x.length; ++i) {
      if (isPoint(curve, i)) context.fillRect(atX(curve.x[i]) - 2, atY(curve.y[i]) - 2, 4, 4);
    }
  }
}

/**
 * Draws curves {x, y, low, high, values, colour, name, dash} on common axes. `text` formats a value of y; `unit` names
 * the values of a curve, of which a point may have several.
 */
function drawCurves(id, curves, {text = shortNumber, unit = "steps"} = {}) {
  const {context, width, height} = prepared(id);
  const style = getComputedStyle(document.documentElement);
  const ranges = rangesOf(curves);
  charts[id] = {curves, text, unit};
  if (ranges === null) return;
  const {left, right, low, high} = ranges;
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
  for (const curve of curves) {
    context.strokeStyle = curve.colour;
    context.fillStyle = curve.colour;
    context.lineWidth = 1;
    if (curve.low) drawBand(context, curve, atX, atY);
    context.lineWidth = 1.5;
    context.setLineDash(curve.dash ?? []);
    drawLine(context, curve, atX, atY);
    context.setLineDash([]);
  }
  const values = Math.max(...curves.map((curve) => curve.values ?? 1));
  setNote(`${id}-points`, values > 1,
    `A point stands for ${grouped(values)} ${unit}: the line is their mean, and the band reaches from the least to the ` +
    "greatest.");
  if (pointerOnChart?.id === id) {
    const x = left + ((pointerOnChart.x - edge.left) / (width - edge.left - edge.right)) * (right - left);
    drawPointer(id, context, x, atX, edge.top, height - edge.bottom);
  }
}

/** Marks the points nearest to x, and writes their values below the chart. */
function drawPointer(id, context, x, atX, top, bottom) {
  const {curves, text} = charts[id];
  const nearest = curves.map((curve) => ({curve, i: nearestPoint(curve, x)})).filter(({i}) => i >= 0);
  if (nearest.length === 0) return;
  const {curve, i} = nearest.reduce((a, b) =>
    Math.abs(b.curve.x[b.i] - x) < Math.abs(a.curve.x[a.i] - x) ? b : a);
  context.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--front");
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(atX(curve.x[i]), top);
  context.lineTo(atX(curve.x[i]), bottom);
  context.stroke();
  const last = grouped(curve.x[i]);
  const before = i > 0 ? curve.x[i - 1] : null;
  const hasSeveral = (curve.values ?? 1) > 1 && (before === null || before + 1 < curve.x[i]);
  const begin = before === null ? "up" : grouped(before + 1);
  const steps = hasSeveral ? `steps ${begin} to ${last}` : `step ${last}`;
  const largest = [...nearest].sort((a, b) => b.curve.y[b.i] - a.curve.y[a.i]);
  const texts = largest.slice(0, kMostValues).map((one) => pointText(one.curve, one.i, text));
  const more = largest.length > kMostValues ? `; ${largest.length - kMostValues} more` : "";
  setText(`${id}-value`, `${steps}: ${texts.join("; ")}${more}`);
}

/** Shows the values under the pointer on the chart. */
function followPointer(id) {
  const canvas = byId(id);
  const redraw = () => {
    if (charts[id]) drawCurves(id, charts[id].curves, charts[id]);
  };
  const follow = (event) => {
    pointerOnChart = {id, x: event.offsetX};
    redraw();
  };
  canvas.addEventListener("pointermove", follow);
  canvas.addEventListener("pointerdown", follow);
  canvas.addEventListener("pointerleave", () => {
    pointerOnChart = null;
    setText(`${id}-value`, "");
    redraw();
  });
}
