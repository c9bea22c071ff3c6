// SPDX-License-Identifier: Apache-2.0
// The timeline of a step: a canvas with a bar for each operation, which can be zoomed and stepped through by keys.
"use strict";

const kRowPixels = {least: 14, most: 28};
const kTimelinePixels = {least: 256, most: 15000};  // browsers draw no canvas that is much higher
const kLongest = 10;  // operations in the table
const kLetterPixels = 6.2;  // about the width of a letter in a bar
const kNoStepYet = "A step is recorded now and then";

/** What is shown of the timeline `of`: the times in µs, and the index of the selected span, or null. */
const view = {of: null, begin: 0, end: 1, selected: null};

/** Returns black or white, whichever is easier to read on the colour. */
function textColourOn(colour) {
  const [red, green, blue] = [1, 3, 5].map((i) => {
    const part = parseInt(colour.slice(i, i + 2), 16) / 255;
    return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000000" : "#ffffff";
}

function lengthOf(timeline) {
  return Math.max(timeline.length_us, 1e-3);
}

/** Shows the whole timeline, and selects nothing. */
function showWholeTimeline(timeline) {
  Object.assign(view, {of: timeline, begin: 0, end: timeline === null ? 1 : lengthOf(timeline), selected: null});
}

/** Returns whether somebody looks at a part or an operation of the timeline, so that it should not be replaced. */
function isTimelineHeld() {
  const {of} = view;
  return of !== null && (view.selected !== null || view.begin > 0 || view.end < lengthOf(of));
}

function operationText(timeline, span) {
  const [lane, name, begin, length, stream, number] = span;
  const position = number > 0 ? ` (stream ${stream} @ ${number})` : "";
  return `${timeline.names[name]} on ${timeline.lanes[lane]}${position}: ` +
    `begins at ${shortNumber(begin)} µs, takes ${shortNumber(length)} µs`;
}

/** Returns the name, or the last parts of it that fit into so many pixels; empty if none does. */
function nameThatFits(name, pixels) {
  const letters = Math.floor((pixels - 6) / kLetterPixels);
  if (name.length <= letters) return name;
  const last = name.slice(name.lastIndexOf("/") + 1);
  if (last.length <= letters) return last;
  return letters >= 4 ? `${last.slice(0, letters - 1)}…` : "";
}

/** Returns how the canvas shows the timeline: its edges, the height of a row, and where times are. */
function geometryOf(timeline, width, height) {
  const edge = Math.min(150, width / 4);
  const right = width - 8;
  const row = Math.min(kRowPixels.most, (height - 20) / timeline.lanes.length);
  const scale = (right - edge) / (view.end - view.begin);
  const atX = (us) => edge + (us - view.begin) * scale;
  const atUs = (x) => view.begin + (x - edge) / scale;
  return {edge, right, row, atX, atUs};
}

function drawBars(context, timeline, geometry) {
  const {edge, right, row, atX} = geometry;
  const gap = row < 8 ? 0 : 2;
  const back = getComputedStyle(document.documentElement).getPropertyValue("--back");
  context.save();
  context.beginPath();
  context.rect(edge, 0, right - edge, row * timeline.lanes.length);
  context.clip();
  context.lineWidth = 1;
  for (const [lane, name, begin, length] of timeline.spans) {
    const [from, to] = [atX(begin), atX(begin + length)];
    if (to < edge || from > right) continue;
    const colour = colourOf(name);
    context.fillStyle = colour;
    context.fillRect(from, lane * row + gap, Math.max(to - from, 0.5), row - 2 * gap);
    if (to - from < 4) continue;
    context.strokeStyle = back;  // between bars that touch
    context.strokeRect(from + 0.5, lane * row + gap, to - from, row - 2 * gap);
    const [left, end] = [Math.max(from, edge), Math.min(to, right)];
    const text = row < 12 ? "" : nameThatFits(timeline.names[name], end - left);
    if (text !== "") {
      context.fillStyle = textColourOn(colour);
      context.fillText(text, left + 4, (lane + 0.5) * row, end - left - 6);
    }
  }
  const selected = view.selected === null ? undefined : timeline.spans[view.selected];
  if (selected !== undefined) {
    const [lane, , begin, length] = selected;
    context.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--front");
    context.lineWidth = 2;
    context.strokeRect(atX(begin), lane * row + 1, Math.max(atX(begin + length) - atX(begin), 2), row - 2);
  }
  context.restore();
}

function drawTimeline() {
  const {timeline} = state;
  if (view.of !== timeline) showWholeTimeline(timeline);
  const wanted = (timeline === null ? 0 : timeline.lanes.length) * kRowPixels.least + 20;
  byId("timeline").style.height = `${Math.min(Math.max(wanted, kTimelinePixels.least), kTimelinePixels.most)}px`;
  const {context, width, height} = prepared("timeline");
  setNote("operations-left-out", Boolean(timeline?.left_out),
    `The first ${grouped(timeline?.spans.length ?? 0)} operations are shown; ` +
    `${grouped(timeline?.left_out ?? 0)} later ones are left out.`);
  state.hit = () => null;
  if (timeline === null || timeline.spans.length === 0) {
    setText("operation", `${kNoStepYet} while this page is open: every 3 to 30 seconds, or more rarely if that would ` +
      "take more than one percent of the time.");
    return;
  }
  if (byId("operation").textContent.startsWith(kNoStepYet)) setText("operation", "");
  const geometry = geometryOf(timeline, width, height);
  const {edge, right, row, atX, atUs} = geometry;
  const style = getComputedStyle(document.documentElement);
  context.fillStyle = style.getPropertyValue("--dim");
  context.textBaseline = "middle";
  timeline.lanes.forEach((lane, i) => context.fillText(lane, 4, (i + 0.5) * row, edge - 10));
  context.fillText(`${shortNumber(Math.max(view.begin, 0))} µs`, edge, height - 8);
  context.textAlign = "right";
  context.fillText(`${shortNumber(view.end)} µs`, right, height - 8);
  context.textAlign = "left";
  drawBars(context, timeline, geometry);
  state.geometry = {edge, right, atUs};
  state.hit = (x, y) => {
    if (x < edge) return null;
    const found = timeline.spans.findIndex(([lane, , begin, length]) =>
      lane === Math.floor(y / row) && x >= atX(begin) && x <= Math.max(atX(begin + length), atX(begin) + 1));
    return found < 0 ? null : found;
  };
}

/** Fills the table of the longest operations, whose text depends on the timeline alone. */
function showLongest(timeline) {
  const longest = timeline === null ? [] : [...timeline.spans].sort((a, b) => b[3] - a[3]).slice(0, kLongest);
  fillTable("longest", longest.map(([lane, name, begin, length]) =>
    [timeline.names[name], timeline.lanes[lane], `${shortNumber(begin)} µs`, `${shortNumber(length)} µs`]));
}

/** Shows times from `begin` on for `length` µs, within the timeline. */
function showTimes(begin, length) {
  const whole = lengthOf(view.of);
  const shown = Math.min(Math.max(length, 0.01), whole);
  view.begin = Math.min(Math.max(begin, 0), whole - shown);
  view.end = view.begin + shown;
}

/** Makes the shown times longer or shorter by a factor; those at `us` stay where they are. */
function zoomTimeline(factor, us) {
  const part = (us - view.begin) / (view.end - view.begin);
  const length = (view.end - view.begin) * factor;
  showTimes(us - part * length, length);
}

function selectOperation(index) {
  view.selected = index;
  const span = view.of.spans[index];
  const [, , begin, length] = span;
  const shown = view.end - view.begin;
  if (begin < view.begin || begin + length > view.end) {
    const longer = Math.max(shown, length);
    showTimes(begin + length / 2 - longer / 2, longer);
  }
  setText("operation", operationText(view.of, span));
}

/** Returns the indices of the lane's spans, by their begin. */
function operationsOf(lane) {
  const {spans} = view.of;
  return spans.map((_, i) => i).filter((i) => spans[i][0] === lane).sort((a, b) => spans[a][2] - spans[b][2]);
}

/** Selects the operation to which a key goes; returns whether it is such a key. */
function stepByKey(key) {
  const {spans, lanes} = view.of;
  const isStep = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"].includes(key);
  if (!isStep) return false;
  if (view.selected === null) {
    selectOperation(spans.reduce((first, span, i) => (span[2] < spans[first][2] ? i : first), 0));
    return true;
  }
  const [lane, , begin] = spans[view.selected];
  const own = operationsOf(lane);
  const place = own.indexOf(view.selected);
  if (key === "ArrowUp" || key === "ArrowDown") {
    const step = key === "ArrowUp" ? -1 : 1;
    for (let other = lane + step; other >= 0 && other < lanes.length; other += step) {
      const there = operationsOf(other);
      if (there.length === 0) continue;
      selectOperation(there.reduce((best, i) =>
        (Math.abs(spans[i][2] - begin) < Math.abs(spans[best][2] - begin) ? i : best)));
      break;
    }
    return true;
  }
  const next = {ArrowLeft: place - 1, ArrowRight: place + 1, Home: 0, End: own.length - 1}[key];
  selectOperation(own[Math.min(Math.max(next, 0), own.length - 1)]);
  return true;
}

/** Lets keys, the pointer and the wheel act on the timeline. */
function listenToTimeline() {
  const canvas = byId("timeline");
  const isEmpty = () => state.timeline === null || state.timeline.spans.length === 0 || view.of === null;
  let drag = null;  // where the pointer went down, and what was shown then
  canvas.addEventListener("keydown", (event) => {
    if (isEmpty() || event.ctrlKey || event.altKey || event.metaKey) return;
    const middle = (view.begin + view.end) / 2;
    const selected = view.selected === null ? null : view.of.spans[view.selected];
    const at = selected === null ? middle : Math.min(Math.max(selected[2] + selected[3] / 2, view.begin), view.end);
    if (event.key === "+" || event.key === "=") zoomTimeline(1 / 1.5, at);
    else if (event.key === "-") zoomTimeline(1.5, at);
    else if (event.key === "Escape" || event.key === "0") {
      showWholeTimeline(view.of);
      setText("operation", "");
    } else if (!stepByKey(event.key)) return;
    event.preventDefault();
    drawTimeline();
  });
  canvas.addEventListener("wheel", (event) => {
    // Without the focus, the wheel scrolls the page.
    if (isEmpty() || !state.geometry || !(event.ctrlKey || document.activeElement === canvas)) return;
    event.preventDefault();
    const pixels = event.deltaY * (event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 33 : 1);
    zoomTimeline(Math.exp(pixels * 0.002), state.geometry.atUs(Math.max(event.offsetX, state.geometry.edge)));
    drawTimeline();
  }, {passive: false});
  canvas.addEventListener("pointerdown", (event) => {
    if (isEmpty() || event.button !== 0) return;
    drag = {x: event.offsetX, y: event.offsetY, begin: view.begin, hasMoved: false};
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (isEmpty()) return;
    if (drag !== null && event.buttons === 0) drag = null;  // the button was let go elsewhere
    if (drag !== null) {
      drag.hasMoved ||= Math.abs(event.offsetX - drag.x) > 4;
      if (!drag.hasMoved) return;
      const length = view.end - view.begin;
      const pixels = state.geometry.right - state.geometry.edge;
      showTimes(drag.begin - ((event.offsetX - drag.x) / pixels) * length, length);
      drawTimeline();
      return;
    }
    const found = state.hit(event.offsetX, event.offsetY);
    if (found !== null) setText("operation", operationText(view.of, view.of.spans[found]));
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag !== null && !drag.hasMoved && !isEmpty()) {
      const found = state.hit(event.offsetX, event.offsetY);
      if (found !== null) selectOperation(found);
      else view.selected = null;
      drawTimeline();
    }
    drag = null;
  });
  canvas.addEventListener("pointercancel", () => { drag = null; });
}
