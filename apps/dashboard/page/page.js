// SPDX-License-Identifier: Apache-2.0
// The page of --dashboard: asks for the numbers once a second and draws them. All names that it
// shows become text nodes or text on a canvas, never markup. curves.js and timeline.js draw.
"use strict";

const kPeriodMs = 1000;
const kPeriodAfterEndMs = 5000;
const kTimeoutMs = 4000;
const kQuietSeconds = 10;  // without a step, before the page says so

const state = {newest: null, timeline: null, timelineStep: 0, requests: 0, lastAnswerAt: null, hasFailed: false};

/** Returns the text for a value, which is a text already if it is not finite. */
function valueText(value, text) {
  return typeof value === "string" ? value : text(value);
}

function drawMemory(memory) {
  const options = {text: bytesText, unit: "measurements"};
  drawCurves("memory", [{...memory.live, name: "in use", colour: colourOf(0)},
                        {...memory.reserved, name: "reserved", colour: colourOf(7)}], options);
  fillTable("memory-numbers", [
    ["in use (blue)", bytesText(memory.live_bytes)],
    ["in use at the peak", bytesText(memory.peak_live_bytes)],
    ["reserved (grey)", bytesText(memory.reserved_bytes)],
  ]);
  drawCurves("group-memory", memory.group_curves.map(({name, curve}, i) =>
    ({...curve, name, colour: colourOf(i), dash: dashOf(i)})), options);
  fillTable("groups", memory.groups.map(({name, bytes}) => [name, bytesText(bytes)]));
  memory.groups.forEach(({name}, i) => {
    const curve = memory.group_curves.findIndex((group) => group.name === name);
    const row = byId("groups").tBodies[0].rows[i];
    row.className = curve < 0 ? "" : "swatch";
    row.style.setProperty("--colour", colourOf(Math.max(curve, 0)));
  });
}

/** Says that there is a newer timeline than the one that somebody looks at. */
function setNewerTimelineNote(newest) {
  const isNewer = state.timelineStep > 0 && newest.timeline_step > state.timelineStep;
  byId("timeline-newer").hidden = !isNewer;
  if (isNewer) setText("timeline-newer-text", `There is a newer timeline, of step ${grouped(newest.timeline_step)}.`);
}

function draw() {
  const {newest} = state;
  if (newest === null) return;
  const ranks = newest.ranks > 1 ? ` (rank 0 of ${newest.ranks})` : "";
  document.title = `${newest.program}: ${newest.end === null ? `step ${grouped(newest.step)}` : newest.end.text}`;
  setText("program", newest.program + ranks);
  setText("what", newest.what);
  setText("part", newest.part || "-");
  setText("step", grouped(newest.step));
  setText("loss", newest.loss === null ? "-" : valueText(newest.loss, (loss) => loss.toPrecision(5)));
  setText("rate-title", `${newest.unit}/s`);
  setText("rates-title", `${newest.unit} a second`);
  setText("rate", newest.rate === null ? "-" : grouped(newest.rate));
  setText("p50", newest.step_ms === null ? "-" : `${newest.step_ms.p50.toPrecision(4)} ms`);
  setText("live", newest.memory === null ? "-" : bytesText(newest.memory.live_bytes));

  drawCurves("losses", [{...newest.losses, colour: colourOf(0)}]);
  setNote("steps-left-out", newest.steps_left_out > 0,
    `${grouped(newest.steps_left_out)} steps are left out of the curves: they came faster than the program could add ` +
    "them.");
  drawCurves("rates", [{...newest.rates, colour: colourOf(2)}], {unit: "measurements"});
  drawCurves("metrics", newest.metrics.map(({name, curve}, i) =>
    ({...curve, name, colour: colourOf(i), dash: dashOf(i)})), {unit: "values"});
  const names = byId("metric-names");
  while (names.children.length > newest.metrics.length) names.lastChild.remove();
  newest.metrics.forEach(({name, value}, i) => {
    const item = names.children[i] ?? names.appendChild(document.createElement("li"));
    item.style.setProperty("--colour", colourOf(i));
    item.textContent = `${name}: ${valueText(value, (metric) => metric.toFixed(4))}`;
  });

  const times = newest.step_ms;
  fillTable("times", times === null ? [] : [
    ["5 % take at most", `${times.p5.toFixed(3)} ms`],
    ["half", `${times.p50.toFixed(3)} ms`],
    ["95 %", `${times.p95.toFixed(3)} ms`],
    ["99 %", `${times.p99.toFixed(3)} ms`],
    [`the longest of the last ${grouped(times.count)}`, `${times.most.toFixed(3)} ms`],
  ]);
  if (newest.memory !== null) drawMemory(newest.memory);
  if (state.timelineStep > 0) {
    const age = newest.timeline_step <= state.timelineStep ? `, recorded ${grouped(newest.timeline_age_s)} s ago` : "";
    setText("timeline-title", `Timeline of step ${grouped(state.timelineStep)}${age}`);
  }
  setNewerTimelineNote(newest);
  drawTimeline();
}

async function ask(path) {
  const answer = await fetch(path, {cache: "no-store", signal: AbortSignal.timeout(kTimeoutMs)});
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

async function askForTimeline() {
  const timeline = await ask("timeline.json");
  if (isTimelineHeld()) return;  // somebody has begun to inspect the one that is shown
  state.timeline = timeline;
  state.timelineStep = state.timeline.step;
  showLongest(state.timeline);
}

/** Returns a number of seconds in words, in steps of ten, so that a screen reader does not read it every second. */
function secondsText(seconds) {
  return `more than ${grouped(Math.floor(seconds / 10) * 10)} s`;
}

/** Returns how the training and the connection are, in words. */
function connectionText() {
  const {newest, lastAnswerAt} = state;
  if (newest?.end) return newest.end.text;
  if (state.hasFailed) {
    const seconds = lastAnswerAt === null ? 0 : (Date.now() - lastAnswerAt) / 1000;
    const since = seconds < kQuietSeconds ? "" : ` for ${secondsText(seconds)}`;
    return `no answer${since}: the program was killed, or it is stopped or cannot be reached`;
  }
  const age = newest.step_age_s;
  return age === null || age < kQuietSeconds ? "connected" : `connected; the newest step was ${secondsText(age)} ago`;
}

function setConnection(text) {
  setText("connection", text);
  byId("connection").className = state.newest?.end?.status ?? "";
}

async function update() {
  try {
    state.newest = await ask("state.json");
    ++state.requests;
    state.lastAnswerAt = Date.now();
    if (state.newest.timeline_step !== state.timelineStep && !isTimelineHeld()) await askForTimeline();
    state.hasFailed = false;
  } catch (error) {
    state.hasFailed = true;
  }
  setConnection(connectionText());
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
    setTimeout(poll, state.newest?.end ? kPeriodAfterEndMs : kPeriodMs);
  }
}

byId("timeline-newest").addEventListener("click", async () => {
  showWholeTimeline(state.timeline);
  setText("operation", "");
  await update();
  byId("timeline").focus();
});
for (const id of ["losses", "rates", "metrics", "memory", "group-memory"]) followPointer(id);
listenToTimeline();
window.addEventListener("resize", tryToDraw);
poll();
