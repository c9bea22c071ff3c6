// SPDX-License-Identifier: Apache-2.0
#include "overlap/predict/lone_rank.hpp"

#include "overlap/predict/busy_times.hpp"
#include "overlap/recording/duration_text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace msstream::overlap {

void note_lone_rank(Report& report, Program const& program, Collectives const& collectives) {
  constexpr Ns kLeastParts = 20;  // of the window
  auto const& recording = program.recording();
  bool const is_one_of_several =
      recording.ranks != 1 && std::ranges::any_of(recording.collectives, [](Collective const& one) {
        return one.ranks != 1;
      });
  if (!is_one_of_several) {
    return;
  }
  for (auto const& device : report.devices) {
    BusyTimes waiting;
    BusyTimes others;
    for (auto const i : program.of_device(device.device)) {
      if (is_in(program.activity(i).time, report.window)) {
        auto& times = collectives.is_one(i) ? waiting : others;
        times.add(clipped(program.activity(i).time, report.window));
      }
    }
    auto const exposed = waiting.length() - waiting.shared_with(others);
    if (exposed > 0 && exposed >= report.window.length() / kLeastParts) {
      report.notes.push_back(fmt::format(
          "GPU {}: collectives ran with nothing beside them for {} ({}). One rank alone does not "
          "tell how much of that they waited for other ranks: give the recordings of several ranks "
          "at once.",
          recording.devices[device.device].number,
          duration_text(exposed),
          share_text(exposed, report.window.length())));
    }
  }
}

}  // namespace msstream::overlap
