// SPDX-License-Identifier: Apache-2.0
#include "unfinished_files.hpp"

#include <msstream/base/output_file.hpp>

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

namespace msstream {

namespace detail {

namespace {

constexpr std::size_t kSlots = 16;
constexpr std::size_t kLongestPath = 4096;

enum class SlotState : int { free, filling, filled };
struct Slot {
  std::atomic<SlotState> state{SlotState::free};
  pid_t process = 0;  ///< the process that owns the file: a child of fork() inherits the slots but
                      ///< not the files
  std::array<char, kLongestPath> path{};
};
static_assert(std::atomic<SlotState>::is_always_lock_free);

std::array<Slot, kSlots> slots;
std::atomic<bool> is_ending{false};

void wait_for_the_end() {
  while (is_ending.load()) {
    ::pause();
  }
}

}  // namespace

int UnfinishedFiles::add(std::filesystem::path const& path) {
  auto const& name = path.native();
  if (name.size() >= kLongestPath) {
    return -1;
  }
  for (std::size_t i = 0; i < kSlots; ++i) {
    auto expected = SlotState::free;
    if (slots[i].state.compare_exchange_strong(expected, SlotState::filling)) {
      wait_for_the_end();
      slots[i].process = ::getpid();
      std::memcpy(slots[i].path.data(), name.c_str(), name.size() + 1);
      slots[i].state.store(SlotState::filled);
      wait_for_the_end();  // a handler that began before the store did not see the path
      return static_cast<int>(i);
    }
  }
  return -1;
}

void UnfinishedFiles::remove(int slot) noexcept {
  if (slot >= 0) {
    slots[static_cast<std::size_t>(slot)].state.store(SlotState::free);
  }
}

void UnfinishedFiles::unlink_all() noexcept {
  int const error = errno;
  is_ending.store(true);
  for (auto const& slot : slots) {
    if (slot.state.load() == SlotState::filled && slot.process == ::getpid()) {
      ::unlink(slot.path.data());
    }
  }
  errno = error;
}

}  // namespace detail

void remove_unfinished_outputs() noexcept {
  detail::UnfinishedFiles::unlink_all();
}

}  // namespace msstream
