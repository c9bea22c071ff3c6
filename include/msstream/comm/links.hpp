// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/comm/collective_kind.hpp>

#include <filesystem>
#include <map>

namespace msstream::comm {

/// The measured pieces of a machine by which predict() knows how long collectives take.
struct Links {
  /// The speed of one kind of collective between ranks that are equally far from each other.
  struct Speed {
    double latency_ns = 0;  ///< the time of a call with few bytes between two ranks
    double step_ns = 0;     ///< what each step but the first adds: see collective_ns()
    /// The bytes that leave a rank in a ns, GB/s. The tests of NCCL call it the bus bandwidth.
    double bytes_per_ns = 0;

    friend bool operator==(Speed const&, Speed const&) = default;
  };
  /// The speeds of the kinds that have been measured. Those of barrier are those of all_reduce,
  /// those of receive are those of send, and all_to_all has one for both kinds of it.
  using Speeds = std::map<CollectiveKind, Speed>;

  int ranks_per_node = 1;  ///< the ranks that are connected by the speeds of `inside`
  Speeds inside = {};      ///< between the ranks of a node
  /// Between ranks of different nodes, all of which send at once: the part of the network that one
  /// rank has.
  Speeds between = {};
  /// The multiprocessors that a collective keeps from kernels while it runs. 0 if it takes none,
  /// as collectives by copy engines.
  int multiprocessors = 0;

  friend bool operator==(Links const&, Links const&) = default;
};

/// Throws std::invalid_argument for links that no machine has: ranks per node outside 1 to
/// 1,000,000, a latency or step outside 0 to 1e18 ns, a bandwidth outside 1e-9 to 1e9 bytes per ns,
/// a number of multiprocessors below 0. The message names the field, such as
/// `between.all_reduce.bytes_per_ns`.
void require_links(Links const& links);

/// Returns the time in ns of a collective on `ranks` ranks, which come to it at once and each give
/// `bytes`: the input, or the tensor of all_reduce and broadcast. One rank takes no time.
///
/// The bytes that leave a rank are those of a ring through all ranks (the bus bandwidth of
/// nccl-tests, PERFORMANCE.md): on n ranks 2(n-1)/n of the bytes for all_reduce, (n-1)/n for
/// reduce_scatter, n-1 times the bytes for all_gather, and the bytes for broadcast. Of m nodes of
/// g ranks, as many cross the border of each node, and its g ranks share them, so that a g-th
/// leaves through the part of the network of each. Other algorithms would send fewer between
/// nodes. Of all_to_all, (g-1)/n of the bytes stay in the node, and (n-g)/n leave it; of send, all
/// bytes. Bytes move inside and between nodes at once (in chunks, as NCCL moves them), and the
/// slower of them counts.
///
/// The latency depends on the steps of the longest chain of messages. In one node it is latency_ns
/// and step_ns for each step but the first. On several nodes it is step_ns of `inside` for each
/// step inside nodes, latency_ns of `between`, and step_ns of `between` for each step between nodes
/// but the first. The steps are, inside and between nodes: for all_reduce and barrier g-1, in a
/// chain, and log2 m rounded up, in a tree; for reduce_scatter, all_gather and broadcast m(g-1) and
/// m-1, in a ring; for all_to_all g-1 and n-g, a message to each other rank; for send one. NCCL
/// counts as much (src/graph/tuning.cc) for trees and rings, but rounds log2 m down, and has one
/// step more for broadcast.
///
/// Throws what require_links() throws, and std::invalid_argument for ranks outside 1 to 1,000,000,
/// for bytes outside 0 to 1e24, for several nodes that are not full, and for a kind without a
/// speed.
[[nodiscard]] double collective_ns(Links const& links,
                                   CollectiveKind kind,
                                   double bytes,
                                   int ranks);

/// Writes the links to a JSON file, which people may change. docs/scaling.md describes it.
void save_links(std::filesystem::path const& path, Links const& links);
/// Reads links that save_links() or people have written. Throws std::invalid_argument, with the
/// file and the field, for what are no such links.
[[nodiscard]] Links load_links(std::filesystem::path const& path);

}  // namespace msstream::comm
