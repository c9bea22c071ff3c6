// Connects the page's parts: what is chosen, the keys, the pointer, search, themes, printing.

const byId = (id) => document.getElementById(id);
const causes = JSON.parse(byId("causes").textContent);
const timeline = new Timeline(byId("timeline"), byId("overview"));
const reports = [];
let report = null;
let selection = null;
let lossAt = 0;

function loadReport(number) {
  if (!reports[number]) {
    const columns = byId(`columns-${number}`);
    reports[number] = new ReportData(JSON.parse(byId(`report-${number}`).textContent), decodeBase64(columns.textContent));
    columns.remove();
  }
  report = reports[number];
  byId("verdict").replaceChildren(text(report.verdict));
  byId("title").replaceChildren(text(report.title));
  describeAccounts(report);
  describeFindings(report);
  describeNotes(report);
  describeLegend(report, timeline.colouring);
  timeline.finding = null;
  timeline.found = null;
  timeline.selected = -1;
  describeSelection(report, null);
  selection = null;
  timeline.show(report);
  search(byId("search").value);
}

function say(words) {
  byId("said").textContent = words;
}

// Selects an activity {row}, a call {call}, or nothing.
function select(target, move = true) {
  selection = target;
  timeline.selected = target?.row ?? -1;
  timeline.selectedCall = target?.call ?? -1;
  describeSelection(report, target);
  if (target && move) {
    const rows = target.call !== undefined ? report.callRows : report.activities;
    const row = target.call ?? target.row;
    timeline.reveal(target.call !== undefined ? "calls" : "activities", row);
    const [begin, end] = timeline.view;
    if (rows.end[row] < begin || rows.begin[row] > end) {
      const middle = (rows.begin[row] + rows.end[row]) / 2;
      timeline.setView(middle - (end - begin) / 2, middle + (end - begin) / 2);
    }
    say(`${shortName(report.names[rows.name[row]])}, ${duration(rows.end[row] - rows.begin[row])}`);
  }
  timeline.draw();
}

function zoomToSelection() {
  if (!selection) return;
  const rows = selection.call !== undefined ? report.callRows : report.activities;
  const row = selection.call ?? selection.row;
  timeline.goTo(rows.begin[row] - (rows.charged?.[row] ?? 0), rows.end[row]);
}

function chooseFinding(number) {
  const finding = report.findings[number];
  timeline.finding = finding;
  document.querySelectorAll(".finding").forEach((card, i) => card.setAttribute("aria-current", String(i === number)));
  lossAt = 0;
  if (finding.intervals > 0) showLoss(number);
  else if (finding.evidence.length > 0) showEvidence(number, finding.evidence[0]);
  timeline.draw();
}

function showLoss(number) {
  const finding = report.findings[number];
  const i = lossesByLength(finding)[lossAt];
  const begin = finding.track.begin[i];
  const end = finding.track.end[i];
  timeline.goTo(begin, end, 1);
  const words = `loss ${grouped(lossAt + 1)} of ${grouped(finding.intervals)}: ${duration(end - begin)}`;
  byId(`loss-${number}`).textContent = words;
  say(words);
  selectAfter(finding, begin, end);
}

// Selects the work that began when a loss ended, or that the finding's evidence names.
function selectAfter(finding, begin, end) {
  for (const lane of report.lanes) {
    for (const track of lane.tracks ?? []) {
      const at = track.firstBeginningAfter(end) - 1;
      if (at >= 0 && track.begin[at] === end) {
        select({row: track.row(at)}, false);
        timeline.reveal("activities", track.row(at));
        return;
      }
    }
  }
  const evidence = finding.evidence.find((one) => one.row !== undefined && one.begin < end && one.end > begin);
  select(evidence ? {row: evidence.row} : null, false);
}

function stepLoss(number, step) {
  if (timeline.finding !== report.findings[number]) {
    chooseFinding(number);
    return;
  }
  lossAt = Math.min(Math.max(lossAt + step, 0), report.findings[number].intervals - 1);
  showLoss(number);
}

function showEvidence(number, evidence) {
  timeline.finding = report.findings[number];
  document.querySelectorAll(".finding").forEach((card, i) => card.setAttribute("aria-current", String(i === number)));
  timeline.goTo(evidence.begin, evidence.end, 1);
  if (evidence.row !== undefined) select({row: evidence.row});
  else if (evidence.call !== undefined) select({call: evidence.call});
}

// Search: finds the activities and calls whose name has a text.
function search(words) {
  const found = {rows: [], calls: [], tracks: new Map(), callTracks: new Map(), at: -1};
  const wanted = words.trim().toLowerCase();
  if (wanted) {
    const matching = report.names.map((name) => name.toLowerCase().includes(wanted));
    const {name, begin} = report.activities;
    for (let row = 0; row < name.length; ++row) if (matching[name[row]]) found.rows.push(row);
    const addTracks = (lanes, times, rows, tracks) => {
      for (const lane of lanes) {
        const from = firstAbove(rows, lane.first - 1, 0, rows.length);
        const to = firstAbove(rows, lane.first + lane.count - 1, from, rows.length);
        if (to > from) tracks.set(lane, trackOfRows(times, rows.slice(from, to)));
      }
    };
    addTracks(report.lanes, report.activities, found.rows, found.tracks);
    found.rows.sort((a, b) => begin[a] - begin[b] || a - b);
    if (found.rows.length === 0) {
      const calls = report.callRows;
      for (let row = 0; row < calls.name.length; ++row) if (matching[calls.name[row]]) found.calls.push(row);
      addTracks(report.callLanes, calls, found.calls, found.callTracks);
    }
  }
  timeline.found = wanted ? found : null;
  const count = found.rows.length + found.calls.length;
  let time = 0;
  for (const row of found.rows) time += report.activities.end[row] - report.activities.begin[row];
  for (const row of found.calls) time += report.callRows.end[row] - report.callRows.begin[row];
  byId("matches").textContent = !wanted ? "" : count === 0 ? "nothing found"
    : `${grouped(count)} ${found.calls.length > 0 ? "calls" : "found"}, ${duration(time)}`;
  byId("next").disabled = byId("previous").disabled = count === 0;
  timeline.draw();
}

function stepMatch(step) {
  const found = timeline.found;
  if (!found) return;
  const list = found.rows.length > 0 ? found.rows : found.calls;
  if (list.length === 0) return;
  found.at = found.at < 0 && step < 0 ? list.length - 1 : (found.at + step + list.length) % list.length;
  select(found.rows.length > 0 ? {row: list[found.at]} : {call: list[found.at]});
  byId("matches").textContent = `${grouped(found.at + 1)} of ${grouped(list.length)}`;
}

// Selects the neighbour of the selected activity in its stream.
function stepActivity(step) {
  if (selection?.row === undefined) {
    const begin = report.activities.begin;
    for (let row = 0; row < begin.length; ++row) {
      if (begin[row] >= timeline.view[0]) { select({row}); return; }
    }
    return;
  }
  const lane = report.laneOf(selection.row);
  const row = selection.row + step;
  if (row >= lane.first && row < lane.first + lane.count) select({row});
}

const kKeys = [
  ["+ - or w s", "zoom in, out"], ["← → or a d", "pan"], ["↑ ↓", "scroll the lanes"], ["0", "the whole window"],
  ["Enter", "zoom to what is selected"], ["[ ]", "the activity before, after, in its stream"],
  ["f", "next finding"], ["n p", "next loss of the finding, the one before"], ["/", "search; Enter: next match"],
  ["Esc", "select nothing"], ["t", "light or dark"], ["?", "these keys"],
];

function nextFinding() {
  if (report.findings.length === 0) return;
  const number = (report.findings.indexOf(timeline.finding) + 1) % report.findings.length;
  chooseFinding(number);
  document.querySelector(`[data-finding="${number}"]`).scrollIntoView({block: "nearest"});
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const chosen = report.findings.indexOf(timeline.finding);
  const actions = {
    "+": () => timeline.zoom(1.5), "=": () => timeline.zoom(1.5), "w": () => timeline.zoom(1.5),
    "-": () => timeline.zoom(1 / 1.5), "s": () => timeline.zoom(1 / 1.5),
    "ArrowLeft": () => timeline.pan(-0.2), "a": () => timeline.pan(-0.2),
    "ArrowRight": () => timeline.pan(0.2), "d": () => timeline.pan(0.2),
    "ArrowUp": () => timeline.scrollBy(-60), "ArrowDown": () => timeline.scrollBy(60),
    "0": () => timeline.setView(timeline.begin, timeline.end), "[": () => stepActivity(-1), "]": () => stepActivity(1),
    "f": nextFinding, "n": () => chosen >= 0 && stepLoss(chosen, 1), "p": () => chosen >= 0 && stepLoss(chosen, -1),
    "/": () => byId("search").focus(), "Escape": () => select(null), "t": switchTheme, "?": showKeys,
  };
  const onButton = event.target.tagName === "BUTTON";
  if (event.key === "Enter" && !onButton) zoomToSelection();
  else if (actions[event.key]) actions[event.key]();
  else return;
  event.preventDefault();
}

function showKeys() {
  const dialog = byId("keys");
  dialog.replaceChildren(make("h2", {}, "Keys and pointer"),
    make("dl", {class: "facts"}, ...kKeys.flatMap(([keys, what]) =>
      [make("dt", {}, make("kbd", {}, keys)), make("dd", {}, what)])),
    make("p", {}, "The wheel zooms where the pointer is, and pans with Shift. Dragging pans; with Shift, or on the " +
      "ruler, it zooms to what is marked. A click selects, a double click zooms to the activity."),
    make("form", {method: "dialog"}, make("button", {}, "Close")));
  dialog.showModal();
}

function applyTheme(theme) {
  document.documentElement.dataset.theme = theme;
  timeline.readTheme();
  timeline.draw();
}
function switchTheme() {
  applyTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
}

function placeIn(element, event) {
  const box = element.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

function showTip(event) {
  const tip = byId("tip");
  const [x, y] = placeIn(timeline.canvas, event);
  const at = timeline.at(x, y);
  tip.hidden = !at;
  if (!at) return;
  if (at.type === "classes") {
    const {kind, cause, track} = at.part;
    tip.replaceChildren(`${kClassTitles[kind]}${cause > 0 ? `: ${causes[cause - 1].id}` : ""}, ` +
      duration(track.end[at.i] - track.begin[at.i]));
  } else {
    const rows = at.type === "calls" ? report.callRows : at.type === "ranges" ? report.rangeRows : report.activities;
    tip.replaceChildren(text(report.names[rows.name[at.row]].slice(0, 200)),
      make("div", {class: "faint"}, `${instant(rows.begin[at.row], 1e3)}, ${duration(rows.end[at.row] - rows.begin[at.row])}` +
        (at.type === "activities" && rows.cause[at.row] > 0 ? `, held up: ${causes[rows.cause[at.row] - 1].id}` : "")));
  }
  const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
  const below = event.clientY + 18 + tip.offsetHeight < innerHeight;
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${below ? event.clientY + 18 : event.clientY - tip.offsetHeight - 10}px`;
}

function listenToTimeline() {
  const canvas = timeline.canvas;
  let drag = null;
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const [x] = placeIn(canvas, event);
    const step = event.deltaMode === 1 ? 30 : 1;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      timeline.pan(((event.deltaX || event.deltaY) * step) / timeline.width);
    } else if (x < kGutter) {
      timeline.scrollBy(event.deltaY * step);
    } else {
      timeline.zoom(Math.exp(-event.deltaY * step * 0.0022), x);
    }
  }, {passive: false});
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const [x, y] = placeIn(canvas, event);
    const marks = event.shiftKey || y < kRuler;
    drag = {x, y, view: timeline.view, scroll: timeline.scroll, moved: false, marks};
    canvas.setPointerCapture(event.pointerId);
    byId("tip").hidden = true;
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = placeIn(canvas, event);
    if (!drag) { showTip(event); return; }
    drag.moved ||= Math.abs(x - drag.x) + Math.abs(y - drag.y) > 3;
    if (!drag.moved) return;
    canvas.classList.add("dragging");
    if (drag.marks) {
      timeline.band = [drag.x, x];
      timeline.draw();
    } else {
      const shift = (drag.x - x) / timeline.scale;
      timeline.setView(drag.view[0] + shift, drag.view[1] + shift);
      timeline.scrollBy(drag.scroll + drag.y - y - timeline.scroll);
    }
  });
  const finish = (event) => {
    if (!drag) return;
    const [x, y] = placeIn(canvas, event);
    if (drag.moved && drag.marks) timeline.setView(...[timeline.time(drag.x), timeline.time(x)].sort((a, b) => a - b));
    if (!drag.moved && event.type === "pointerup") {
      const at = timeline.at(x, y);
      select(at?.type === "activities" ? {row: at.row} : at?.type === "calls" ? {call: at.row} : null, false);
    }
    drag = null;
    timeline.band = null;
    canvas.classList.remove("dragging");
    timeline.draw();
  };
  canvas.addEventListener("pointerup", finish);
  canvas.addEventListener("pointercancel", finish);
  canvas.addEventListener("pointerleave", () => { byId("tip").hidden = true; });
  canvas.addEventListener("dblclick", zoomToSelection);
}

function listenToOverview() {
  const canvas = timeline.overview;
  let from = null;
  const timeAt = (event) => {
    const [x] = placeIn(canvas, event);
    return timeline.begin + (x / canvas.clientWidth) * (timeline.end - timeline.begin);
  };
  canvas.addEventListener("pointerdown", (event) => {
    from = timeAt(event);
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (from === null) return;
    const to = timeAt(event);
    if (Math.abs(to - from) * canvas.clientWidth > 4 * (timeline.end - timeline.begin)) {
      timeline.setView(Math.min(from, to), Math.max(from, to));
    }
  });
  canvas.addEventListener("pointerup", (event) => {
    const to = timeAt(event);
    const half = (timeline.view[1] - timeline.view[0]) / 2;
    if (Math.abs(to - from) * canvas.clientWidth <= 4 * (timeline.end - timeline.begin)) timeline.setView(to - half, to + half);
    from = null;
  });
}

function start() {
  const count = document.querySelectorAll("script.report").length;
  applyTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  loadReport(0);
  if (count > 1) {
    const rank = byId("rank");
    rank.hidden = false;
    for (let i = 0; i < count; ++i) {
      rank.append(make("option", {value: i}, JSON.parse(byId(`report-${i}`).textContent).title));
    }
    rank.addEventListener("change", () => loadReport(Number(rank.value)));
  }
  listenToTimeline();
  listenToOverview();
  document.addEventListener("keydown", onKey);
  byId("search").addEventListener("input", (event) => search(event.target.value));
  byId("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter") stepMatch(event.shiftKey ? -1 : 1);
  });
  byId("next").addEventListener("click", () => stepMatch(1));
  byId("previous").addEventListener("click", () => stepMatch(-1));
  byId("in").addEventListener("click", () => timeline.zoom(1.5));
  byId("out").addEventListener("click", () => timeline.zoom(1 / 1.5));
  byId("all").addEventListener("click", () => timeline.setView(timeline.begin, timeline.end));
  byId("theme").addEventListener("click", switchTheme);
  byId("help").addEventListener("click", showKeys);
  byId("colours").addEventListener("change", (event) => {
    timeline.colouring = event.target.value;
    describeLegend(report, timeline.colouring);
    timeline.draw();
  });
  new ResizeObserver(() => timeline.draw()).observe(timeline.canvas);
  let theme = null;
  addEventListener("beforeprint", () => {
    theme = document.documentElement.dataset.theme;
    applyTheme("light");
    timeline.drawNow();
  });
  addEventListener("afterprint", () => applyTheme(theme));
}

start();
