// Reads the page's data: columns of numbers, and the description beside them.

class Column {
  constructor(bytes, begin) {
    this.bytes = bytes;
    this.at = begin;
  }
  next() {
    let number = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = this.bytes[this.at++];
      number += (byte & 127) * scale;
      if (byte < 128) return number;
    }
  }
  nextSigned() {
    const number = this.next();
    return number % 2 === 0 ? number / 2 : -(number + 1) / 2;
  }
}

function decodeBase64(text) {
  const letters = atob(text.trim());
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < bytes.length; ++i) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

// A report with its rows: activities (all lanes after each other), calls and ranges of host threads.
class ReportData {
  constructor(description, bytes) {
    Object.assign(this, description);
    let at = 0;
    this.starts = new Map();
    for (const [name, length] of description.columns) {
      this.starts.set(name, at);
      at += length;
    }
    this.bytes = bytes;
    this.activities = this.readTimes(this.lanes, "begin", "length");
    const count = this.activities.begin.length;
    for (const [name, Kind] of [
      ["name", Uint32Array], ["kind", Uint8Array], ["cause", Uint8Array], ["charged", Float64Array],
      ["call", Int32Array], ["shape", Uint32Array], ["bytes", Float64Array], ["operation", Uint32Array],
    ]) {
      this.activities[name] = this.read(name, count, Kind);
    }
    for (let i = 0; i < count; ++i) this.activities.call[i] -= 1;
    this.callRows = this.readTimes(this.callLanes, "call begin", "call length");
    this.callRows.name = this.read("call name", this.callRows.begin.length, Uint32Array);
    this.callRows.kind = this.read("call kind", this.callRows.begin.length, Uint8Array);
    this.callRows.range = this.read("call range", this.callRows.begin.length, Uint32Array);
    this.callRows.code = this.read("call code", this.callRows.begin.length, Uint32Array);
    this.rangeRows = this.readTimes(this.rangeLanes, "range begin", "range length");
    this.rangeRows.name = this.read("range name", this.rangeRows.begin.length, Uint32Array);
    this.readArrows();
    this.readSpans();
    this.readLosses();
    this.bytes = null;
  }

  column(name) {
    return new Column(this.bytes, this.starts.get(name));
  }

  read(name, count, Kind) {
    const column = this.column(name);
    const numbers = new Kind(count);
    for (let i = 0; i < count; ++i) numbers[i] = column.next();
    return numbers;
  }

  readTimes(lanes, begins, lengths) {
    const count = lanes.reduce((sum, lane) => sum + lane.count, 0);
    const begin = new Float64Array(count);
    const end = new Float64Array(count);
    const beginColumn = this.column(begins);
    const lengthColumn = this.column(lengths);
    let row = 0;
    for (const lane of lanes) {
      lane.first = row;
      let last = this.begin;
      for (let i = 0; i < lane.count; ++i, ++row) {
        last += beginColumn.nextSigned();
        begin[row] = last;
      }
    }
    for (let i = 0; i < count; ++i) end[i] = begin[i] + lengthColumn.next();
    return {begin, end};
  }

  // Arrows, ordered by the begin of the activity that waited.
  readArrows() {
    const from = this.column("arrow from");
    const to = this.column("arrow to");
    const stop = this.starts.get("arrow to");
    this.arrows = [];
    let lastFrom = 0;
    let lastTo = 0;
    while (from.at < stop) {
      lastFrom += from.nextSigned();
      lastTo += to.nextSigned();
      this.arrows.push({from: lastFrom, to: lastTo});
    }
    const begin = this.activities.begin;
    this.arrows.sort((a, b) => begin[a.to] - begin[b.to]);
    this.arrowsTo = new Map();
    this.arrowsFrom = new Map();
    for (const arrow of this.arrows) {
      if (!this.arrowsTo.has(arrow.to)) this.arrowsTo.set(arrow.to, []);
      if (!this.arrowsFrom.has(arrow.from)) this.arrowsFrom.set(arrow.from, []);
      this.arrowsTo.get(arrow.to).push(arrow.from);
      this.arrowsFrom.get(arrow.from).push(arrow.to);
    }
  }

  // The spans of each device, a track for each class and cause.
  readSpans() {
    const lengths = this.column("span length");
    const classes = this.column("span class");
    for (const device of this.devices) {
      const parts = new Map();
      let at = this.begin;
      for (let i = 0; i < device.spans; ++i) {
        const key = classes.next();
        const end = at + lengths.next();
        if (!parts.has(key)) parts.set(key, {begin: [], end: []});
        parts.get(key).begin.push(at);
        parts.get(key).end.push(end);
        at = end;
      }
      device.classes = [...parts].sort((a, b) => a[0] - b[0]).map(([key, times]) => ({
        kind: Math.floor(key / 32),
        cause: key % 32,
        track: new Track(Float64Array.from(times.begin), Float64Array.from(times.end), 0),
      }));
    }
  }

  // The intervals that each finding lost.
  readLosses() {
    const begins = this.column("lost begin");
    const lengths = this.column("lost length");
    for (const finding of this.findings) {
      const begin = new Float64Array(finding.intervals);
      const end = new Float64Array(finding.intervals);
      let last = this.begin;
      for (let i = 0; i < finding.intervals; ++i) {
        last += begins.nextSigned();
        begin[i] = last;
        end[i] = last + lengths.next();
      }
      finding.track = new Track(begin, end, 0);
      finding.order = null;
    }
  }

  laneOf(row) {
    return this.lanes.find((lane) => row >= lane.first && row < lane.first + lane.count);
  }
  callLaneOf(row) {
    return this.callLanes.find((lane) => row >= lane.first && row < lane.first + lane.count);
  }
}

// The places of a finding's losses, the longest first.
function lossesByLength(finding) {
  if (!finding.order) {
    const {begin, end} = finding.track;
    finding.order = Uint32Array.from(begin.keys());
    finding.order.sort((a, b) => end[b] - begin[b] - (end[a] - begin[a]) || a - b);
  }
  return finding.order;
}
