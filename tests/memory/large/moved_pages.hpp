// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/journal.hpp"
#include "runtime/gate.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace msstream::testing {

/// A program under a memory limit of three pieces. The middle piece stays in use; the outer two are
/// freed, the first while a gate holds the stream that uses it. The tensor `whole` needs both of
/// the outer pieces.
template <Runtime R>
class PiecesInUse {
 public:
  static constexpr std::size_t kPieceBytes = std::size_t{32} << 20U;
  static constexpr std::size_t kLimit = 3 * kPieceBytes;

  explicit PiecesInUse(typename R::Options const& runtime = {}) : device(options(runtime)) {}

  [[nodiscard]] bool has_pages() const { return device.engine().backend().page_bytes() != 0; }
  void allocate_pieces() {
    front_.emplace(allocate(kPieceBytes));
    between.emplace(allocate(kPieceBytes));
    back_.emplace(allocate(kPieceBytes));
  }
  void use_and_free_pieces(Gate& gate) {
    if (!front_.has_value()) {
      allocate_pieces();
    }
    StreamScope const scope(pool[0]);
    issue("use", writes(*front_), [](auto) {});
    gate.hold(pool[0].compute());
    issue("last", reads(*front_), journal.entry(device, "last"));
    front_.reset();
    back_.reset();
  }
  void take_whole() { whole.emplace(allocate(2 * kPieceBytes)); }
  [[nodiscard]] auto issue_next() {
    issue("next", writes(*whole), journal.entry(device, "next"));
    return device.default_group().compute().record();
  }

  Device<R> device;
  StreamPool<R> pool{device, {.groups = 1, .launch_threads = LaunchThreads::none}};
  Journal journal;
  std::optional<Tensor<std::uint8_t, R>> between;
  std::optional<Tensor<std::uint8_t, R>> whole;

 private:
  [[nodiscard]] static DeviceOptions<R> options(typename R::Options const& runtime) {
    DeviceOptions<R> options;
    options.runtime = runtime;
    options.memory.limit_bytes = kLimit;
    return options;
  }
  [[nodiscard]] Tensor<std::uint8_t, R> allocate(std::size_t bytes) const {
    return Tensor<std::uint8_t, R>(device, {static_cast<std::int64_t>(bytes)});
  }

  std::optional<Tensor<std::uint8_t, R>> front_;
  std::optional<Tensor<std::uint8_t, R>> back_;
};

}  // namespace msstream::testing
