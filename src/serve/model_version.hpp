// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/capture/detail/any_captured_step.hpp>
#include <msstream/memory/detail/any_device.hpp>
#include <msstream/serve/detail/branches.hpp>
#include <msstream/serve/detail/forward.hpp>
#include <msstream/serve/detail/staging.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace msstream::serve {

/// Identifies a step of a pool: the indices of a replica, of one of its slots, and of a bucket.
struct Place {
  std::size_t replica;
  std::size_t slot;
  std::size_t bucket;
};

/// A model that a pool runs or has run: the forward function of each replica, and the steps
/// captured from these functions. Constructed by one thread; afterwards any thread may launch, one
/// at a time for each slot.
class ModelVersion {
 public:
  /// Creates version `number`; `forwards` has one function for each replica.
  ModelVersion(std::uint64_t number,
               std::vector<detail::AnyForward> forwards,
               std::size_t slots,
               std::vector<std::int64_t> buckets)
      : number_(number),
        forwards_(std::move(forwards)),
        slots_(slots),
        buckets_(std::move(buckets)),
        steps_(forwards_.size() * slots_ * buckets_.size()) {}

  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }

  /// Captures the step that a slot runs for a bucket, so that launch() can replay it. All captures
  /// of a replica share `memory`. If the capture fails, throws its exception, and launch() issues
  /// the step anew each time.
  void capture(detail::AnyDevice const& device,
               Place const& place,
               detail::AnyStaging const& staging,
               detail::AnyBranches const& branches,
               std::shared_ptr<detail::CaptureMemory> const& memory);

  /// Runs the step of a bucket on the staged inputs. The current stream group must be the first of
  /// `branches`. Replays the captured step, if any, or otherwise calls Staging::issue().
  order::Position launch(Place const& place,
                         detail::AnyStaging const& staging,
                         detail::AnyBranches const& branches,
                         bool& has_issued);
  /// Issues the step of a bucket by Staging::issue(), even if it is captured.
  order::Position issue(Place const& place,
                        detail::AnyStaging const& staging,
                        detail::AnyBranches const& branches,
                        bool& has_issued) const;

 private:
  using Step = std::unique_ptr<detail::AnyCapturedStep>;  // null if the step is not captured

  [[nodiscard]] Step& step(Place const& place) {
    return steps_[(place.replica * slots_ + place.slot) * buckets_.size() + place.bucket];
  }

  std::uint64_t number_;
  std::vector<detail::AnyForward> forwards_;
  std::size_t slots_;
  std::vector<std::int64_t> buckets_;
  std::vector<Step> steps_;
};

}  // namespace msstream::serve
