// SPDX-License-Identifier: Apache-2.0
#include "base/json_writer.hpp"
#include "overlap/show/summary.hpp"
#include "overlap/show/text.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/report/text.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <utility>

namespace msstream::overlap {
namespace {

using detail::JsonWriter;
using Layout = JsonWriter::Layout;
using Look = TextLines::Look;

/// The kernels whose launches differ that a comparison shows.
constexpr std::size_t kShownKernels = 5;

/// The classes of time, ordered as in reports.
using TimeKey = std::pair<TimeClass, std::optional<Cause>>;

std::vector<Change> changes_of_times(Summary::Device const& before, Summary::Device const& after) {
  std::map<TimeKey, Change> changes;
  auto const change_of = [&](Summary::Time const& time) -> Change& {
    auto& change = changes[{time.kind, time.cause}];
    change.kind = time.kind;
    change.cause = time.cause;
    return change;
  };
  for (auto const& time : before.times) {
    change_of(time).before += time.time;
  }
  for (auto const& time : after.times) {
    change_of(time).after += time.time;
  }
  std::vector<Change> out;
  for (auto const& [key, change] : changes) {
    if (change.before != 0 || change.after != 0) {
      out.push_back(change);
    }
  }
  return out;
}

std::vector<Change> changes_of_findings(Summary const& before,
                                        int number_before,
                                        Summary const& after,
                                        int number_after) {
  std::map<Cause, Change> changes;
  for (auto const& finding : before.findings) {
    if (finding.device == number_before) {
      changes[finding.cause].before += finding.lost;
    }
  }
  for (auto const& finding : after.findings) {
    if (finding.device == number_after) {
      changes[finding.cause].after += finding.lost;
    }
  }
  std::vector<Change> out;
  for (auto& [cause, change] : changes) {
    change.cause = cause;
    out.push_back(change);
  }
  std::ranges::stable_sort(out, std::ranges::greater{}, [](Change const& change) {
    return std::abs(change.after - change.before);
  });
  return out;
}

std::string signed_duration(Ns change) {
  return fmt::format("{}{}",
                     change > 0   ? "+"
                     : change < 0 ? "-"
                                  : "",
                     duration_text(std::abs(change)));
}

/// Returns how the second window's length differs from the first one's.
std::string window_text(Ns before, Ns after) {
  auto text = fmt::format("{} → {}", duration_text(before), duration_text(after));
  if (before > 0 && after > 0) {
    bool const shorter = after <= before;
    auto const factor = static_cast<double>(shorter ? before : after) /
                        static_cast<double>(shorter ? after : before);
    text += fmt::format(", {}x as {}", report::fixed(factor, 2), shorter ? "fast" : "slow");
  }
  return text;
}

/// Returns what became of a finding.
std::string_view fate_of(Change const& change) {
  return change.after == 0              ? "gone"
         : change.before == 0           ? "new"
         : change.after < change.before ? "smaller"
         : change.after > change.before ? "larger"
                                        : "equal";
}

class ComparisonText {
 public:
  explicit ComparisonText(TextStyle const& style) : lines_(style) {}

  void write(Comparison const& comparison) {
    before_ = comparison.before.window;
    after_ = comparison.after.window;
    lines_.paragraph(
        "before: ",
        fmt::format(
            "{}: {}", printable(comparison.before.title), printable(comparison.before.verdict)));
    lines_.paragraph(
        "after:  ",
        fmt::format(
            "{}: {}", printable(comparison.after.title), printable(comparison.after.verdict)));
    lines_.paragraph("window: ", window_text(before_, after_), look_of_change(before_, after_));
    write(comparison.work);
    for (auto const& device : comparison.devices) {
      write(device);
    }
    write_missing(comparison.only_before, "the second file");
    write_missing(comparison.only_after, "the first file");
  }
  std::string take() { return lines_.take(); }
  void blank_line() { lines_.line(); }

 private:
  /// Writes whether both did equal work, and the largest differences.
  void write(WorkComparison const& work) {
    bool const is_equal = work.verdict == WorkComparison::Verdict::equal ||
                          work.verdict == WorkComparison::Verdict::similar;
    lines_.paragraph("work:   ", printable(work.text), is_equal ? Look::plain : Look::bad);
    if (work.steps && work.steps->before.count != work.steps->after.count) {
      auto const& [name, before, after] = *work.steps;
      lines_.paragraph("        ",
                       fmt::format("window per range {}: {}",
                                   printable(name),
                                   window_text(before_ / static_cast<Ns>(before.count),
                                               after_ / static_cast<Ns>(after.count))));
    }
    auto kernels = work.differences;
    std::erase_if(kernels, [](auto const& one) { return one.what != "kernel"; });
    auto const shown = std::min(kernels.size(), kShownKernels);
    for (std::size_t i = 0; i < shown; ++i) {
      lines_.line(fit_to("        " + printable(text_of(kernels[i])), lines_.width()));
    }
    if (kernels.size() > shown) {
      lines_.line(fmt::format("        and {} more",
                              count_text(kernels.size() - shown, "kernel", "kernels")));
    }
  }

  static Look look_of_change(Ns before, Ns after) {
    return after < before ? Look::good : after > before ? Look::bad : Look::plain;
  }

  void write(Comparison::Device const& device) {
    lines_.line();
    lines_.line(
        lines_.in(Look::strong,
                  device.before == device.after
                      ? fmt::format("GPU {}", device.before)
                      : fmt::format("GPU {} before, GPU {} after", device.before, device.after)));
    row("busy", device.busy_before, device.busy_after, Look::plain);
    for (auto const& change : device.times) {
      auto label = std::string(title_of(*change.kind));
      label += change.cause ? fmt::format(": {}", text_of(*change.cause).id) : "";
      bool const is_loss = *change.kind == TimeClass::lost || *change.kind == TimeClass::idle;
      row(label,
          change.before,
          change.after,
          is_loss ? look_of_change(change.before, change.after) : Look::plain);
    }
    if (device.findings.empty()) {
      lines_.line("  no findings, before or after");
      return;
    }
    for (auto const& change : device.findings) {
      auto const text = fmt::format("{}: {}, {} → {}",
                                    fate_of(change),
                                    text_of(*change.cause).id,
                                    duration_text(change.before),
                                    duration_text(change.after));
      lines_.paragraph("  finding ", text, look_of_change(change.before, change.after));
    }
  }

  /// Writes which devices have no counterpart.
  void write_missing(std::vector<int> const& numbers, std::string_view other) {
    for (auto const number : numbers) {
      lines_.line();
      lines_.line(fmt::format("GPU {}: not compared, {} has no work of it", number, other));
    }
  }

  void row(std::string_view label, Ns before, Ns after, Look look) {
    // The longest label fits beside the cells in 100 columns; in fewer, it has a line of its own.
    auto const room = lines_.width() > 76 ? std::min<std::size_t>(lines_.width() - 52, 52) : 24;
    std::string shown(label);
    if (width_of(shown) > room) {
      lines_.line("  " + fit_to(shown, lines_.width() - 2));
      shown.clear();
    }
    shown.append(room - width_of(shown), ' ');
    auto const cell = [](std::string text, std::size_t width) {
      auto const used = width_of(text);
      return std::string(used < width ? width - used : 0, ' ') + text;
    };
    lines_.line(fmt::format("  {}{}{} → {}{}  {}",
                            shown,
                            cell(duration_text(before), 10),
                            cell(share_text(before, before_), 8),
                            cell(duration_text(after), 9),
                            cell(share_text(after, after_), 8),
                            lines_.in(look, cell(signed_duration(after - before), 10))));
  }

  TextLines lines_;
  Ns before_ = 0;
  Ns after_ = 0;
};

void write_change(JsonWriter& json, Change const& change) {
  json.begin_object();
  if (change.kind) {
    json.member("class", id_of(*change.kind));
  }
  json.key("cause");
  if (change.cause) {
    json.value(text_of(*change.cause).id);
  } else {
    json.value(std::numeric_limits<double>::quiet_NaN());  // null
  }
  if (!change.kind) {
    json.member("fate", fate_of(change));
  }
  json.member("before_ns", change.before);
  json.member("after_ns", change.after);
  json.end_object();
}

void write_side(JsonWriter& json, std::string_view name, Summary const& side) {
  json.key(name);
  json.begin_object(Layout::lines);
  json.member("title", side.title);
  json.member("verdict", side.verdict);
  json.member("window_ns", side.window);
  json.end_object();
}

void write_work(JsonWriter& json, WorkComparison const& work) {
  json.key("work");
  json.begin_object(Layout::lines);
  json.member("verdict", id_of(work.verdict));
  json.member("text", work.text);
  json.member("kernels_before", work.kernels_before);
  json.member("kernels_after", work.kernels_after);
  json.member("graphs_before", work.graphs_before);
  json.member("graphs_after", work.graphs_after);
  json.key("differences");
  json.begin_array(Layout::lines);
  for (auto const& one : work.differences) {
    json.begin_object();
    json.member("what", one.what);
    json.member("name", one.name);
    json.member("before", one.before);
    json.member("after", one.after);
    json.end_object();
  }
  json.end_array();
  json.end_object();
}

/// Returns the device of a number; a null pointer if there is none.
Summary::Device const* device_of(Summary const& side, int number) {
  auto const found = std::ranges::find(side.devices, number, &Summary::Device::number);
  return found == side.devices.end() ? nullptr : &*found;
}

/// Returns the devices of one side that the other one does not have.
std::vector<int> only_in(Summary const& side, Summary const& other) {
  std::vector<int> numbers;
  for (auto const& device : side.devices) {
    if (device_of(other, device.number) == nullptr) {
      numbers.push_back(device.number);
    }
  }
  return numbers;
}

}  // namespace

std::vector<Comparison> compare(std::span<Summary const> before, std::span<Summary const> after) {
  require(before.size() == after.size(),
          "expected as many ranks in both files, found {} and {}; --rank chooses one",
          before.size(),
          after.size());
  std::vector<Comparison> out;
  for (std::size_t i = 0; i < before.size(); ++i) {
    auto& comparison = out.emplace_back(
        Comparison{before[i], after[i], compare_work(before[i].work, after[i].work), {}, {}, {}});
    auto const add = [&](Summary::Device const& old, Summary::Device const& now) {
      comparison.devices.push_back(
          {old.number,
           now.number,
           changes_of_times(old, now),
           changes_of_findings(before[i], old.number, after[i], now.number),
           old.busy,
           now.busy});
    };
    if (before[i].devices.size() == 1 && after[i].devices.size() == 1) {
      add(before[i].devices.front(), after[i].devices.front());
      continue;
    }
    for (auto const& old : before[i].devices) {
      if (auto const* const now = device_of(after[i], old.number)) {
        add(old, *now);
      }
    }
    comparison.only_before = only_in(before[i], after[i]);
    comparison.only_after = only_in(after[i], before[i]);
  }
  return out;
}

std::string terminal_text(std::span<Comparison const> comparisons, TextStyle const& style) {
  ComparisonText text(style);
  bool is_first = true;
  for (auto const& comparison : comparisons) {
    if (!std::exchange(is_first, false)) {
      text.blank_line();
    }
    text.write(comparison);
  }
  return text.take();
}

std::string json_text(std::span<Comparison const> comparisons) {
  std::string out;
  JsonWriter json(out);
  json.begin_object(Layout::lines);
  json.member("schema", kComparisonSchema);
  json.member("version", kComparisonVersion);
  json.key("comparisons");
  json.begin_array(Layout::lines);
  for (auto const& comparison : comparisons) {
    json.begin_object(Layout::lines);
    write_side(json, "before", comparison.before);
    write_side(json, "after", comparison.after);
    write_work(json, comparison.work);
    json.key("devices");
    json.begin_array(Layout::lines);
    for (auto const& device : comparison.devices) {
      json.begin_object(Layout::lines);
      json.member("before", device.before);
      json.member("after", device.after);
      json.member("busy_before_ns", device.busy_before);
      json.member("busy_after_ns", device.busy_after);
      for (auto const& [name, changes] :
           {std::pair("times", &device.times), std::pair("findings", &device.findings)}) {
        json.key(name);
        json.begin_array(Layout::lines);
        for (auto const& change : *changes) {
          write_change(json, change);
        }
        json.end_array();
      }
      json.end_object();
    }
    json.end_array();
    for (auto const& [name, numbers] : {std::pair("only_before", &comparison.only_before),
                                        std::pair("only_after", &comparison.only_after)}) {
      json.key(name);
      json.begin_array();
      for (auto const number : *numbers) {
        json.value(number);
      }
      json.end_array();
    }
    json.end_object();
  }
  json.end_array();
  json.end_object();
  out += '\n';
  return out;
}

}  // namespace msstream::overlap
