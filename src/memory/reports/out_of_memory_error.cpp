// SPDX-License-Identifier: Apache-2.0
#include "memory/reports/out_of_memory_error.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace msstream::memory {

namespace {

/// Returns the names of the option and of the environment variable that set the memory limit.
std::string_view option_of(std::string_view space) {
  return space == "pinned" ? " (AllocatorOptions::pinned_limit_bytes, MSSTREAM_PINNED_LIMIT_BYTES)"
                           : " (AllocatorOptions::limit_bytes, MSSTREAM_MEMORY_LIMIT_BYTES)";
}

}  // namespace

OutOfMemory out_of_memory_error(Refusal const& refusal) {
  constexpr std::size_t kScopesTold = 8;
  auto const& now = refusal.statistics;
  bool const is_limit_reached =
      refusal.bytes > now.limit_bytes || now.reserved_bytes > now.limit_bytes - refusal.bytes;
  auto message = fmt::format(
      "{} memory: {} bytes asked; {} in use and {} cached in other sizes, of {} reserved under a "
      "limit of {}{}{}; the largest free range has {}, and {} wait for work on the device",
      refusal.space,
      refusal.bytes,
      now.live_bytes,
      now.reserved_bytes - std::min(now.reserved_bytes, now.live_bytes),
      now.reserved_bytes,
      now.limit_bytes,
      option_of(refusal.space),
      is_limit_reached ? "" : ", and the runtime has no more",
      refusal.largest_free_bytes,
      refusal.pending_bytes);
  auto const& uses = refusal.uses;
  for (std::size_t i = 0; i < std::min(uses.size(), kScopesTold); ++i) {
    message +=
        fmt::format("\n  {} bytes in {} blocks: {}, {}",
                    uses[i].bytes,
                    uses[i].blocks,
                    uses[i].scope.empty() ? std::string("outside all scopes") : uses[i].scope,
                    uses[i].stream);
  }
  if (uses.size() > kScopesTold) {
    message += fmt::format("\n  and {} more scopes and streams", uses.size() - kScopesTold);
  }
  return {refusal.bytes, message};
}

}  // namespace msstream::memory
