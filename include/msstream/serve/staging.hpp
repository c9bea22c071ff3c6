// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/kernels/copy_and_tell.hpp>
#include <msstream/runtime/default_runtime.hpp>
#include <msstream/serve/inputs.hpp>
#include <msstream/tensor/copy.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

namespace msstream::serve {

/// A model as the pool calls it: a function from the inputs of a bucket to a tensor [rows,
/// outputs_per_row].
template <Runtime R = DefaultRuntime>
using Forward = std::function<Tensor<float, R>(Inputs<R> const&)>;

/// The buffers of one query, or one batch of queries, at a time: pinned memory for the inputs,
/// device memory for the inputs, and pinned memory for the answers, each for `most_rows` rows. Not
/// synchronised. The host may write values() and read answers() only while no issued work is in
/// flight.
template <Runtime R>
class Staging {
 public:
  Staging(Device<R> const& device,
          std::shared_ptr<InputLayout const> layout,
          std::int64_t most_rows,
          std::int64_t outputs_per_row)
      : layout_(std::move(layout)),
        outputs_per_row_(outputs_per_row),
        pinned_(device, layout_->bytes(most_rows)),
        packed_(device, {static_cast<std::int64_t>(layout_->bytes(most_rows))}, StreamKind::h2d),
        answers_(device, static_cast<std::size_t>(most_rows * outputs_per_row)),
        arrived_(device, 1) {
    std::ranges::fill(pinned_.elements(), std::uint8_t{0});
  }

  /// Returns the memory for the values, packed by the layout, for a caller that always uses the
  /// same number of rows.
  [[nodiscard]] std::byte* values() const {
    return reinterpret_cast<std::byte*>(pinned_.elements().data());
  }
  /// Returns the memory for the values of `used` rows, packed by the layout for `rows` rows. The
  /// rows beyond hold the values from the last time that it was packed for the same `rows`, or
  /// zeros.
  [[nodiscard]] std::byte* values(std::int64_t rows, std::int64_t used) {
    auto* const to = values();
    if (rows != packed_for_) {
      if (packed_for_ != kNothing) {
        layout_->clear(to, rows, used);
      }
      packed_for_ = rows;
    }
    return to;
  }
  [[nodiscard]] std::byte const* values_to_read() const {
    return reinterpret_cast<std::byte const*>(pinned_.const_elements().data());
  }
  /// Resets have_arrived(). Call it before work from issue(), or a capture of it, runs again.
  void expect_answers() const noexcept { arrived().store(0, std::memory_order_relaxed); }
  /// Returns whether the answers of all work issued since expect_answers() have arrived, which
  /// implies that the copy of the inputs is complete. Reads a flag that the device sets, and makes
  /// no call of the runtime.
  [[nodiscard]] bool have_arrived() const noexcept {
    return arrived().load(std::memory_order_acquire) != 0;
  }
  /// Returns the answers, row after row.
  [[nodiscard]] std::span<float const> answers() const { return answers_.const_elements(); }

  /// Issues, to the current group, which is the first of `branches` if there are any: the copy of a
  /// bucket's inputs, the model, which may use the other branches, and the copy of its answers.
  /// Returns the position of the last copy, which follows all of the work. Throws what the model
  /// throws, and std::invalid_argument if the result has an unexpected shape; `has_issued` then
  /// says whether any work was issued.
  order::Position issue(std::int64_t rows,
                        Forward<R> const& forward,
                        bool& has_issued,
                        std::span<StreamGroup<R> const> branches = {}) const {
    auto const bytes = static_cast<std::int64_t>(layout_->bytes(rows));
    auto const inputs = packed_.rows(0, bytes);
    copy_to_device(inputs);
    has_issued = true;
    auto const result = forward(Inputs<R>(layout_, packed_, rows, branches));
    require(result.shape() == Shape{rows, outputs_per_row_},
            "serve: the model returned a tensor of shape ",
            result.shape(),
            "; expected [rows of the bucket, outputs_per_row], ",
            Shape{rows, outputs_per_row_});
    return copy_to_host(result, inputs);
  }

 private:
  void copy_to_device(Tensor<std::uint8_t, R> const& inputs) const { copy(inputs, pinned_); }
  /// Copies the answers to the host. The copy also waits for the copy of the inputs, even if the
  /// result does not depend on it, because work that follows the answers may overwrite the inputs.
  order::Position copy_to_host(Tensor<float, R> const& result,
                               Tensor<std::uint8_t, R> const& inputs) const {
    auto count = result.count();
    if (count > kMostToldAtOnce) {
      auto* const runtime = &result.any().backend();
      msstream::issue(
          "copy_d2h",
          reads(result, inputs),
          writes(answers_),
          NativeWork{[runtime, to = answers_.data(), from = result.data(), bytes = result.bytes()](
                         typename R::native_stream native) {
            runtime->copy(to, from, bytes, CopyKind::d2h, native);
          }},
          {.stream = StreamKind::d2h});
      count = 0;
    }
    ops::kernels::CopyAndTellArgs const args{
        result.data(), answers_.data(), count, arrived_.data()};
    return msstream::issue("copy_and_tell",
                           reads(result, inputs),
                           writes(answers_, arrived_),
                           [args](auto stream) { ops::kernels::copy_and_tell(stream, args); },
                           {.stream = StreamKind::d2h});
  }
  [[nodiscard]] std::atomic_ref<std::int32_t> arrived() const noexcept {
    return std::atomic_ref(*arrived_.data());
  }

  static constexpr std::int64_t kMostToldAtOnce = 16384;  // copied by one thread block
  static constexpr std::int64_t kNothing = 0;  // no values are packed, and all bytes are zero

  std::shared_ptr<InputLayout const> layout_;
  std::int64_t outputs_per_row_;
  std::int64_t packed_for_ = kNothing;
  PinnedArray<std::uint8_t, R> pinned_;
  Tensor<std::uint8_t, R> packed_;
  PinnedArray<float, R> answers_;
  PinnedArray<std::int32_t, R> arrived_;  ///< one element, not 0 when the answers have arrived
};

}  // namespace msstream::serve
