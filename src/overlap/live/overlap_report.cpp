// SPDX-License-Identifier: Apache-2.0
#include "overlap/find/find.hpp"
#include "overlap/live/overlap_contents.hpp"
#include "overlap/show/choices.hpp"
#include "overlap/show/page.hpp"
#include "overlap/show/report_json.hpp"
#include "overlap/show/terminal.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/output_file.hpp>
#include <msstream/overlap/report.hpp>

#include <algorithm>
#include <span>
#include <string>
#include <utility>

namespace msstream {

namespace detail {

OverlapContents::OverlapContents(overlap::Recording of, int steps)
    : recording(std::move(of)), report(overlap::find(recording)) {
  report.notes.insert(report.notes.begin(), recording.notes.begin(), recording.notes.end());
  if (recording.source == overlap::kHostSource) {
    for (auto& found : report.findings) {
      if (found.cause == overlap::Cause::unknown) {
        found.advice =
            "Streams of the host runtime are threads: the work may have waited for a processor. "
            "Look at the report of the same steps on a GPU.";
      }
    }
  }
  for (auto const& device : report.devices) {
    for (auto const& time : device.times) {
      times.push_back({.kind = std::string(overlap::id_of(time.kind)),
                       .cause = time.cause ? std::string(text_of(*time.cause).id) : std::string(),
                       .ns = time.time});
    }
  }
  for (auto const& found : report.findings) {
    auto& finding = findings.emplace_back();
    finding.cause = overlap::text_of(found.cause).id;
    finding.summary = found.summary;
    finding.lost_ns = found.lost;
    for (auto const& evidence : found.evidence) {
      finding.evidence.push_back(evidence.text);
    }
    finding.advice = found.advice;
    if (found.prediction) {
      finding.predicted_step_ns = static_cast<double>(found.prediction->after) / steps;
    }
  }
}

}  // namespace detail

OverlapReport::OverlapReport(std::shared_ptr<detail::OverlapContents const> contents)
    : contents_(std::move(contents)) {}

std::vector<OverlapReport::Finding> const& OverlapReport::findings() const& noexcept {
  return contents_->findings;
}
std::vector<OverlapReport::Time> const& OverlapReport::times() const& noexcept {
  return contents_->times;
}
std::int64_t OverlapReport::window_ns() const noexcept {
  return contents_->report.window.length();
}

bool OverlapReport::has(std::string_view cause) const {
  auto const sought = overlap::require_cause(cause);
  return std::ranges::any_of(contents_->report.findings,
                             [&](auto const& finding) { return finding.cause == sought; });
}

std::string OverlapReport::text() const {
  return overlap::terminal_text(contents_->explained(), {});
}
std::string OverlapReport::json() const {
  auto const explained = contents_->explained();
  return overlap::json_text(std::span(&explained, 1));
}
std::string OverlapReport::html() const {
  auto const explained = contents_->explained();
  return overlap::html_text(std::span(&explained, 1));
}

void OverlapReport::write(std::filesystem::path const& path) const {
  auto const end = path.extension();
  require(end == ".html" || end == ".json" || end == ".txt",
          "OverlapReport::write: expected a path that ends with .html, .json or .txt, found {}",
          path.string());
  write_file(path,
             end == ".html"   ? html()
             : end == ".json" ? json()
                              : text(),
             OutputFile::Kind::streamed);
}

}  // namespace msstream
