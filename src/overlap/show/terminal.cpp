// SPDX-License-Identifier: Apache-2.0
#include "overlap/show/terminal.hpp"

#include "overlap/show/figures.hpp"
#include "overlap/show/text.hpp"

#include <msstream/report/text.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace msstream::overlap {
namespace {

using Look = TextLines::Look;

/// The evidence that a report shows of each finding.
constexpr std::size_t kShownEvidence = 3;
/// The streams that a report shows, the busiest first.
constexpr std::size_t kShownStreams = 8;

std::string spaces(std::size_t count) {
  return std::string(count, ' ');
}

std::string right(std::string_view text, std::size_t width) {
  auto const used = width_of(text);
  return spaces(used < width ? width - used : 0).append(text);
}

std::string left(std::string_view text, std::size_t width) {
  auto const used = width_of(text);
  return std::string(text).append(spaces(used < width ? width - used : 0));
}

std::string bar(double share, std::size_t width) {
  auto const blocks = static_cast<std::size_t>(share * static_cast<double>(width) + 0.5);
  std::string out;
  // Every part gets a block, if there is room for any.
  for (std::size_t i = 0; i < std::min(std::max<std::size_t>(blocks, 1), width); ++i) {
    out += "█";
  }
  return out;
}

/// The unit of a table's times, such that the window has at least four digits.
struct Unit {
  char const* name;
  double ns;
};

Unit unit_of(Ns window) {
  return window < 10'000'000 ? Unit{"µs", 1e3} : Unit{"ms", 1e6};
}

/// Formats thousandths of a unit, such as `1,204.318`.
std::string thousandths(std::int64_t count) {
  return fmt::format("{}.{:03}", report::grouped(count / 1000), count % 1000);
}

class TerminalReport {
 public:
  TerminalReport(Explained const& explained, TextStyle const& style)
      : recording_(explained.recording), report_(explained.report), lines_(style) {}

  std::string text() {
    lines_.paragraph("", title_of(recording_), Look::faint);
    lines_.paragraph("", printable(report_.verdict), Look::title);
    for (auto const& device : report_.devices) {
      lines_.line();
      write(device);
    }
    if (auto const estimate = unrecorded_window_text(report_); !estimate.empty()) {
      lines_.paragraph("  ", estimate, Look::warning);
    }
    write_findings();
    write_together();
    write_notes();
    return lines_.take();
  }

 private:
  /// A row of the accounting: one class and cause.
  struct Row {
    std::string label;
    Look look;
    Ns time;
  };

  void write(DeviceReport const& report) {
    auto const counts = counts_of({recording_, report_}, report.device);
    lines_.paragraph("",
                     fmt::format("{} · {} · {}",
                                 title_of(recording_.devices.at(report.device)),
                                 count_text(counts.streams, "stream", "streams"),
                                 count_text(counts.activities, "activity", "activities")),
                     Look::strong);
    write_times(rows_of(report));
    write_at_once(report);
    auto const figures = figures_of(recording_, report_.window, report.device);
    write_work(figures);
    write_streams(figures);
  }

  [[nodiscard]] static std::vector<Row> rows_of(DeviceReport const& report) {
    std::vector<Row> rows;
    for (auto const& time : report.times) {
      if (time.time > 0) {
        auto label = std::string(title_of(time.kind));
        label += time.cause ? fmt::format(": {}", text_of(*time.cause).id) : "";
        rows.push_back({std::move(label), look_of(time.kind), time.time});
      }
    }
    return rows;
  }

  void write_times(std::vector<Row> const& rows) {
    auto const window = report_.window.length();
    auto const unit = unit_of(window);
    std::vector<double> times;
    std::vector<double> shares;
    std::size_t label_width = width_of("the window");
    for (auto const& row : rows) {
      times.push_back(static_cast<double>(row.time) / unit.ns * 1000);
      shares.push_back(1000.0 * static_cast<double>(row.time) /
                       static_cast<double>(std::max<Ns>(window, 1)));
      label_width = std::max(label_width, width_of(row.label));
    }
    auto const shown_times = rounded_parts(times);
    auto const shown_shares = rounded_parts(shares);
    auto const whole = fmt::format(
        "{} {}",
        thousandths(static_cast<std::int64_t>(static_cast<double>(window) / unit.ns * 1000 + 0.5)),
        unit.name);
    auto const time_width = width_of(whole);
    auto const percent_width = width_of("100.0%");
    // On narrow terminals there are no bars, and long labels have lines of their own.
    auto const fixed = 2 + 2 + time_width + 2 + percent_width;
    label_width = std::min(label_width, lines_.width() > fixed ? lines_.width() - fixed : 8);
    auto const used = fixed + label_width + 2;
    auto const bar_width =
        std::min<std::size_t>(lines_.width() > used ? lines_.width() - used : 0, 30);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      auto const percent = fmt::format("{}.{}%", shown_shares[i] / 10, shown_shares[i] % 10);
      auto label = rows[i].label;
      if (width_of(label) > label_width) {
        lines_.line("  " + fit_to(label, lines_.width() - 2));
        label.clear();
      }
      lines_.line(fmt::format(
          "  {}  {}  {}{}",
          left(label, label_width),
          right(thousandths(shown_times[i]) + " " + unit.name, time_width),
          right(percent, percent_width),
          bar_width == 0 ? "" : "  " + lines_.in(rows[i].look, bar(shares[i] / 1000, bar_width))));
    }
    std::string rule;
    for (std::size_t i = 0; i < fixed - 2 + label_width; ++i) {
      rule += "─";
    }
    lines_.line("  " + lines_.in(Look::faint, rule));
    lines_.line(fmt::format("  {}  {}  {}",
                            left("the window", label_width),
                            whole,
                            right(window > 0 ? "100.0%" : "0.0%", percent_width)));
  }

  void write_at_once(DeviceReport const& report) {
    std::string text = fmt::format("busy {}", share_text(report.busy, report_.window.length()));
    std::string counts;
    constexpr std::size_t kMostCounts = 8;
    Ns more = 0;
    for (std::size_t n = 0; n < report.at_once.size(); ++n) {
      if (n >= kMostCounts) {
        more += report.at_once[n];
      } else if (report.at_once[n] > 0) {
        counts += fmt::format("{}{}: {}",
                              counts.empty() ? "" : ", ",
                              n,
                              share_text(report.at_once[n], report_.window.length()));
      }
    }
    if (more > 0) {
      counts +=
          fmt::format(", {} or more: {}", kMostCounts, share_text(more, report_.window.length()));
    }
    text += counts.empty() ? "" : fmt::format("; activities at once: {}", counts);
    lines_.paragraph("  ", text, Look::faint);
  }

  /// Writes a row of a table: a label, and as many cells as the width has room for.
  void write_cells(std::string_view label, std::span<std::string const> cells, Look look) {
    constexpr std::size_t cell_width = 15;
    constexpr std::size_t least_label = 18;
    auto const most =
        lines_.width() > least_label ? (lines_.width() - least_label) / cell_width : 0;
    auto const count = std::min(cells.size(), most);
    auto const room = std::min<std::size_t>(lines_.width() - 2 - count * cell_width, 30);
    auto row = left(fit_to(label, room), room);
    for (auto const& cell : cells.first(count)) {
      row += right(cell, cell_width);
    }
    lines_.line("  " + lines_.in(look, row));
  }
  void write_head(std::string_view label, std::array<std::string, 3> const& names) {
    write_cells(label, names, Look::faint);
  }
  [[nodiscard]] std::string cell_of(Ns time) const {
    return fmt::format("{} {}",
                       right(duration_text(time), 8),
                       right(share_text(time, report_.window.length()), 5));
  }

  /// Writes the times of the kinds of work, unless all of it is kernels.
  void write_work(Figures const& figures) {
    std::vector<std::pair<std::string, WorkTime>> rows;
    for (std::size_t i = 0; i < kWorkKinds; ++i) {
      auto const kind = static_cast<WorkKind>(i);
      bool const has_one_direction = kind == WorkKind::copies && figures.copies.size() == 1;
      auto label = std::string(id_of(kind));
      if (has_one_direction) {
        label += fmt::format(" {}", copies_text(figures.copies.front()));
      }
      if (figures.of(kind).activities > 0) {
        rows.emplace_back(std::move(label), figures.of(kind));
      }
    }
    if (figures.copies.size() > 1) {
      for (auto const& copies : figures.copies) {
        rows.emplace_back(fmt::format("  {}", copies_text(copies)), copies.time);
      }
    }
    if (rows.size() < 2) {
      return;
    }
    write_head("work", {"busy", "exposed", "beside kernels"});
    for (auto const& [label, time] : rows) {
      bool const is_kernels = label == id_of(WorkKind::kernels);
      std::array const cells{cell_of(time.busy),
                             cell_of(time.exposed),
                             is_kernels ? std::string() : cell_of(time.beside_kernels)};
      write_cells(label, cells, Look::plain);
    }
  }

  /// Writes the times of streams, if there are several.
  void write_streams(Figures const& figures) {
    if (figures.streams.size() < 2) {
      return;
    }
    auto streams = figures.streams;
    std::ranges::stable_sort(streams, std::ranges::greater{}, &StreamTime::busy);
    write_head("stream", {"busy", "idle", "alone"});
    for (std::size_t i = 0; i < std::min(streams.size(), kShownStreams); ++i) {
      auto const& time = streams[i];
      std::array const cells{
          cell_of(time.busy), cell_of(report_.window.length() - time.busy), cell_of(time.alone)};
      write_cells(title_of(recording_, recording_.streams.at(time.stream)), cells, Look::plain);
    }
    if (streams.size() > kShownStreams) {
      lines_.line("  " +
                  lines_.in(Look::faint,
                            fmt::format("and {} streams more", streams.size() - kShownStreams)));
    }
  }

  void write_findings() {
    lines_.line();
    if (report_.findings.empty()) {
      lines_.line(lines_.in(Look::good, "No findings."));
      return;
    }
    auto const count = count_text(report_.findings.size(), "finding", "findings");
    lines_.line(lines_.in(Look::title, fmt::format("{}{}", count, order_title(report_.findings))));
    lines_.paragraph("", order_text(report_.findings), Look::faint);
    for (std::size_t i = 0; i < report_.findings.size(); ++i) {
      write(report_.findings[i], i + 1);
    }
  }

  void write(Finding const& finding, std::size_t number) {
    auto const& text = text_of(finding.cause);
    auto const lead = fmt::format("{}. ", number);
    auto const indent = spaces(width_of(lead));
    lines_.line();
    lines_.paragraph(
        lead,
        fmt::format("{} [{}{}]", text.title, text.id, finding.is_guess ? ", a guess" : ""),
        Look::strong);
    auto loss = fmt::format("lost: {}, {} of the window",
                            duration_text(finding.lost),
                            share_text(finding.lost, report_.window.length()));
    if (finding.occurrences > 0) {
      loss += ", " + count_text(finding.occurrences, "time", "times");
    }
    if (report_.devices.size() > 1) {
      loss += fmt::format(", GPU {}", recording_.devices.at(finding.device).number);
    }
    lines_.paragraph(indent, loss, Look::bad);
    if (finding.prediction) {
      auto const& prediction = *finding.prediction;
      lines_.paragraph(indent, "gain, predicted: " + gain_text(prediction), Look::good);
      if (prediction.range) {
        lines_.paragraph(
            indent,
            fmt::format("gain {}: {}", gain_range_text(prediction), prediction.range->why),
            Look::good);
      }
    }
    lines_.paragraph(indent, printable(finding.summary));
    for (std::size_t i = 0; i < std::min(finding.evidence.size(), kShownEvidence); ++i) {
      auto const& evidence = finding.evidence[i];
      auto const same = [&](Evidence const& other) { return other.text == evidence.text; };
      auto const first = finding.evidence.begin();
      if (std::any_of(first, first + static_cast<std::ptrdiff_t>(i), same)) {
        continue;
      }
      lines_.paragraph(
          indent + "· ",
          fmt::format("at {}: {}", instant_text(evidence.time.begin), printable(evidence.text)),
          Look::faint);
    }
    if (!finding.advice.empty()) {
      lines_.paragraph(indent + "→ ", printable(finding.advice));
    }
    if (!finding.overlaps_with.empty()) {
      std::string others;
      for (auto const other : finding.overlaps_with) {
        others += fmt::format("{}{}", others.empty() ? "" : ", ", other + 1);
      }
      lines_.paragraph(
          indent,
          fmt::format("Its gain is in part that of finding {}: do not add them.", others),
          Look::faint);
    }
  }

  void write_together() {
    if (report_.together) {
      lines_.line();
      lines_.paragraph(
          "", "gain of all these fixes, predicted: " + gain_text(*report_.together), Look::good);
    }
  }

  void write_notes() {
    auto const notes = notes_of({recording_, report_});
    if (notes.empty()) {
      return;
    }
    lines_.line();
    lines_.line(lines_.in(Look::title, "Notes"));
    for (auto const& note : notes) {
      lines_.paragraph("· ", printable(note));
    }
  }

  Recording const& recording_;
  Report const& report_;
  TextLines lines_;
};

}  // namespace

TextLines::Look look_of(TimeClass kind) noexcept {
  switch (kind) {
    case TimeClass::overlapped:
      return Look::good;
    case TimeClass::alone:
      return Look::neutral;
    case TimeClass::lost:
      return Look::warning;
    case TimeClass::idle:
      break;
  }
  return Look::bad;
}

std::string terminal_text(Explained const& explained, TextStyle const& style) {
  return TerminalReport(explained, style).text();
}

}  // namespace msstream::overlap
