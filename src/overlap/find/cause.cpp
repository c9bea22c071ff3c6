// SPDX-License-Identifier: Apache-2.0
#include "overlap/find/cause.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace msstream::overlap {
namespace {

constexpr std::array<CauseText, kCauses> kTexts{{
    {Cause::recording_overhead, "recording-overhead", "The recording itself held up the program"},
    {Cause::lazy_loading, "lazy-loading", "Modules or kernels were loaded or compiled"},
    {Cause::driver_allocation, "driver-allocation", "The driver allocated or freed memory"},
    {Cause::pageable_copy, "pageable-copy", "Copies used pageable host memory"},
    {Cause::host_synchronization, "host-synchronization", "The host waited for the device"},
    {Cause::legacy_stream, "legacy-stream", "The legacy default stream ordered other streams"},
    {Cause::queue_is_full, "queue-is-full", "The launch queue was full"},
    {Cause::launch_bound, "launch-bound", "The host launches too slowly"},
    {Cause::host_busy, "host-busy", "The host did something else"},
    {Cause::peer_skew, "peer-skew", "A collective waited for another rank"},
    {Cause::collective_order, "collective-order", "Collectives of one communicator queued"},
    {Cause::collective_holds_sms, "collective-holds-sms", "A collective held the multiprocessors"},
    {Cause::copy_engine, "copy-engine", "Copies of one direction queued"},
    {Cause::hardware_queue, "hardware-queue", "Streams shared a hardware queue"},
    {Cause::priority_cannot_help, "priority-cannot-help", "Priorities do not stop running blocks"},
    {Cause::multiprocessors_full, "multiprocessors-full", "A kernel filled the multiprocessors"},
    {Cause::false_dependency, "false-dependency", "A stream waited for more than it needed"},
    {Cause::one_stream_two_roles, "one-stream-two-roles", "Independent work shared a stream"},
    {Cause::short_kernels, "short-kernels", "Kernels are short beside the steps between them"},
    {Cause::true_dependency, "true-dependency", "The work is a chain: each part needs the last"},
    {Cause::bandwidth_shared, "bandwidth-shared", "Work ran at once and was slower for it"},
    {Cause::unknown, "unknown", "The recording does not tell"},
}};

constexpr bool causes_in_order() {
  for (std::size_t i = 0; i < kTexts.size(); ++i) {
    if (static_cast<std::size_t>(kTexts[i].cause) != i) {
      return false;
    }
  }
  return true;
}
static_assert(causes_in_order(), "text_of() uses a cause as a place");

}  // namespace

std::span<CauseText const> cause_texts() noexcept {
  return kTexts;
}

CauseText const& text_of(Cause cause) noexcept {
  return kTexts[static_cast<std::size_t>(cause)];
}

std::optional<Cause> cause_of(std::string_view id) noexcept {
  auto const* const found = std::ranges::find(kTexts, id, &CauseText::id);
  return found == kTexts.end() ? std::nullopt : std::optional(found->cause);
}

}  // namespace msstream::overlap
