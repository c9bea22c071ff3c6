// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stream/stream_group.hpp"

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace msstream::detail {

/// The libraries of the twins in several captures whose graphs never run concurrently. Each capture
/// reuses the libraries of the one before. Not synchronised.
class TwinLibraries {
 public:
  using Libraries = std::shared_ptr<GroupLibraries>;

  /// `lender` is a group whose own libraries its twins use, which requires that the graphs run one
  /// after the other with its work; null if there is none.
  explicit TwinLibraries(std::shared_ptr<StreamGroup> lender = nullptr)
      : lender_(std::move(lender)) {}

  [[nodiscard]] StreamGroup* lender() const noexcept { return lender_.get(); }

  /// Makes all libraries available again, for the capture that begins.
  void begin() noexcept { taken_ = 0; }
  /// Returns libraries that no other twin of this capture uses.
  [[nodiscard]] Libraries take_for(StreamGroup const& group) {
    if (&group == lender_.get()) {
      return lender_->libraries();
    }
    if (taken_ == made_.size()) {
      auto const& context = *group.context();
      made_.push_back(std::make_shared<GroupLibraries>(context.runtime, context.libraries));
    }
    return made_[taken_++];
  }

 private:
  std::shared_ptr<StreamGroup> lender_;
  std::vector<Libraries> made_;
  std::size_t taken_ = 0;  ///< the number of leading elements of `made_` in use
};

}  // namespace msstream::detail
