// SPDX-License-Identifier: Apache-2.0
#include <msstream/runtime/sim.hpp>

#include <algorithm>
#include <limits>

namespace msstream {

SimCost::Kernel SimCost::by_bytes(std::string_view, std::span<MemoryUse const> uses) {
  constexpr double kSmallKernelNs = 1790;
  constexpr double kBytesPerNs = 4280;
  constexpr std::size_t kBytesPerSm = std::size_t{64} << 10U;
  constexpr std::size_t kMostSms = std::numeric_limits<int>::max();
  std::size_t bytes = 0;
  for (auto const& use : uses) {
    bytes += use.bytes;
  }
  return {kSmallKernelNs + static_cast<double>(bytes) / kBytesPerNs,
          static_cast<int>(std::min(kMostSms, 1 + bytes / kBytesPerSm))};
}

double SimCost::copy_ns(CopyKind kind, double bytes) const {
  switch (kind) {
    case CopyKind::h2d:
      return copy_latency_ns + bytes / h2d_bytes_per_ns;
    case CopyKind::d2h:
      return copy_latency_ns + bytes / d2h_bytes_per_ns;
    case CopyKind::d2d:
      break;
  }
  return 2 * bytes / d2d_bytes_per_ns;
}

}  // namespace msstream
