// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace msstream::training {

/// The measured times of a step in ms, on each of the stream groups to choose from.
struct TriedGroups {
  enum class Fastest : std::uint8_t { chosen, one_group, own };

  double chosen_ms;  ///< step time on the groups of auto_assignment()
  double one_group_ms;
  double own_ms;  ///< step time on the groups of the model's scopes

  [[nodiscard]] Fastest fastest() const noexcept {
    if (own_ms <= std::min(chosen_ms, one_group_ms)) {
      return Fastest::own;
    }
    return chosen_ms <= one_group_ms ? Fastest::chosen : Fastest::one_group;
  }
};

}  // namespace msstream::training
