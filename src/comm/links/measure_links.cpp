// SPDX-License-Identifier: Apache-2.0
#include "comm/communicator_state.hpp"
#include "comm/links/link_time.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/comm/measure_links.hpp>
#include <msstream/tensor/detail/any_copy.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

namespace msstream::comm::detail {

LinkFit fit_link(std::vector<TimedBytes> const& times) {
  // Minimises the sum of ((a + b x - t) / t)^2 over the times t of x bytes.
  double ones = 0;
  double xs = 0;
  double squares = 0;
  double to_ones = 0;
  double to_xs = 0;
  for (auto const& [bytes, ns] : times) {
    double const weight = 1 / (ns * ns);
    ones += weight;
    xs += weight * bytes;
    squares += weight * bytes * bytes;
    to_ones += weight * ns;
    to_xs += weight * ns * bytes;
  }
  double const determinant = ones * squares - xs * xs;
  double latency = 0;
  double slope = 0;
  if (determinant > 1e-9 * ones * squares) {
    latency = (squares * to_ones - xs * to_xs) / determinant;
    slope = (ones * to_xs - xs * to_ones) / determinant;
  }
  if (latency < 0) {
    latency = 0;
    slope = to_xs / squares;
  }
  if (slope <= 0) {
    auto const largest = std::max_element(
        times.begin(), times.end(), [](auto const& a, auto const& b) { return a.bytes < b.bytes; });
    return {std::max(latency, 0.0), largest->bytes / largest->ns};
  }
  return {latency, std::min(1 / slope, kMostBytesPerNs)};
}

namespace {

using nlohmann::json;

constexpr int kCalls = 4;  ///< that are timed together
constexpr int kRounds = 5;
constexpr std::size_t kLeastBytes = std::size_t{4} << 10U;
constexpr std::size_t kGrowth = 4;  ///< of a size to the next one

/// Issues and times collectives of zeros on the tensors of one size.
class Sized {
 public:
  /// The elements of `whole` are a multiple of the ranks.
  Sized(AnyCommunicator const& communicator, std::int64_t count)
      : communicator_(communicator),
        whole_(communicator.state().device().state(), DType::float32, Shape{count}),
        other_(communicator.state().device().state(), DType::float32, Shape{count}),
        part_(other_.rows(0, count / communicator.size())) {
    msstream::detail::fill_any(whole_, 0, std::source_location::current());
    msstream::detail::fill_any(other_, 0, std::source_location::current());
  }

  /// Returns the bytes that a rank gives.
  [[nodiscard]] double bytes(CollectiveKind kind) const {
    return static_cast<double>(kind == CollectiveKind::all_gather ? part_.bytes() : whole_.bytes());
  }
  /// Returns the median time of a call in ns.
  [[nodiscard]] double median_ns(CollectiveKind kind) const {
    issue(kind);  // connects the ranks
    std::vector<double> times;
    for (int round = 0; round < kRounds; ++round) {
      barrier(communicator_, std::source_location::current());
      communicator_.synchronize();
      auto const begin = std::chrono::steady_clock::now();
      for (int call = 0; call < kCalls; ++call) {
        issue(kind);
      }
      communicator_.synchronize();
      std::chrono::duration<double, std::nano> const took =
          std::chrono::steady_clock::now() - begin;
      times.push_back(took.count() / kCalls);
    }
    auto const middle = times.begin() + kRounds / 2;
    std::nth_element(times.begin(), middle, times.end());
    return std::max(*middle, 1.0);
  }

 private:
  void issue(CollectiveKind kind) const {
    auto const here = std::source_location::current();
    switch (kind) {
      case CollectiveKind::all_reduce:
        all_reduce(communicator_, whole_, Reduction::sum, here);
        break;
      case CollectiveKind::reduce_scatter:
        reduce_scatter(communicator_, whole_, part_, Reduction::sum, here);
        break;
      case CollectiveKind::all_gather:
        all_gather(communicator_, part_, whole_, here);
        break;
      case CollectiveKind::all_to_all:
        all_to_all(communicator_, whole_, other_, here);
        break;
      case CollectiveKind::broadcast:
        broadcast(communicator_, whole_, 0, here);
        break;
      default:  // of two ranks, while the others have nothing to do
        if (communicator_.rank() == 0) {
          send(communicator_, whole_, 1, here);
        } else if (communicator_.rank() == 1) {
          receive(communicator_, whole_, 0, here);
        }
    }
  }

  AnyCommunicator const& communicator_;
  AnyTensor whole_;
  AnyTensor other_;
  AnyTensor part_;
};

}  // namespace

Links measure_links(AnyCommunicator const& communicator, std::size_t most_bytes) {
  require(communicator.size() > 1,
          "measure_links: communicator '{}' of one rank, which has no links",
          communicator.name());
  int const ranks = communicator.size();
  auto const row_bytes = sizeof(float) * static_cast<std::size_t>(ranks);
  auto const least_bytes = std::max(kLeastBytes, row_bytes);
  // A latency and a bandwidth need the times of two sizes.
  require(most_bytes >= kGrowth * least_bytes,
          "measure_links: sizes from {} up to {} bytes on {} ranks, which has fewer than two; "
          "expected {} bytes or more",
          least_bytes,
          most_bytes,
          ranks,
          kGrowth * least_bytes);
  constexpr CollectiveKind kKinds[] = {CollectiveKind::all_reduce,
                                       CollectiveKind::reduce_scatter,
                                       CollectiveKind::all_gather,
                                       CollectiveKind::all_to_all,
                                       CollectiveKind::broadcast,
                                       CollectiveKind::send};
  // A speed of 1 says how many bytes and steps the collectives have.
  Links counted{.ranks_per_node = ranks};
  for (auto const kind : kKinds) {
    counted.inside[kind] = {.step_ns = 1, .bytes_per_ns = 1};
  }
  std::vector<double> moved;
  std::vector<double> own_ns;
  std::size_t sizes = 0;
  for (auto bytes = least_bytes; bytes <= most_bytes; bytes *= kGrowth, ++sizes) {
    Sized const sized(communicator,
                      static_cast<std::int64_t>((bytes + row_bytes - 1) / row_bytes) * ranks);
    for (auto const kind : kKinds) {
      moved.push_back(collective_time(counted, kind, sized.bytes(kind), ranks).link_ns);
      own_ns.push_back(sized.median_ns(kind));
    }
  }
  // The slowest rank counts, so that all ranks get equal links.
  for (auto const& text : communicator.exchange(json(own_ns).dump())) {
    auto const theirs = json::parse(text).get<std::vector<double>>();
    for (std::size_t i = 0; i < own_ns.size(); ++i) {
      own_ns[i] = std::max(own_ns[i], theirs[i]);
    }
  }
  Links links{.ranks_per_node = ranks};
  for (std::size_t k = 0; k < std::size(kKinds); ++k) {
    std::vector<TimedBytes> times;
    for (std::size_t size = 0; size < sizes; ++size) {
      auto const i = size * std::size(kKinds) + k;
      times.push_back({moved[i], own_ns[i]});
    }
    auto const fit = fit_link(times);
    double const steps = 1 + collective_time(counted, kKinds[k], 0, ranks).latency_ns;
    links.inside[kKinds[k]] = {.latency_ns = fit.latency_ns / steps,
                               .step_ns = fit.latency_ns / steps,
                               .bytes_per_ns = fit.bytes_per_ns};
  }
  return links;
}

}  // namespace msstream::comm::detail
