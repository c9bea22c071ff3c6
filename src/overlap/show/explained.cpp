// SPDX-License-Identifier: Apache-2.0
#include "overlap/show/explained.hpp"

#include "overlap/find/words.hpp"
#include "overlap/show/text.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/report/text.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream::overlap {

std::string_view id_of(TimeClass kind) noexcept {
  switch (kind) {
    case TimeClass::overlapped:
      return "overlapped";
    case TimeClass::alone:
      return "alone";
    case TimeClass::lost:
      return "lost";
    case TimeClass::idle:
      break;
  }
  return "idle";
}

std::string_view title_of(TimeClass kind) noexcept {
  switch (kind) {
    case TimeClass::overlapped:
      return "two or more at once";
    case TimeClass::alone:
      return "one alone, nothing to run beside it";
    case TimeClass::lost:
      return "one alone, others waited";
    case TimeClass::idle:
      break;
  }
  return "idle";
}

std::string title_of(Recording const& recording) {
  std::string out = printable(recording.program);
  if (recording.rank != kUnknown) {
    out += fmt::format("{}rank {}", out.empty() ? "" : ", ", recording.rank);
    out += recording.ranks != kUnknown ? fmt::format(" of {}", recording.ranks) : "";
  }
  auto const file = printable(std::filesystem::path(recording.origin).filename().string());
  auto const from = file + (recording.source.empty() ? "" : ", " + printable(recording.source));
  return out.empty() ? from : fmt::format("{} ({})", out, from);
}

std::string title_of(Device const& device) {
  std::string out = device.number == kUnknown ? "" : fmt::format("GPU {}", device.number);
  if (!device.name.empty()) {
    out += (out.empty() ? "" : ", ") + printable(device.name);
  }
  if (device.sms != kUnknown) {
    out += fmt::format(", {} multiprocessors", device.sms);
  }
  return out;
}

std::string title_of(Recording const& recording, Stream const& stream) {
  auto out = recording.text_of_stream(stream);
  if (auto const name = recording.names[stream.name];
      !name.empty() && name != fmt::format("stream {}", stream.number)) {
    out += fmt::format(" ({})", printable(name));
  } else if (stream.type == StreamType::legacy) {
    out += " (legacy default)";
  }
  return out;
}

std::vector<std::string> notes_of(Explained const& explained) {
  auto notes = explained.report.notes;
  for (auto note : explained.recording.notes) {
    if (!note.empty() && note.front() >= 'a' && note.front() <= 'z') {
      note.front() = static_cast<char>(note.front() - 'a' + 'A');
    }
    note += note.ends_with('.') ? "" : ".";
    notes.push_back(std::move(note));
  }
  return notes;
}

namespace {

std::string gain_of(Ns before, Ns after) {
  return after >= before ? std::string("nothing") : duration_text(before - after);
}

}  // namespace

std::string gain_text(Prediction const& prediction) {
  auto const& [before, after, range] = prediction;
  auto const factor =
      after > 0
          ? fmt::format(", {}x",
                        report::fixed(static_cast<double>(before) / static_cast<double>(after), 2))
          : std::string();
  return fmt::format("{} ({} → {}{})",
                     gain_of(before, after),
                     duration_text(before),
                     duration_text(after),
                     factor);
}

std::string gain_range_text(Prediction const& prediction) {
  if (!prediction.range) {
    return {};
  }
  auto const& [before, after, range] = prediction;
  return fmt::format(
      "between {} and {}", gain_of(before, range->most), gain_of(before, range->least));
}

std::string_view order_title(std::vector<Finding> const& findings) {
  bool const by_loss = std::ranges::is_sorted(findings, std::ranges::greater(), &Finding::lost);
  return findings.size() < 2 ? "" : by_loss ? ", the largest loss first" : ", the weightiest first";
}

std::string order_text(std::vector<Finding> const& findings) {
  if (findings.empty()) {
    return {};
  }
  std::string text =
      "Lost is the time of the window that a cause had. Gain is what its fix alone is predicted to "
      "take off the window.";
  auto const best = std::ranges::max_element(findings, {}, [](Finding const& finding) {
    return finding.prediction ? finding.prediction->before - finding.prediction->after : Ns{0};
  });
  if (best != findings.begin()) {
    text += fmt::format(" Finding {} has the largest gain.", best - findings.begin() + 1);
  }
  if (findings.size() > 1 &&
      std::ranges::any_of(findings, [](Finding const& finding) { return finding.is_guess; })) {
    text += " What is a guess weighs half.";
  }
  if (findings.size() > 1 && findings.back().cause == Cause::true_dependency) {
    text += " A chain of work comes last, whatever its length.";
  }
  return text;
}

std::string unrecorded_window_text(Report const& report) {
  auto const& cost = report.recording_cost;
  bool const is_long = cost && 50 * cost->least_window < 49 * report.window.length();
  return is_long ? "the window without recording, an estimate: " + unrecorded_text(*cost) : "";
}

DeviceCounts counts_of(Explained const& explained, Index device) {
  auto const& [recording, report] = explained;
  DeviceCounts counts;
  std::vector<bool> used(recording.streams.size());
  for (auto const& activity : recording.activities) {
    if (is_in(activity.time, report.window) &&
        recording.streams.at(activity.stream).device == device) {
      ++counts.activities;
      used[activity.stream] = true;
    }
  }
  counts.streams = static_cast<std::size_t>(std::ranges::count(used, true));
  return counts;
}

Report only_device(Recording const& recording, Report const& report, int number) {
  auto const has_number = [&](Index device) {
    return recording.devices.at(device).number == number;
  };
  Report out = report;
  std::erase_if(out.devices, [&](auto const& device) { return !has_number(device.device); });
  if (out.devices.empty()) {
    std::string known;
    for (auto const& device : report.devices) {
      known += fmt::format(
          "{}{}", known.empty() ? "" : ", ", recording.devices.at(device.device).number);
    }
    require(false, "{} has no device {}; it has: {}", recording.origin, number, known);
  }
  // Findings refer to others by their place, which changes.
  std::vector<Index> places(report.findings.size(), kNone);
  out.findings.clear();
  for (std::size_t i = 0; i < report.findings.size(); ++i) {
    if (has_number(report.findings[i].device)) {
      places[i] = static_cast<Index>(out.findings.size());
      out.findings.push_back(report.findings[i]);
    }
  }
  for (auto& finding : out.findings) {
    for (auto& other : finding.overlaps_with) {
      other = places.at(other);
    }
    std::erase(finding.overlaps_with, kNone);
  }
  return out;
}

}  // namespace msstream::overlap
