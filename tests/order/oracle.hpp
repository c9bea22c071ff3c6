// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace msstream::order::testing {

/// Knows which work precedes which, by definition: from the transitive closure of an explicit
/// graph, kept as one row of bits per node. The oracle uses no clocks, positions or events.
///
/// Nodes are added in the order in which the host issued them, so every edge points backwards and
/// the closure of a node is complete as soon as the node is added.
class Oracle {
 public:
  using Node = std::size_t;
  static constexpr Node kNone = std::numeric_limits<Node>::max();

  /// Returns the newest work of a stream, or kNone if the stream has no work.
  [[nodiscard]] Node tail(std::size_t stream) const {
    return stream < tails_.size() ? tails_[stream] : kNone;
  }

  /// Adds the next work of the stream. The work follows the stream's earlier work, all work that
  /// the host has waited for, and the node `also`.
  Node append(std::size_t stream, Node also = kNone) {
    Node const node = before_.size();
    before_.emplace_back(node / 64 + 1);
    take(node, tail(stream));
    take(node, also);
    for (Node const seen : host_saw_) {
      take(node, seen);
    }
    if (stream >= tails_.size()) {
      tails_.resize(stream + 1, kNone);
    }
    tails_[stream] = node;
    return node;
  }

  /// Orders all work issued from now on after `node`, because the host has seen it complete.
  void host_waits_for(Node node) { host_saw_.push_back(node); }

  [[nodiscard]] bool precedes(Node first, Node second) const {
    return first < second && contains(second, first);
  }
  /// Returns whether the next work of the stream follows `node`.
  [[nodiscard]] bool precedes_next(Node node, std::size_t stream) const {
    Node const last = tail(stream);
    if (last != kNone && (last == node || precedes(node, last))) {
      return true;
    }
    for (Node const seen : host_saw_) {
      if (seen == node || precedes(node, seen)) {
        return true;
      }
    }
    return false;
  }
  [[nodiscard]] std::size_t size() const noexcept { return before_.size(); }

 private:
  using Row = std::vector<std::uint64_t>;

  [[nodiscard]] bool contains(Node row, Node node) const {
    return ((before_[row][node / 64] >> (node % 64)) & 1U) != 0;
  }
  void take(Node node, Node other) {
    if (other == kNone) {
      return;
    }
    for (std::size_t word = 0; word < before_[other].size(); ++word) {
      before_[node][word] |= before_[other][word];
    }
    before_[node][other / 64] |= std::uint64_t{1} << (other % 64);
  }

  std::vector<Row> before_;
  std::vector<Node> tails_;
  std::vector<Node> host_saw_;
};

}  // namespace msstream::order::testing
