// SPDX-License-Identifier: Apache-2.0
#include "comm/host_threads.hpp"

#include "comm/carry_out.hpp"
#include "comm/meeting_place.hpp"

#include <msstream/base/closure.hpp>

#include <fmt/core.h>

#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace msstream::comm::detail {
namespace {

class HostThreads final : public Transport {
 public:
  HostThreads(std::shared_ptr<msstream::detail::Backend> runtime,
              std::shared_ptr<MeetingPlace> place,
              int rank,
              std::chrono::nanoseconds timeout)
      : runtime_(std::move(runtime)), place_(std::move(place)), rank_(rank), timeout_(timeout) {}

  /// Puts the meeting on the stream. The stream's thread waits there for the other ranks. No other
  /// work needs that thread: the stream is the communicator's own, or runs the graph of a captured
  /// step.
  void put(msstream::detail::NativeStream stream,
           Part const& part,
           std::shared_ptr<Transport> const& self) override {
    runtime_->call_host(stream, Closure([self, this, part] { meet(part); }));
  }
  [[nodiscard]] std::vector<std::string> exchange(std::string const& own) override {
    return place_->exchange(rank_, own, timeout_);
  }
  void rethrow_failure(Part const* issued) override { place_->rethrow_failure(rank_, issued); }
  [[nodiscard]] bool has_failure_to_tell() override {
    return place_->has_failed() && !place_->is_own_loss(rank_);
  }
  void leave() noexcept override { place_->leave(rank_); }
  void abandon(std::string const& why) noexcept override { place_->lose(rank_, why); }

 private:
  /// Throws nothing: an exception would make the stream useless.
  void meet(Part const& part) noexcept {
    try {
      if (has_sound_counts(part)) {
        place_->meet(rank_, part, timeout_, [this](Parts parts) { carry_out(rank_, parts); });
      }
    } catch (std::exception const& error) {
      place_->lose(rank_, error.what());
    }
  }

  /// Returns whether the counts of the part, if it has any, are within the capacity. Otherwise
  /// makes the communicator fail.
  [[nodiscard]] bool has_sound_counts(Part const& part) {
    if (part.counts == nullptr) {
      return true;
    }
    for (int rank = 0; rank < place_->size(); ++rank) {
      auto const count = part.counts[rank];
      if (count < 0 || count > part.what.capacity) {
        place_->refuse(
            rank_,
            part,
            fmt::format(
                "its count for rank {} is {}, outside [0, {}]", rank, count, part.what.capacity));
        return false;
      }
    }
    return true;
  }

  std::shared_ptr<msstream::detail::Backend> runtime_;
  std::shared_ptr<MeetingPlace> place_;
  int rank_;
  std::chrono::nanoseconds timeout_;
};

}  // namespace

std::shared_ptr<Transport> make_host_threads(std::shared_ptr<msstream::detail::Backend> runtime,
                                             std::shared_ptr<MeetingPlace> place,
                                             int rank,
                                             std::chrono::nanoseconds timeout) {
  return std::make_shared<HostThreads>(std::move(runtime), std::move(place), rank, timeout);
}

}  // namespace msstream::comm::detail
