// Rows that follow each other in time, and levels over time, with sums by which any part of them can be
// drawn at any zoom without a look at each row.

// The first place in [from, to) of an ascending array whose value is above `limit`.
function firstAbove(values, limit, from, to) {
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (values[middle] > limit) to = middle;
    else from = middle + 1;
  }
  return from;
}

// Rows of which none overlaps another one, ordered by time. `base` is the number of the first row; where
// `rows` is given, it has the number of each.
class Track {
  constructor(begin, end, base, rows = null) {
    this.begin = begin;
    this.end = end;
    this.base = base;
    this.rows = rows;
    this.sums = new Float64Array(begin.length + 1);
    for (let i = 0; i < begin.length; ++i) this.sums[i + 1] = this.sums[i] + (end[i] - begin[i]);
  }
  get length() {
    return this.begin.length;
  }
  row(i) {
    return this.rows ? this.rows[i] : this.base + i;
  }
  firstEndingAfter(time, from = 0) {
    return firstAbove(this.end, time, from, this.end.length);
  }
  firstBeginningAfter(time, from = 0) {
    return firstAbove(this.begin, time, from, this.begin.length);
  }
  // The time of the rows before `time`.
  sumUntil(time, from = 0) {
    const i = this.firstEndingAfter(time, from);
    return this.sums[i] + (i < this.length ? Math.max(0, time - this.begin[i]) : 0);
  }
  at(time, tolerance = 0) {
    const i = this.firstEndingAfter(time - tolerance);
    return i < this.length && this.begin[i] <= time + tolerance ? i : -1;
  }
}

const kMostDepth = 24;

// Divides rows of [first, first + count), ordered by begin, into tracks: those that begin while another one
// runs go one deeper. The deepest track has those that overlap joined.
function tracksOf(times, first, count) {
  const depths = new Uint8Array(count);
  const ends = [-Infinity];
  for (let i = 0; i < count; ++i) {
    const row = first + i;
    let depth = 0;
    while (depth < ends.length && ends[depth] > times.begin[row]) ++depth;
    depth = Math.min(depth, kMostDepth - 1);
    depths[i] = depth;
    ends[depth] = Math.max(ends[depth] ?? -Infinity, times.end[row]);
  }
  if (ends.length === 1) {
    return [new Track(times.begin.subarray(first, first + count), times.end.subarray(first, first + count), first)];
  }
  return ends.map((ignored, depth) => {
    const rows = [];
    for (let i = 0; i < count; ++i) if (depths[i] === depth) rows.push(first + i);
    if (depth === kMostDepth - 1) return trackOfRows(times, rows);
    const begin = Float64Array.from(rows, (row) => times.begin[row]);
    const end = Float64Array.from(rows, (row) => times.end[row]);
    return new Track(begin, end, 0, Uint32Array.from(rows));
  });
}

// A track of some rows, which may overlap: those that do are joined for drawing, and keep the first one's number.
function trackOfRows(times, rows) {
  const begin = [];
  const end = [];
  const kept = [];
  for (const row of rows) {
    const last = begin.length - 1;
    if (last >= 0 && times.begin[row] < end[last]) {
      end[last] = Math.max(end[last], times.end[row]);
    } else {
      begin.push(times.begin[row]);
      end.push(times.end[row]);
      kept.push(row);
    }
  }
  return new Track(Float64Array.from(begin), Float64Array.from(end), 0, Uint32Array.from(kept));
}

const kMostLevels = 4;

// How many rows there are at each time, with the integrals of "at least n of them".
class Levels {
  constructor(times, parts) {
    const count = parts.reduce((sum, [first, length]) => sum + length, 0);
    const begins = new Float64Array(count);
    const ends = new Float64Array(count);
    let at = 0;
    for (const [first, length] of parts) {
      begins.set(times.begin.subarray(first, first + length), at);
      ends.set(times.end.subarray(first, first + length), at);
      at += length;
    }
    begins.sort();
    ends.sort();
    this.times = new Float64Array(2 * count);
    this.level = new Uint16Array(2 * count);
    this.most = 0;
    let steps = 0;
    let level = 0;
    for (let b = 0, e = 0; e < count;) {
      const time = b < count && begins[b] < ends[e] ? begins[b] : ends[e];
      while (e < count && ends[e] === time) { ++e; --level; }
      while (b < count && begins[b] === time) { ++b; ++level; }
      this.times[steps] = time;
      this.level[steps++] = Math.max(0, level);
      this.most = Math.max(this.most, level);
    }
    this.times = this.times.subarray(0, steps);
    this.atLeast = [];
    for (let n = 1; n <= Math.min(this.most, kMostLevels); ++n) {
      const sums = new Float64Array(steps);
      for (let i = 1; i < steps; ++i) {
        sums[i] = sums[i - 1] + (this.level[i - 1] >= n ? this.times[i] - this.times[i - 1] : 0);
      }
      this.atLeast.push(sums);
    }
  }
  // Calls visit(n, sum) with the time before `time` that had at least n rows.
  sumsUntil(time, visit) {
    const i = firstAbove(this.times, time, 0, this.times.length) - 1;
    for (let n = 0; n < this.atLeast.length; ++n) {
      visit(n, i < 0 ? 0 : this.atLeast[n][i] + (this.level[i] > n ? time - this.times[i] : 0));
    }
  }
}
