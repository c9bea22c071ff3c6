// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/device.hpp>
#include <msstream/order/position.hpp>
#include <msstream/serve/detail/branches.hpp>
#include <msstream/serve/detail/forward.hpp>
#include <msstream/serve/inputs.hpp>
#include <msstream/tensor/detail/any_pinned_array.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace msstream::serve {

/// The buffers for one launch of a query, or of a batch of queries, at a time: pinned memory for
/// the inputs, device memory for the inputs, and pinned memory for the answers, each for
/// `most_rows` rows. Not synchronised. The host may write values() and read answers() only while no
/// issued work is in flight.
template <Runtime R>
class Staging;

/// The implementation of Staging, compiled once for all runtimes.
template <>
class Staging<detail::AnyRuntime> {
 public:
  Staging(std::shared_ptr<detail::DeviceState> const& device,
          std::shared_ptr<InputLayout const> layout,
          std::int64_t most_rows,
          std::int64_t outputs_per_row);

  /// Returns the pinned memory for the values of the inputs, packed by the layout, for a caller
  /// that always uses the same number of rows.
  [[nodiscard]] std::byte* values() const;
  /// Returns the pinned memory for the values of `used` rows, packed by the layout for `rows` rows.
  /// Rows from `used` on hold values of earlier calls with the same `rows`, or zeros.
  [[nodiscard]] std::byte* values(std::int64_t rows, std::int64_t used);
  [[nodiscard]] std::byte const* values_to_read() const;
  /// Makes have_arrived() return false until the next answers arrive. Call expect_answers() before
  /// work from issue(), or a graph captured from it, runs again.
  void expect_answers() const noexcept { arrived().store(0, std::memory_order_relaxed); }
  /// Returns whether the answers of all work issued since expect_answers() have arrived, which
  /// implies that the copy of the inputs is complete. Reads a flag that the device sets, and makes
  /// no call of the runtime.
  [[nodiscard]] bool have_arrived() const noexcept {
    return arrived().load(std::memory_order_acquire) != 0;
  }
  /// Returns the answers in pinned memory, row after row, as floats.
  [[nodiscard]] std::span<float const> answers() const;

  order::Position issue(std::int64_t rows,
                        detail::AnyForward const& forward,
                        bool& has_issued,
                        std::span<std::shared_ptr<detail::StreamGroup> const> branches) const;

 private:
  /// Copies the answers to the host. The copy also waits for the copy of the inputs to the device,
  /// even if the result does not depend on the inputs, because work that follows the answers may
  /// overwrite them.
  [[nodiscard]] order::Position copy_to_host(detail::Floats const& result,
                                             detail::TensorOf<std::uint8_t> const& inputs) const;
  [[nodiscard]] std::atomic_ref<std::int32_t> arrived() const noexcept {
    return std::atomic_ref(*static_cast<std::int32_t*>(arrived_.data()));
  }

  static constexpr std::int64_t kMostToldAtOnce = 16384;  // copied by one thread block
  static constexpr std::int64_t kNothing = 0;  // no values are packed, and all bytes are zero

  std::shared_ptr<InputLayout const> layout_;
  std::int64_t outputs_per_row_;
  std::int64_t packed_for_ = kNothing;
  detail::AnyPinnedArray pinned_;  ///< bytes
  detail::TensorOf<std::uint8_t> packed_;
  detail::AnyPinnedArray answers_;  ///< float32
  detail::AnyPinnedArray arrived_;  ///< one int32, not 0 when the answers have arrived
};

template <Runtime R>
class Staging : public Staging<detail::AnyRuntime> {
  using Body = Staging<detail::AnyRuntime>;

 public:
  Staging(Device<R> const& device,
          std::shared_ptr<InputLayout const> layout,
          std::int64_t most_rows,
          std::int64_t outputs_per_row)
      : Body(device.state(), std::move(layout), most_rows, outputs_per_row) {}

  /// Issues, to the current group, which is the first of `branches` if there are any: the copy of a
  /// bucket's inputs, the model, which may use the other branches, and the copy of its answers.
  /// Returns the position of the last copy, which follows all of the work. Throws what the model
  /// throws, and std::invalid_argument if the result has an unexpected shape; `has_issued` then
  /// says whether any work was issued.
  order::Position issue(std::int64_t rows,
                        Forward<R> const& forward,
                        bool& has_issued,
                        Branches<R> const& branches = {}) const {
    return Body::issue(
        rows,
        [&forward](detail::AnyInputs const& inputs) -> detail::Floats {
          return forward(Inputs<R>(inputs));
        },
        has_issued,
        detail::untyped_branches<R>(branches));
  }
};

}  // namespace msstream::serve

namespace msstream::detail {

using AnyStaging = serve::Staging<AnyRuntime>;

}  // namespace msstream::detail
