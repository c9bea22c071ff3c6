// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/comm/communicator.hpp>
#include <msstream/comm/links.hpp>

#include <cstddef>

namespace msstream::comm {

namespace detail {

[[nodiscard]] Links measure_links(AnyCommunicator const& communicator, std::size_t most_bytes);

}  // namespace detail

/// Measures how long the collectives of a communicator take, and returns links whose node has all
/// its ranks: `inside` has the speeds of all kinds, and `multiprocessors` is 0. To measure what is
/// between nodes, take a communicator with a rank of each node, and assign `inside` to `between`
/// of the links of a node.
///
/// All ranks call it alike and get equal links. Blocks the host. Sizes grow by a factor of four
/// from 4 KiB, or from 4 bytes a rank if that is more, to `most_bytes`, of which each rank has two
/// tensors. Of each kind and size, the median of five times counts, in which four calls follow each
/// other: a latency is that of a call among others, and at least what the host needs to issue one.
/// A latency and a bandwidth are fitted to the medians, by the smallest sum of squared relative
/// errors. On more than two ranks, all steps of the latency are taken to be equal
/// (collective_ns()), and on two each further step takes as long as the whole call, which is far
/// too much for more ranks: measure on as many ranks as a node has, or set `step_ns` by what else
/// is known. Throws std::invalid_argument for one rank, and for `most_bytes` below the second size,
/// of 16 KiB or 16 bytes a rank.
template <Runtime R>
[[nodiscard]] Links measure_links(Communicator<R> const& communicator,
                                  std::size_t most_bytes = std::size_t{64} << 20U) {
  return detail::measure_links(communicator.any(), most_bytes);
}

}  // namespace msstream::comm
