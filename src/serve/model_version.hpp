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

/// The numbers of a replica, of one of its slots, and of a bucket.
struct Place {
  std::size_t replica;
  std::size_t slot;
  std::size_t bucket;
};

/// One of the models that a pool has had: the functions that replicas run, and the steps captured
/// from them. Made by one thread; afterwards any thread may launch, one at a time for each slot.
class ModelVersion {
 public:
  /// Makes a version; `forwards` has one function for each replica.
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

  /// Captures the step that a slot runs for a bucket, for launch() to replay. All captures of a
  /// replica share `memory`. If the capture fails, it throws, and launch() issues the step anew
  /// each time.
  void capture(detail::AnyDevice const& device,
               Place const& place,
               detail::AnyStaging const& staging,
               detail::AnyBranches const& branches,
               std::shared_ptr<detail::CaptureMemory> const& memory);

  /// Runs a bucket on the staged inputs, on the current group, which is the first of `branches`;
  /// see Staging::issue().
  order::Position launch(Place const& place,
                         detail::AnyStaging const& staging,
                         detail::AnyBranches const& branches,
                         bool& has_issued);
  /// Like launch(), but never replays a captured step.
  order::Position issue(Place const& place,
                        detail::AnyStaging const& staging,
                        detail::AnyBranches const& branches,
                        bool& has_issued) const;

 private:
  using Step = std::unique_ptr<detail::AnyCapturedStep>;  // null if it is issued anew each time

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
