// The report beside the timeline: how the time was spent, findings, notes, and what is selected.

function describeAccounts(report) {
  const section = document.getElementById("accounts");
  section.replaceChildren();
  const window = report.end - report.begin;
  for (const device of report.devices) {
    const times = device.times.filter(([, , time]) => time > 0);
    const rows = [];
    kClassTitles.forEach((title, kind) => {
      const parts = times.filter((time) => time[0] === kind).sort((a, b) => b[2] - a[2]);
      const sum = parts.reduce((all, [, , time]) => all + time, 0);
      if (sum === 0) return;
      const row = (words, time, look, colour) => rows.push(make("tr", {class: look},
        make("td", {}, colour ? swatch(colour) : null, words), make("td", {class: "number"}, duration(time)),
        make("td", {class: "number"}, share(time, window))));
      const named = parts.some(([, cause]) => cause > 0);
      row(title, sum, "class", named ? null : colourOfClass(kind, 0));
      if (!named) return;
      for (const [, cause, time] of parts) row(causes[cause - 1].id, time, "part", colourOfClass(kind, cause));
    });
    rows.push(make("tr", {class: "sum"}, make("td", {}, "the window"),
      make("td", {class: "number"}, duration(window)), make("td", {class: "number"}, share(window, window))));
    const bar = make("div", {class: "share", "aria-hidden": "true"}, ...times.map(([kind, cause, time]) =>
      make("span", {style: {width: `${(100 * time) / Math.max(window, 1)}%`, background: colourOfClass(kind, cause)}})));
    const atOnce = device.atOnce.map((time, n) => (time > 0 ? `${n}: ${share(time, window)}` : null)).filter(Boolean);
    section.append(make("div", {class: "card", style: {marginBottom: "8px"}},
      make("h2", {}, text(device.title)), bar, make("table", {}, make("tbody", {}, ...rows)),
      make("p", {class: "faint", style: {margin: "6px 0 0"}},
        `busy ${share(device.busy, window)}; activities at once: ${atOnce.join(", ")}`),
      ...describeFigures(device, window)));
  }
  if (report.unrecorded) {
    section.append(make("p", {class: "faint"}, report.unrecorded));
  }
  if (report.leftOut > 0) {
    section.append(make("p", {class: "faint"},
      `The page shows the longest activities and calls; ${grouped(report.leftOut)} shorter ones are left out. ` +
      "The times above count all of them."));
  }
}

function gain(title, [words, range]) {
  return make("p", {}, title, make("span", {class: "gain"}, words), ...(range ? [make("br"), text(range)] : []));
}

// How long the kinds of work and the streams were busy, where there are several.
function describeFigures(device, window) {
  const cell = (time) => make("td", {class: "number", title: duration(time)}, share(time, window));
  const table = (names, rows) => make("table", {class: "figures"},
    make("thead", {}, make("tr", {class: "part"}, ...names.map((name, i) => make("td", i > 0 ? {class: "number"} : {}, name)))),
    make("tbody", {}, ...rows));
  const tables = [];
  const row = (look, name, times) => make("tr", {class: look}, make("td", {}, text(name)), ...times.map(cell));
  if (device.work.length + device.copies.length > 1) {
    // No kernel runs beside kernels.
    const rows = device.work.map(([name, busy, exposed, beside]) =>
      row("", name, name === "kernels" ? [busy, exposed] : [busy, exposed, beside]));
    for (const [name, ...times] of device.copies) rows.push(row("part", name, times));
    tables.push(table(["work", "busy", "exposed", "beside kernels"], rows));
  }
  if (device.streams.length > 1) {
    const streams = [...device.streams].sort((a, b) => b[1] - a[1]);
    tables.push(table(["stream", "busy", "idle", "alone"],
      streams.map(([name, busy, alone]) => row("", name, [busy, window - busy, alone]))));
  }
  return tables;
}

function describeFindings(report) {
  const section = document.getElementById("findings");
  section.replaceChildren();
  const window = report.end - report.begin;
  const count = report.findings.length;
  section.append(make("h2", {}, count === 0 ? "No findings"
    : counted(count, "finding", "findings") + report.order_title));
  if (report.order) section.append(make("p", {class: "faint"}, report.order));
  if (report.together) section.append(gain("Gain of all these fixes, predicted: ", report.together));
  report.findings.forEach((finding, number) => {
    const cause = causes[finding.cause - 1];
    const card = make("article", {class: "card finding", style: {borderLeftColor: kCauseColours[finding.cause]}});
    const where = report.devices.length > 1 ? `, GPU ${finding.device}` : "";
    const times = finding.occurrences > 0 ? `, ${counted(finding.occurrences, "time", "times")}` : "";
    card.append(make("button", {type: "button", "data-finding": number, title: "Show its largest loss",
      onclick: () => chooseFinding(number)},
      make("span", {class: "name"}, make("span", {}, `${number + 1}. ${cause.title}`),
        make("span", {class: "loss"}, share(finding.lost, window))),
      make("span", {class: "faint"}, `${cause.id}${finding.guess ? ", a guess" : ""}, lost: ${duration(finding.lost)}${times}${where}`)));
    const body = make("div", {class: "body"});
    if (finding.prediction) body.append(gain("Gain, predicted: ", finding.prediction));
    body.append(make("p", {}, text(finding.summary)));
    if (finding.advice) body.append(make("p", {class: "advice"}, text(finding.advice)));
    if (finding.overlaps.length > 0) {
      body.append(make("p", {class: "faint"}, "Its gain is in part that of finding " +
        `${finding.overlaps.map((other) => other + 1).join(", ")}: do not add them.`));
    }
    if (finding.intervals > 0) {
      body.append(make("div", {class: "steps"},
        make("button", {type: "button", "aria-label": "Larger loss", onclick: () => stepLoss(number, -1)}, "‹"),
        make("button", {type: "button", "aria-label": "Next smaller loss", onclick: () => stepLoss(number, 1)}, "›"),
        make("span", {class: "faint", id: `loss-${number}`}, counted(finding.intervals, "loss", "losses"))));
    }
    if (finding.evidence.length > 0) {
      body.append(make("ul", {class: "evidence"}, ...finding.evidence.map((evidence) =>
        make("li", {}, make("button", {type: "button", onclick: () => showEvidence(number, evidence)},
          make("span", {class: "faint"}, `${instant(evidence.begin, 1e3)}  `), text(evidence.text))))));
    }
    card.append(body);
    section.append(card);
  });
}

function describeNotes(report) {
  const section = document.getElementById("notes");
  section.replaceChildren();
  if (report.notes.length === 0) return;
  section.append(make("div", {class: "card"}, make("h2", {}, "Notes"), ...report.notes.map((note) =>
    make("p", {class: "faint"}, text(note)))));
}

function describeLegend(report, colouring) {
  const legend = document.getElementById("legend");
  legend.replaceChildren();
  const add = (colour, title) => legend.append(make("span", {class: "key"}, swatch(colour), title));
  add(kOverlapped, "two or more at once");
  add(kAlone, "one alone");
  if (colouring === "kind") {
    const used = new Set(report.activities.kind);
    kKinds.forEach((title, kind) => { if (used.has(kind)) add(kKindColours[kind], title); });
  } else if (colouring === "cause") {
    add(kNoCause, "not held up");
  }
  const used = new Set(report.findings.map((finding) => finding.cause));
  for (const device of report.devices) {
    for (const part of device.classes) if (part.cause > 0) used.add(part.cause);
  }
  for (const cause of [...used].sort((a, b) => a - b)) add(kCauseColours[cause], causes[cause - 1].id);
  if (report.arrows.length > 0) add("transparent", "→ waits for");
}

// What bounded the start of an activity, as far as the page knows: [time, sentence], the latest last.
function boundsOf(report, row) {
  const rows = report.activities;
  const nameOf = (other) => shortName(report.names[rows.name[other]]);
  const bounds = [];
  const call = rows.call[row];
  if (call >= 0) {
    const calls = report.callRows;
    const time = calls.end[call];
    const operation = rows.operation[row] > 0 ? `, in ${report.names[rows.operation[row]]}` : "";
    const line = calls.code[call] > 0 ? `, at ${report.names[calls.code[call]]}` : "";
    bounds.push([time, `Issued by ${report.names[calls.name[call]]} on ${report.callLaneOf(call).title}${operation}${line}, ` +
      `which returned at ${instant(time, 1e3)}, ${duration(rows.begin[row] - time)} ` +
      `${time <= rows.begin[row] ? "before" : "after"} it began.`, {call}]);
  }
  const lane = report.laneOf(row);
  if (row > lane.first) {
    const before = row - 1;
    bounds.push([rows.end[before], `Before it in its stream: ${nameOf(before)}, ended ` +
      `${duration(rows.begin[row] - rows.end[before])} before it began.`, {row: before}]);
  }
  for (const from of report.arrowsTo.get(row) ?? []) {
    bounds.push([rows.end[from], `It waited for ${nameOf(from)} of ${report.laneOf(from).title}, which ended ` +
      `${duration(rows.begin[row] - rows.end[from])} before it began.`, {row: from}]);
  }
  return bounds.sort((a, b) => a[0] - b[0]);
}

function link(target, words) {
  return make("button", {type: "button", class: "link", onclick: () => select(target)}, words);
}

function describeActivity(report, row) {
  const rows = report.activities;
  const facts = make("dl", {class: "facts"});
  const fact = (title, ...words) => facts.append(make("dt", {}, title), make("dd", {}, ...words));
  const lane = report.laneOf(row);
  const length = rows.end[row] - rows.begin[row];
  fact("What", `${kKinds[rows.kind[row]]} on ${lane.title}, ${report.devices[lane.device]?.title ?? ""}`);
  fact("When", `${instant(rows.begin[row])} to ${instant(rows.end[row])}: ${duration(length)}`);
  if (rows.shape[row] > 0) {
    const [gx, gy, gz, bx, by, bz, registers, shared] = report.shapes[rows.shape[row] - 1];
    const sizes = gx >= 0 ? `${gx} x ${gy} x ${gz} blocks of ${bx} x ${by} x ${bz} threads` : "unknown sizes";
    fact("Launch", sizes + (registers >= 0 ? `, ${registers} registers a thread` : "") +
      (shared >= 0 ? `, ${bytesText(shared)} of shared memory a block` : ""));
  }
  if (rows.bytes[row] > 0) {
    const bytes = rows.bytes[row] - 1;
    fact("Bytes", `${bytesText(bytes)}${length > 0 ? `, ${(bytes / length).toFixed(1)} GB/s` : ""}`);
  }
  const bounds = boundsOf(report, row);
  bounds.forEach(([, words, target], i) => {
    const last = i === bounds.length - 1;
    fact(i === 0 ? "Why then" : "", make("span", {class: last ? "last" : ""}, text(words)), " ",
      link(target, "show"), last && bounds.length > 1 ? " (the last of these)" : "");
  });
  if (bounds.length === 0) fact("Why then", "The recording has neither its call nor work before it in its stream.");
  if (rows.cause[row] > 0) {
    const cause = causes[rows.cause[row] - 1];
    const charged = rows.charged[row] > 0 ? `${duration(rows.charged[row])} before it began, ` : "";
    fact("Lost", swatch(kCauseColours[rows.cause[row]]), ` ${charged}${cause.title} (${cause.id})`);
  }
  report.findings.forEach((finding, number) => finding.evidence.forEach((evidence) => {
    if (evidence.row === row || evidence.other === row) fact(`Finding ${number + 1}`, text(evidence.text));
  }));
  const waiting = report.arrowsFrom.get(row) ?? [];
  if (waiting.length > 0) {
    fact("Waited for by", ...waiting.slice(0, 8).flatMap((to) =>
      [link({row: to}, shortName(report.names[rows.name[to]])), ` of ${report.laneOf(to).title}  `]));
  }
  return facts;
}

function describeCall(report, row) {
  const calls = report.callRows;
  const facts = make("dl", {class: "facts"});
  const fact = (title, ...words) => facts.append(make("dt", {}, title), make("dd", {}, ...words));
  fact("What", `call on ${report.callLaneOf(row).title}`);
  fact("When", `${instant(calls.begin[row])} to ${instant(calls.end[row])}: ${duration(calls.end[row] - calls.begin[row])}`);
  if (calls.range[row] > 0) fact("In range", text(report.names[calls.range[row]]));
  if (calls.code[row] > 0) fact("At", text(report.names[calls.code[row]]));
  const issued = report.activities.call.indexOf(row);
  if (issued >= 0) fact("Issued", link({row: issued}, shortName(report.names[report.activities.name[issued]])));
  return facts;
}

function describeSelection(report, target) {
  const section = document.getElementById("details");
  section.replaceChildren();
  section.className = target ? "card" : "";
  if (!target) return;
  const isCall = target.call !== undefined;
  const name = report.names[isCall ? report.callRows.name[target.call] : report.activities.name[target.row]];
  section.append(make("div", {class: "details-head"}, make("h2", {}, text(name || "(no name)")),
    make("button", {type: "button", onclick: zoomToSelection, title: "Zoom to it (Enter)"}, "Zoom"),
    make("button", {type: "button", onclick: () => select(null), title: "Close (Esc)", "aria-label": "Close"}, "×")),
  isCall ? describeCall(report, target.call) : describeActivity(report, target.row));
}
