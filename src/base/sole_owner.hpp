// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

namespace msstream::detail {

/// Returns whether `owner` is the only owner of its object. If so, all that former owners did with
/// the object happens before the return, so that the object may be changed. There must be no weak
/// owners.
template <typename T>
[[nodiscard]] bool is_sole_owner(std::shared_ptr<T> const& owner) noexcept {
  if (owner.use_count() != 1) {
    return false;
  }
  // use_count() orders nothing. Taking and dropping a reference synchronises with the other owners,
  // who have all dropped theirs: before use_count(), the last of them might drop it in between.
  std::shared_ptr<T>(owner).reset();
  return true;
}

}  // namespace msstream::detail
