// SPDX-License-Identifier: Apache-2.0
#include "overlap/predict/late_ranks.hpp"

#include "overlap/find/cause.hpp"
#include "overlap/recording/duration_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace msstream::overlap {
namespace {

std::string name_of(Recording const& rank, std::size_t place) {
  return fmt::format("rank {}", rank.rank == kUnknown ? static_cast<int>(place) : rank.rank);
}

Ns lost_to(Report const& report, Cause cause) {
  Ns lost = 0;
  for (auto const& finding : report.findings) {
    lost += finding.cause == cause ? finding.lost : 0;
  }
  return lost;
}

/// Returns the first finding of the late rank that may be why it was late: it lost more to that
/// than the rank that waited, by a quarter of what that waited. Empty if there is none.
std::string reason_of(Report const& late, Report const& own, Ns waited) {
  auto const first = std::ranges::find_if(late.findings, [&](Finding const& finding) {
    return finding.cause != Cause::true_dependency && finding.cause != Cause::peer_skew &&
           4 * (lost_to(late, finding.cause) - lost_to(own, finding.cause)) >= waited;
  });
  return first == late.findings.end()
             ? std::string(
                   " Its own report finds nothing of which it has more: its kernels may be "
                   "more, or longer.")
             : fmt::format(" Its own report has {}, of which it has more.",
                           text_of(first->cause).id);
}

}  // namespace

void name_late_ranks(std::span<Report> reports,
                     std::span<Recording const> ranks,
                     std::span<Collectives const> collectives) {
  for (std::size_t own = 0; own < reports.size(); ++own) {
    for (auto& finding : reports[own].findings) {
      if (finding.cause != Cause::peer_skew) {
        continue;
      }
      std::vector<Ns> waited(ranks.size());
      std::vector<std::uint64_t> times(ranks.size());
      auto const& recording = ranks[own];
      for (Index i = 0; i < recording.activities.size(); ++i) {
        auto const& activity = recording.activities[i];
        auto const last = collectives[own].waited_for(i);
        if (last != kNone && last != own && is_in(activity.time, reports[own].window) &&
            recording.streams[activity.stream].device == finding.device) {
          waited[last] += collectives[own].waited(i);
          ++times[last];
        }
      }
      auto const most = std::ranges::max_element(waited);
      if (*most <= 0) {
        continue;
      }
      auto const late = static_cast<std::size_t>(most - waited.begin());
      finding.summary += fmt::format(" The longest, {}, for {}, which came last {}.{}",
                                     duration_text(*most),
                                     name_of(ranks[late], late),
                                     count_text(times[late], "time", "times"),
                                     reason_of(reports[late], reports[own], *most));
    }
  }
}

}  // namespace msstream::overlap
