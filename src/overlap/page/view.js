// The part of the time and of the lanes that the timeline shows.

const kGutter = 148;
const kRuler = 24;

class TimelineView {
  constructor(canvas, overview) {
    this.canvas = canvas;
    this.overview = overview;
    this.context = canvas.getContext("2d");
    this.scroll = 0;
    this.colouring = "cause";
    this.selected = -1;
    this.selectedCall = -1;
    this.finding = null;
    this.found = null;
    this.band = null;
    this.frames = 0;
    this.pending = false;
  }

  // Lays out the lanes of a report, from top to bottom.
  show(report) {
    this.report = report;
    this.begin = report.begin;
    this.end = Math.max(report.end, report.begin + 1);
    this.view = [this.begin, this.end];
    this.items = [];
    let y = 0;
    const add = (item) => {
      this.items.push({...item, y});
      y += item.height;
    };
    report.devices.forEach((device, place) => {
      const lanes = report.lanes.filter((lane) => lane.device === place);
      add({type: "title", title: device.title, height: 24});
      add({type: "classes", title: "where the time went", device, height: 26});
      device.levels ??= new Levels(report.activities, lanes.map((lane) => [lane.first, lane.count]));
      add({type: "levels", title: "at once", device, height: 46});
      for (const lane of lanes) {
        lane.tracks ??= tracksOf(report.activities, lane.first, lane.count);
        lane.tracks.forEach((track, depth) => add({
          type: "activities", title: depth === 0 ? lane.title : "", lane, track, height: 26,
        }));
      }
    });
    const threads = [...new Set([...report.rangeLanes, ...report.callLanes].map((lane) => lane.thread))];
    for (const thread of threads) {
      const ranges = report.rangeLanes.find((lane) => lane.thread === thread);
      const calls = report.callLanes.find((lane) => lane.thread === thread);
      add({type: "title", title: `Host: ${(ranges ?? calls).title}`, height: 24});
      for (const [lane, times, type, title] of [
        [ranges, report.rangeRows, "ranges", "ranges"], [calls, report.callRows, "calls", "CUDA calls"],
      ]) {
        if (!lane) continue;
        lane.tracks ??= tracksOf(times, lane.first, lane.count);
        lane.tracks.forEach((track, depth) => add({type, title: depth === 0 ? title : "", lane, track, height: 18}));
      }
    }
    this.height = y + 8;
    this.scroll = 0;
    this.overviewImage = null;
    this.draw();
  }

  get width() { return this.canvas.clientWidth; }
  get scale() { return (this.width - kGutter) / (this.view[1] - this.view[0]); }
  x(time) { return kGutter + (time - this.view[0]) * this.scale; }
  time(x) { return this.view[0] + (x - kGutter) / this.scale; }

  setView(begin, end) {
    const whole = this.end - this.begin;
    const length = Math.min(Math.max(end - begin, 20), whole * 1.1);
    const middle = (begin + end) / 2;
    const least = this.begin - whole * 0.05;
    const from = Math.min(Math.max(middle - length / 2, least), this.end + whole * 0.05 - length);
    this.view = [from, from + length];
    this.draw();
  }
  zoom(factor, at = kGutter + (this.width - kGutter) / 2) {
    const time = this.time(at);
    const [begin, end] = this.view;
    const length = Math.min(Math.max((end - begin) / factor, 20), (this.end - this.begin) * 1.1);
    const part = (time - begin) / (end - begin);
    this.setView(time - length * part, time + length * (1 - part));
  }
  pan(part) {
    const length = this.view[1] - this.view[0];
    this.setView(this.view[0] + part * length, this.view[1] + part * length);
  }
  scrollBy(pixels) {
    const most = Math.max(0, this.height + kRuler - this.canvas.clientHeight);
    this.scroll = Math.min(Math.max(this.scroll + pixels, 0), most);
    this.draw();
  }
  // Shows a time with some time around it.
  goTo(begin, end, margin = 1.5) {
    const length = Math.max(end - begin, 200);
    this.setView(begin - length * margin, end + length * margin);
  }
  // Scrolls until a row's lane is in sight.
  reveal(type, row) {
    const item = this.items.find((candidate) => candidate.type === type &&
      row >= candidate.lane.first && row < candidate.lane.first + candidate.lane.count);
    if (!item) return;
    const top = item.y - this.scroll;
    const room = this.canvas.clientHeight - kRuler;
    if (top < 0 || top + item.height > room) this.scrollBy(top - room / 2);
  }

  draw() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.drawNow();
    });
  }
}
