// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/find/cause.hpp"
#include "overlap/recording/recording.hpp"

#include <cstdint>
#include <vector>

namespace msstream::overlap::cases {

/// A program of equal steps with one to three planted causes, which follow from a number, as does
/// all else: its streams, the lengths of its kernels, whether a graph launches some.
class Mixture {
 public:
  explicit Mixture(std::uint32_t number);

  [[nodiscard]] std::vector<Cause> const& causes() const noexcept { return causes_; }
  /// Runs the program, all but one of its causes planted.
  [[nodiscard]] Recording run_without(Cause fixed) const { return build(&fixed); }
  [[nodiscard]] Recording run() const { return build(nullptr); }

 private:
  [[nodiscard]] Recording build(Cause const* fixed) const;
  [[nodiscard]] bool is_planted(Cause cause, Cause const* fixed) const;

  std::uint32_t number_;
  std::vector<Cause> causes_;
};

}  // namespace msstream::overlap::cases
