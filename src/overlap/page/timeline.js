// Draws the timeline on its canvas, and finds what is at a point of it.

class Timeline extends TimelineView {
  // Takes the colours of the page's style, and makes the canvas as sharp as the screen.
  prepare(canvas) {
    const ratio = window.devicePixelRatio || 1;
    const width = Math.round(canvas.clientWidth * ratio);
    const height = Math.round(canvas.clientHeight * ratio);
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    context.textBaseline = "middle";
    context.direction = "ltr";
    return context;
  }
  readTheme() {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(name).trim();
    this.theme = {
      card: of("--card"), text: of("--text"), faint: of("--faint"), line: of("--line"), accent: of("--accent"),
    };
    this.overviewImage = null;
  }

  drawNow() {
    if (!this.report || this.width <= kGutter) return;
    if (!this.theme) this.readTheme();
    const began = performance.now();
    const context = this.prepare(this.canvas);
    const height = this.canvas.clientHeight;
    context.font = "11px system-ui, sans-serif";
    context.save();
    context.beginPath();
    context.rect(0, kRuler, this.width, height - kRuler);
    context.clip();
    this.drawLosses(context, height);
    for (const item of this.items) {
      const y = item.y - this.scroll + kRuler;
      if (y + item.height < kRuler || y > height) continue;
      this.drawItem(context, item, y);
    }
    context.save();
    context.beginPath();
    context.rect(kGutter, kRuler, this.width - kGutter, height - kRuler);
    context.clip();
    this.drawArrows(context);
    this.drawSelected(context);
    context.restore();
    context.restore();
    this.drawRuler(context, height);
    if (this.band) {
      const [a, b] = this.band;
      context.fillStyle = this.theme.accent;
      context.globalAlpha = 0.18;
      context.fillRect(Math.min(a, b), 0, Math.abs(b - a), height);
      context.globalAlpha = 1;
    }
    this.drawOverview();
    this.drawingTime = performance.now() - began;
    ++this.frames;
  }

  drawRuler(context, height) {
    const length = this.view[1] - this.view[0];
    const wanted = length / Math.max(2, (this.width - kGutter) / 110);
    const power = 10 ** Math.floor(Math.log10(wanted));
    const step = [1, 2, 5, 10].map((n) => n * power).find((candidate) => candidate >= wanted);
    context.fillStyle = this.theme.faint;
    context.strokeStyle = this.theme.line;
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "left";
    context.beginPath();
    for (let time = Math.ceil(this.view[0] / step) * step; time <= this.view[1]; time += step) {
      const x = Math.round(this.x(time)) + 0.5;
      if (x < kGutter) continue;
      context.moveTo(x, kRuler - 6);
      context.lineTo(x, kRuler);
      context.fillText(instant(time, step), x + 3, 10);
    }
    context.moveTo(0, kRuler - 0.5);
    context.lineTo(this.width, kRuler - 0.5);
    context.moveTo(kGutter - 0.5, 0);
    context.lineTo(kGutter - 0.5, height);
    context.stroke();
    context.fillText(`${duration(length)} shown`, 8, 12);
  }

  drawItem(context, item, y) {
    if (item.type === "title") {
      context.fillStyle = this.theme.text;
      context.font = "600 11px system-ui, sans-serif";
      context.textAlign = "left";
      context.fillText(item.title, 8, y + item.height / 2 + 2);
      context.font = "11px system-ui, sans-serif";
      return;
    }
    context.fillStyle = this.theme.faint;
    context.textAlign = "left";
    context.fillText(fitted(context, item.title, kGutter - 16), 8, y + item.height / 2);
    context.save();
    context.beginPath();
    context.rect(kGutter, y, this.width - kGutter, item.height);
    context.clip();
    if (item.type === "classes") this.drawClasses(context, item.device, y + 3, item.height - 6);
    else if (item.type === "levels") this.drawLevels(context, item.device.levels, y + 4, item.height - 6);
    else this.drawLane(context, item, y + 2, item.height - 4);
    context.restore();
  }

  drawClasses(context, device, y, height, from = kGutter, to = this.width, view = this.view) {
    const scale = (to - from) / (view[1] - view[0]);
    const last = new Map();
    const ats = new Map();
    for (const part of device.classes) {
      ats.set(part, part.track.firstEndingAfter(view[0]));
      last.set(part, part.track.sumUntil(view[0], ats.get(part)));
    }
    for (let x = from; x < to; ++x) {
      const time = view[0] + (x + 1 - from) / scale;
      let top = y;
      for (const part of device.classes) {
        const at = part.track.firstEndingAfter(time, ats.get(part));
        const sum = part.track.sumUntil(time, at);
        const size = (sum - last.get(part)) * scale * height;
        last.set(part, sum);
        ats.set(part, at);
        if (size > 0.01) {
          context.fillStyle = colourOfClass(part.kind, part.cause);
          context.fillRect(x, top, 1, size);
          top += size;
        }
      }
    }
  }

  drawLevels(context, levels, y, height) {
    const most = Math.max(1, levels.atLeast.length);
    const last = levels.atLeast.map(() => 0);
    levels.sumsUntil(this.view[0], (n, sum) => { last[n] = sum; });
    const colours = [kAlone, kOverlapped, "#2f8f58", "#1f6f42"];
    for (let x = kGutter; x < this.width; ++x) {
      let top = y + height;
      levels.sumsUntil(this.time(x + 1), (n, sum) => {
        const size = (sum - last[n]) * this.scale * (height / most);
        last[n] = sum;
        context.fillStyle = colours[n];
        top -= size;
        if (size > 0.01) context.fillRect(x, top, 1, size);
      });
    }
    context.strokeStyle = this.theme.line;
    context.beginPath();
    context.moveTo(kGutter, y + height + 0.5);
    context.lineTo(this.width, y + height + 0.5);
    context.stroke();
  }

  colourOfRow(row) {
    const rows = this.report.activities;
    if (this.colouring === "name") return colourOfName(rows.name[row]);
    if (this.colouring === "kind") return kKindColours[rows.kind[row]];
    return kCauseColours[rows.cause[row]];
  }

  drawLane(context, item, y, height) {
    const rows = this.report.activities;
    const names = this.report.names;
    if (item.type === "activities") {
      this.drawCharged(context, item.track, y, height);
      this.drawTrack(context, item.track, y, height, (row) => this.colourOfRow(row), (row) => names[rows.name[row]]);
    } else if (item.type === "calls") {
      const calls = this.report.callRows;
      this.drawTrack(context, item.track, y, height, (row) => kCallColours[calls.kind[row]] ?? kCallColours[0],
        (row) => names[calls.name[row]]);
    } else {
      this.drawTrack(context, item.track, y, height, (row) => colourOfName(this.report.rangeRows.name[row]),
        (row) => names[this.report.rangeRows.name[row]]);
    }
    if (this.found && item.type !== "ranges") {
      const found = item.type === "calls" ? this.found.callTracks.get(item.lane)
        : this.found.tracks.get(item.lane);
      if (found && item.track === item.lane.tracks[0]) {
        this.drawTrack(context, found, y, height, () => "#ffd84d", null);
      }
    }
  }

  // Draws the time for which an activity was held up, before it, in the colour of the cause.
  drawCharged(context, track, y, height) {
    const rows = this.report.activities;
    const first = track.firstEndingAfter(this.view[0]);
    const last = Math.min(track.length, track.firstBeginningAfter(this.view[1]) + 1);
    if (last - first > 2 * this.width) return;
    for (let i = first; i < last; ++i) {
      const row = track.row(i);
      if (rows.charged[row] === 0) continue;
      const to = this.x(rows.begin[row]);
      const from = this.x(rows.begin[row] - rows.charged[row]);
      if (to - from < 1) continue;
      context.fillStyle = kCauseColours[rows.cause[row]];
      context.globalAlpha = 0.22;
      context.fillRect(from, y, to - from, height);
      context.globalAlpha = 1;
      context.fillRect(from, y + height - 2, to - from, 2);
    }
  }

  drawTrack(context, track, y, height, colourOf, nameOf) {
    const first = track.firstEndingAfter(this.view[0]);
    const last = track.firstBeginningAfter(this.view[1], first);
    if (last - first > 2 * this.width) {
      this.drawDense(context, track, first, y, height, colourOf);
      return;
    }
    for (let i = first; i < last; ++i) {
      const row = track.row(i);
      const from = this.x(track.begin[i]);
      const width = Math.max(this.x(track.end[i]) - from, 1);
      const colour = colourOf(row);
      context.fillStyle = colour;
      context.fillRect(from, y, width > 3 ? width - 0.5 : width, height);
      if (nameOf && width > 26) {
        const left = Math.max(from, kGutter) + 4;
        const room = Math.min(from + width, this.width) - left - 3;
        if (room > 18) {
          context.fillStyle = inkOn(colour);
          context.textAlign = "left";
          context.fillText(fitted(context, shortName(nameOf(row)), room), left, y + height / 2 + 0.5);
        }
      }
    }
  }

  // Draws more rows than pixels: each pixel as full as its time is busy.
  drawDense(context, track, first, y, height, colourOf, strength = 1) {
    let at = first;
    let last = track.sumUntil(this.view[0], first);
    for (let x = kGutter; x < this.width; ++x) {
      const time = this.time(x + 1);
      const next = track.firstEndingAfter(time, at);
      const sum = track.sumUntil(time, next);
      const part = (sum - last) * this.scale;
      last = sum;
      if (part > 0.001 && at < track.length) {
        context.fillStyle = colourOf(track.row(Math.min((at + next) >>> 1, track.length - 1)));
        context.globalAlpha = strength * (0.25 + 0.75 * Math.min(part, 1));
        context.fillRect(x, y, 1, height);
      }
      at = next;
    }
    context.globalAlpha = 1;
  }

  // Shades the time that the chosen finding lost.
  drawLosses(context, height) {
    if (!this.finding) return;
    const track = this.finding.track;
    context.fillStyle = kCauseColours[this.finding.cause];
    const first = track.firstEndingAfter(this.view[0]);
    const last = track.firstBeginningAfter(this.view[1], first);
    context.globalAlpha = 0.14;
    if (last - first > 2 * this.width) {
      this.drawDense(context, track, first, kRuler, height - kRuler, () => kCauseColours[this.finding.cause],
        0.14);
    } else {
      for (let i = first; i < last; ++i) {
        const from = Math.max(kGutter, this.x(track.begin[i]));
        const to = this.x(track.end[i]);
        if (to > from) context.fillRect(from, kRuler, Math.max(1, to - from), height - kRuler);
      }
    }
    context.globalAlpha = 1;
  }

  // The middle of a row's lane, and whether it is in sight.
  yOf(row) {
    const lane = this.report.laneOf(row);
    const items = this.items.filter((item) => item.lane === lane && item.type === "activities");
    const begin = this.report.activities.begin[row];
    const item = items.find((candidate) => {
      const i = candidate.track.firstBeginningAfter(begin) - 1;
      for (let at = i; at >= 0 && candidate.track.begin[at] === begin; --at) {
        if (candidate.track.row(at) === row) return true;
      }
      return false;
    }) ?? items[0];
    return item ? item.y - this.scroll + kRuler + item.height / 2 : 0;
  }

  drawArrow(context, from, to, strong) {
    const rows = this.report.activities;
    const x0 = this.x(rows.end[from]);
    const x1 = this.x(rows.begin[to]);
    const y0 = this.yOf(from);
    const y1 = this.yOf(to);
    context.globalAlpha = strong ? 1 : 0.45;
    context.strokeStyle = strong ? this.theme.accent : this.theme.text;
    context.fillStyle = context.strokeStyle;
    context.lineWidth = strong ? 2 : 1;
    const bend = Math.min(Math.max(Math.abs(x1 - x0) / 2, 12), 60);
    context.beginPath();
    context.moveTo(x0, y0);
    context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1 - 1, y1);
    context.stroke();
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x1 - 6, y1 - 3.5);
    context.lineTo(x1 - 6, y1 + 3.5);
    context.fill();
    context.globalAlpha = 1;
    context.lineWidth = 1;
  }

  drawArrows(context) {
    const {arrows, activities} = this.report;
    let low = 0;
    let high = arrows.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (activities.begin[arrows[middle].to] >= this.view[0]) high = middle;
      else low = middle + 1;
    }
    const visible = [];
    for (let i = low; i < arrows.length && activities.begin[arrows[i].to] <= this.view[1]; ++i) {
      visible.push(arrows[i]);
      if (visible.length > 400) break;
    }
    if (visible.length <= 400) {
      for (const {from, to} of visible) this.drawArrow(context, from, to, false);
    }
    if (this.selected >= 0) {
      for (const from of this.report.arrowsTo.get(this.selected) ?? []) this.drawArrow(context, from, this.selected, true);
      for (const to of this.report.arrowsFrom.get(this.selected) ?? []) this.drawArrow(context, this.selected, to, true);
    }
  }

  drawSelected(context) {
    const outline = (begin, end, y, height) => {
      const from = this.x(begin);
      context.strokeStyle = this.theme.text;
      context.lineWidth = 2;
      context.strokeRect(from - 1, y - height / 2, Math.max(this.x(end) - from, 2) + 2, height);
      context.lineWidth = 1;
    };
    const rows = this.report.activities;
    if (this.selected >= 0) {
      outline(rows.begin[this.selected], rows.end[this.selected], this.yOf(this.selected), 24);
      const call = rows.call[this.selected];
      if (call >= 0) this.drawIssue(context, call, this.selected);
    }
    if (this.selectedCall >= 0) this.outlineCall(context, this.selectedCall, this.theme.text);
  }

  // Draws a frame around a call. Returns its upper edge, or null if its lane is not shown.
  outlineCall(context, call, colour) {
    const lane = this.report.callLaneOf(call);
    const item = this.items.find((candidate) => candidate.type === "calls" && candidate.lane === lane);
    if (!item) return null;
    const calls = this.report.callRows;
    const y = item.y - this.scroll + kRuler;
    context.strokeStyle = colour;
    context.lineWidth = 2;
    context.strokeRect(this.x(calls.begin[call]) - 1, y + 1,
      Math.max((calls.end[call] - calls.begin[call]) * this.scale, 2) + 2, item.height - 2);
    context.lineWidth = 1;
    return y;
  }

  // Draws a line from the call that issued an activity to the activity.
  drawIssue(context, call, row) {
    const y = this.outlineCall(context, call, this.theme.accent);
    if (y === null) return;
    context.strokeStyle = this.theme.accent;
    context.lineWidth = 1;
    context.setLineDash([4, 3]);
    context.beginPath();
    context.moveTo(this.x(this.report.callRows.end[call]), y);
    context.lineTo(this.x(this.report.activities.begin[row]), this.yOf(row) + 12);
    context.stroke();
    context.setLineDash([]);
  }

  drawOverview() {
    const canvas = this.overview;
    const context = this.prepare(canvas);
    const width = canvas.clientWidth;
    const height = canvas.clientHeight;
    const device = this.report.devices[0];
    if (!this.overviewImage || this.overviewImage.width !== canvas.width) {
      if (device) this.drawClasses(context, device, 8, height - 16, 0, width, [this.begin, this.end]);
      this.overviewImage = document.createElement("canvas");
      this.overviewImage.width = canvas.width;
      this.overviewImage.height = canvas.height;
      if (canvas.width > 0 && canvas.height > 0) this.overviewImage.getContext("2d").drawImage(canvas, 0, 0);
    } else if (canvas.width > 0 && canvas.height > 0) {
      context.drawImage(this.overviewImage, 0, 0, width, height);
    }
    const whole = this.end - this.begin;
    const from = ((this.view[0] - this.begin) / whole) * width;
    const to = ((this.view[1] - this.begin) / whole) * width;
    context.fillStyle = this.theme.card;
    context.globalAlpha = 0.6;
    context.fillRect(0, 0, Math.max(0, from), height);
    context.fillRect(to, 0, Math.max(0, width - to), height);
    context.globalAlpha = 1;
    context.strokeStyle = this.theme.accent;
    context.lineWidth = 2;
    context.strokeRect(Math.max(from, 1), 1, Math.max(Math.min(to, width - 1) - Math.max(from, 1), 3), height - 2);
    context.lineWidth = 1;
  }

  // What is at a point: {type, row}, or {type: "classes", …}; null for nothing.
  at(x, y) {
    if (x < kGutter || y < kRuler) return null;
    const place = y - kRuler + this.scroll;
    const item = this.items.find((candidate) => place >= candidate.y && place < candidate.y + candidate.height);
    if (!item) return null;
    const time = this.time(x);
    if (item.type === "classes") {
      const part = item.device.classes.find((candidate) => candidate.track.at(time) >= 0);
      return part ? {type: "classes", part, i: part.track.at(time)} : null;
    }
    if (!item.track) return null;
    let i = item.track.at(time);
    if (i < 0) i = item.track.at(time, 2 / this.scale);
    return i < 0 ? null : {type: item.type, row: item.track.row(i)};
  }
}
