// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/stream/stream_group.hpp>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace msstream {

/// The libraries of the twins of captures whose graphs never run beside each other: those of one
/// are used again by the next. Not synchronised.
template <CapturingRuntime R>
class TwinLibraries {
 public:
  using Libraries = std::shared_ptr<GroupLibraries<R>>;

  /// `lender`: a group whose own libraries its twins use, since the graphs come one after the other
  /// with its work; null: there is none.
  explicit TwinLibraries(std::shared_ptr<StreamGroup<R>> lender = nullptr)
      : lender_(std::move(lender)) {}

  [[nodiscard]] StreamGroup<R>* lender() const noexcept { return lender_.get(); }

  /// A capture begins.
  void begin() noexcept { taken_ = 0; }
  /// Which no other twin of this capture has.
  [[nodiscard]] Libraries take_for(StreamGroup<R> const& group) {
    if (&group == lender_.get()) {
      return lender_->libraries();
    }
    if (taken_ == made_.size()) {
      auto const& context = *group.context();
      made_.push_back(std::make_shared<GroupLibraries<R>>(context.runtime, context.libraries));
    }
    return made_[taken_++];
  }

 private:
  std::shared_ptr<StreamGroup<R>> lender_;
  std::vector<Libraries> made_;
  std::size_t taken_ = 0;  ///< of those made, in front
};

}  // namespace msstream
