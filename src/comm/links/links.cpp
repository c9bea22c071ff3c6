// SPDX-License-Identifier: Apache-2.0
#include "comm/links/link_time.hpp"

#include <msstream/base/detail/require.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <string>

namespace msstream::comm {

namespace {

constexpr int kMostRanks = 1'000'000;
// With these, no time of a collective is too large for a double.
constexpr double kMostNs = 1e18;
constexpr double kLeastBytesPerNs = 1e-9;
constexpr double kMostGiven = 1e24;

/// Returns the kind whose speed a collective has.
CollectiveKind measured_as(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::barrier:
      return CollectiveKind::all_reduce;
    case CollectiveKind::receive:
      return CollectiveKind::send;
    case CollectiveKind::all_to_all_counted:
      return CollectiveKind::all_to_all;
    default:
      return kind;
  }
}

void require_speeds(Links::Speeds const& speeds, char const* level) {
  for (auto const& [kind, speed] : speeds) {
    auto const is_time = [](double ns) { return ns >= 0 && ns <= kMostNs; };
    require(measured_as(kind) == kind,
            "links: {}.{}: expected the speed of {} alone, which it has",
            level,
            kind == CollectiveKind::all_to_all_counted ? "all_to_all_counted" : name_of(kind),
            name_of(measured_as(kind)));
    require(is_time(speed.latency_ns),
            "links: {}.{}.latency_ns: expected 0 to {}, found {}",
            level,
            name_of(kind),
            kMostNs,
            speed.latency_ns);
    require(is_time(speed.step_ns),
            "links: {}.{}.step_ns: expected 0 to {}, found {}",
            level,
            name_of(kind),
            kMostNs,
            speed.step_ns);
    require(speed.bytes_per_ns >= kLeastBytesPerNs && speed.bytes_per_ns <= detail::kMostBytesPerNs,
            "links: {}.{}.bytes_per_ns: expected {} to {}, found {}",
            level,
            name_of(kind),
            kLeastBytesPerNs,
            detail::kMostBytesPerNs,
            speed.bytes_per_ns);
  }
}

Links::Speed const& speed_of(Links::Speeds const& speeds, char const* level, CollectiveKind kind) {
  auto const found = speeds.find(measured_as(kind));
  require(found != speeds.end(),
          "links: {}: no speed of {}, which {} needs",
          level,
          name_of(measured_as(kind)),
          name_of(kind));
  return found->second;
}

/// The numbers of ranks of a collective.
struct Size {
  double ranks;
  double per_node;  ///< ranks of each node
  double nodes;
};

/// The steps of a collective's longest chain of messages.
struct Steps {
  double inside;
  double between;
};

/// Returns the logarithm, rounded up.
double log2_of(double count) {
  return std::bit_width(static_cast<unsigned>(count) - 1U);
}

Steps steps_of(CollectiveKind kind, Size const& size) {
  switch (kind) {
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::broadcast:
      return {size.nodes * (size.per_node - 1), size.nodes - 1};
    case CollectiveKind::all_to_all:
    case CollectiveKind::all_to_all_counted:
      return {size.per_node - 1, size.ranks - size.per_node};
    case CollectiveKind::send:
    case CollectiveKind::receive:
      return size.nodes > 1 ? Steps{0, 1} : Steps{1, 0};
    case CollectiveKind::all_reduce:
    case CollectiveKind::barrier:
      break;
  }
  return {size.per_node - 1, log2_of(size.nodes)};
}

/// The bytes that leave a rank for others of its node, and for other nodes.
struct Moved {
  double inside;
  double between;
};

Moved moved_of(CollectiveKind kind, double bytes, Size const& size) {
  auto const in_ring = [&](double whole) {
    return Moved{whole, size.nodes > 1 ? whole / size.per_node : 0};
  };
  double const others = (size.ranks - 1) / size.ranks;
  switch (kind) {
    case CollectiveKind::all_reduce:
      return in_ring(2 * others * bytes);
    case CollectiveKind::reduce_scatter:
      return in_ring(others * bytes);
    case CollectiveKind::all_gather:
      return in_ring((size.ranks - 1) * bytes);
    case CollectiveKind::broadcast:
      return in_ring(bytes);
    case CollectiveKind::all_to_all:
    case CollectiveKind::all_to_all_counted:
      return {(size.per_node - 1) / size.ranks * bytes,
              (size.ranks - size.per_node) / size.ranks * bytes};
    case CollectiveKind::send:
    case CollectiveKind::receive:
      return size.nodes > 1 ? Moved{0, bytes} : Moved{bytes, 0};
    case CollectiveKind::barrier:
      break;
  }
  return {0, 0};
}

Size size_of(Links const& links, int ranks) {
  require(ranks >= 1 && ranks <= kMostRanks,
          "{} ranks; expected a number from 1 to {}",
          ranks,
          kMostRanks);
  int const per_node = std::min(ranks, links.ranks_per_node);
  require(ranks % per_node == 0,
          "{} ranks on nodes of {}; expected full nodes, a multiple of ranks_per_node",
          ranks,
          links.ranks_per_node);
  return {static_cast<double>(ranks),
          static_cast<double>(per_node),
          static_cast<double>(ranks / per_node)};
}

}  // namespace

void require_links(Links const& links) {
  require(links.ranks_per_node >= 1 && links.ranks_per_node <= kMostRanks,
          "links: ranks_per_node: expected a number from 1 to {}, found {}",
          kMostRanks,
          links.ranks_per_node);
  require(links.multiprocessors >= 0,
          "links: multiprocessors: expected 0 or more, found {}",
          links.multiprocessors);
  require_speeds(links.inside, "inside");
  require_speeds(links.between, "between");
}

namespace detail {

CollectiveTime collective_time(Links const& links, CollectiveKind kind, double bytes, int ranks) {
  require_links(links);
  require(bytes >= 0 && bytes <= kMostGiven,
          "{} of {} bytes; expected 0 to {}",
          name_of(kind),
          bytes,
          kMostGiven);
  auto const size = size_of(links, ranks);
  if (ranks == 1) {
    return {};
  }
  auto const steps = steps_of(kind, size);
  auto const moved = moved_of(kind, bytes, size);
  CollectiveTime time;
  if (steps.inside > 0) {
    auto const& speed = speed_of(links.inside, "inside", kind);
    time.latency_ns = size.nodes > 1 ? speed.step_ns * steps.inside
                                     : speed.latency_ns + speed.step_ns * (steps.inside - 1);
    time.link_ns = moved.inside / speed.bytes_per_ns;
  }
  if (steps.between > 0) {
    auto const& speed = speed_of(links.between, "between", kind);
    time.latency_ns += speed.latency_ns + speed.step_ns * (steps.between - 1);
    time.link_ns = std::max(time.link_ns, moved.between / speed.bytes_per_ns);
  }
  return time;
}

}  // namespace detail

double collective_ns(Links const& links, CollectiveKind kind, double bytes, int ranks) {
  return detail::collective_time(links, kind, bytes, ranks).ns();
}

}  // namespace msstream::comm
