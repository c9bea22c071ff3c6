// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/cases/trace_builder.hpp"
#include "overlap/find/cause.hpp"
#include "overlap/recording/recording.hpp"

#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream::overlap::cases {

/// A recording with a known right answer.
struct Case {
  std::string_view name;
  /// The public report that it rebuilds, such as "pytorch/pytorch 48279"; empty if none.
  std::string_view report;
  Cause expected;  ///< of the first finding
  /// A second cause, of a later finding, in cases with two.
  std::optional<Cause> second;
  /// Builds the recording. The fixed twin is the program after the fix, or the same program
  /// recorded with what was missing.
  std::vector<Recording> (*build)(bool fixed);  ///< one recording for each rank
};

inline std::ostream& operator<<(std::ostream& out, Case const& one) {
  return out << one.name;
}

// Each list is in the file of its name.
std::vector<Case> host_cases();        ///< the host did not issue in time
std::vector<Case> order_cases();       ///< streams, waits and hardware queues kept work in order
std::vector<Case> wait_cases();        ///< waits without declared dependencies, copies, priorities
std::vector<Case> device_cases();      ///< the device had no room
std::vector<Case> later_cases();       ///< the same causes in other clothes
std::vector<Case> collective_cases();  ///< collectives held work up
std::vector<Case> paired_cases();      ///< two causes at once
std::vector<Case> unknown_cases();     ///< nobody could tell from what was recorded

/// All of them.
inline std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (auto const& list : {host_cases(),
                           order_cases(),
                           wait_cases(),
                           later_cases(),
                           device_cases(),
                           collective_cases(),
                           paired_cases(),
                           unknown_cases()}) {
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

/// Returns the case of a name; throws std::out_of_range if there is none.
inline Case case_named(std::string_view name) {
  for (auto const& one : all_cases()) {
    if (one.name == name) {
      return one;
    }
  }
  throw std::out_of_range("no case is named " + std::string(name));
}

/// A program in which nothing is wrong.
struct Healthy {
  std::string_view name;
  std::vector<Recording> (*build)();
};
std::vector<Healthy> healthy_cases();
std::vector<Healthy> healthy_wait_cases();
std::vector<Healthy> healthy_later_cases();

/// Puts one recording into a vector, as they cannot be copied into one.
inline std::vector<Recording> one(Recording recording) {
  std::vector<Recording> all;
  all.push_back(std::move(recording));
  return all;
}

}  // namespace msstream::overlap::cases
