// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/comm/links.hpp>

#include <vector>

namespace msstream::comm::detail {

/// The time of a collective in which all ranks come at once.
struct CollectiveTime {
  double latency_ns = 0;  ///< in which no bytes are under way
  double link_ns = 0;     ///< in which the bytes are, if nothing else uses the link

  [[nodiscard]] double ns() const noexcept { return latency_ns + link_ns; }
};

/// Returns the two parts of what collective_ns() returns, and throws what it throws.
[[nodiscard]] CollectiveTime collective_time(Links const& links,
                                             CollectiveKind kind,
                                             double bytes,
                                             int ranks);

/// The largest bandwidth of links.
inline constexpr double kMostBytesPerNs = 1e9;

/// How long it took to move some bytes.
struct TimedBytes {
  double bytes;
  double ns;
};

/// The line `latency_ns + bytes / bytes_per_ns`.
struct LinkFit {
  double latency_ns;
  double bytes_per_ns;
};

/// Returns the line with the smallest sum of squared relative errors, whose latency is not
/// negative. If the times do not grow with the bytes, the bandwidth is that of the largest number
/// of bytes; it is at most kMostBytesPerNs. Two of the numbers of bytes must differ, and all
/// numbers must be more than 0.
[[nodiscard]] LinkFit fit_link(std::vector<TimedBytes> const& times);

}  // namespace msstream::comm::detail
