// SPDX-License-Identifier: Apache-2.0
#include "serve/replicas.hpp"

#include <functional>
#include <thread>

namespace msstream::serve {

Slot* Replicas::claim(std::int64_t expected_ns) noexcept {
  while (true) {
    auto const [best, least] = least_loaded();
    if (best == nullptr) {
      return nullptr;
    }
    if (!best->add_load_to(least, expected_ns)) {
      continue;  // another thread has changed the load
    }
    if (auto* const slot = best->claim()) {
      slot->become(Slot::State::claimed);
      slot->expected_ns = expected_ns;
      return slot;
    }
    best->add_load(-expected_ns);
  }
}

void Replicas::expect(Slot& slot, std::int64_t expected_ns) noexcept {
  of(slot).add_load(expected_ns - slot.expected_ns);
  slot.expected_ns = expected_ns;
}

void Replicas::give_back(Slot& slot) noexcept {
  auto& replica = of(slot);
  replica.add_load(-slot.expected_ns);
  replica.give_back(slot);
}

void Replicas::fail(Replica& replica, std::exception_ptr const& failure) noexcept {
  if (replica.fail()) {
    std::lock_guard const guard(mutex_);
    last_failure_ = failure;
    if (sound_.load() == 1) {
      none_left_ = no_replica_left(failure);
    }
    sound_.fetch_sub(1);
  }
}

std::exception_ptr Replicas::last_failure() const noexcept {
  std::lock_guard const guard(mutex_);
  return last_failure_;
}

std::exception_ptr Replicas::none_left() const noexcept {
  std::lock_guard const guard(mutex_);
  return none_left_;
}

Replicas::Candidate Replicas::least_loaded() const noexcept {
  Candidate best;
  auto place = first_to_look_at();
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    auto* const replica = replicas_[place].get();
    if (replica->has_idle_slot() && replica->is_sound()) {
      if (auto const load = replica->load_ns(); load < best.load_ns) {
        best = {replica, load};
      }
    }
    place = place + 1 == replicas_.size() ? 0 : place + 1;
  }
  return best;
}

std::size_t Replicas::first_to_look_at() const noexcept {
  thread_local std::size_t next = std::hash<std::thread::id>{}(std::this_thread::get_id());
  return next++ % replicas_.size();
}

}  // namespace msstream::serve
