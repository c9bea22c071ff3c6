// SPDX-License-Identifier: Apache-2.0
#include "comm/meeting_place.hpp"
#include "comm/peers.hpp"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace msstream::comm::detail {
namespace {

class ThreadPeers final : public Peers {
 public:
  ThreadPeers(std::shared_ptr<MeetingPlace> place, int rank, std::chrono::nanoseconds timeout)
      : place_(std::move(place)), rank_(rank), timeout_(timeout) {}

  [[nodiscard]] int rank() const noexcept override { return rank_; }
  [[nodiscard]] int size() const noexcept override { return place_->size(); }
  [[nodiscard]] std::string const& name() const noexcept override { return place_->name(); }
  [[nodiscard]] std::string share(std::string const& value_of_first) override {
    return place_->share(rank_, value_of_first, timeout_);
  }
  [[nodiscard]] std::vector<std::string> exchange(std::string const& own) override {
    return place_->exchange(rank_, own, timeout_);
  }
  void announce(Part const& part) override { place_->announce(rank_, part); }
  bool launched(bool waits) override {
    constexpr auto kPatience = std::chrono::seconds(2);
    auto& launches = place_->launches();
    launches.count(rank_);
    return !waits ||
           launches.wait_for_others(rank_, kPatience, [this] { return place_->has_failed(); });
  }
  void look(bool is_in_flight) override { place_->set_in_flight(rank_, is_in_flight); }
  void time_out(std::chrono::nanoseconds timeout) override { place_->fail_stalled(rank_, timeout); }
  void lose(int rank, std::string const& why) override { place_->lose(rank, why); }
  void leave() override { place_->leave(rank_); }
  [[nodiscard]] bool has_failed() override { return place_->has_failed(); }
  void rethrow_failure(Part const* issued) override { place_->rethrow_failure(rank_, issued); }

 private:
  std::shared_ptr<MeetingPlace> place_;
  int rank_;
  std::chrono::nanoseconds timeout_;
};

}  // namespace

std::shared_ptr<Peers> make_thread_peers(std::shared_ptr<MeetingPlace> place,
                                         int rank,
                                         std::chrono::nanoseconds timeout) {
  return std::make_shared<ThreadPeers>(std::move(place), rank, timeout);
}

}  // namespace msstream::comm::detail
