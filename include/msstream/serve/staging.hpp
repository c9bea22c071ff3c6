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

/// A model as the pool calls it: from the inputs of a bucket to [rows, outputs_per_row].
template <Runtime R = DefaultRuntime>
using Forward = std::function<Tensor<float, R>(Inputs<R> const&)>;

/// What one query at a time, or a batch of them, goes through: pinned memory for the inputs, device
/// memory for them, pinned memory for the answers; each for `most_rows` rows. Not synchronised. The
/// host may write values() and read answers() while nothing that was issued is in flight.
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

  /// Where the values go, as the layout packs them, of whoever uses it for one number of rows.
  [[nodiscard]] std::byte* values() const {
    return reinterpret_cast<std::byte*>(pinned_.elements().data());
  }
  /// Where the values of `used` rows go, as the layout packs them for `rows`. The rows beyond hold
  /// what they held when it was last packed for as many `rows`, or zeros.
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
  /// Before what issue() issues, or what was captured of it, runs again: see have_arrived().
  void expect_answers() const noexcept { arrived().store(0, std::memory_order_relaxed); }
  /// Whether the answers of all that was issued since are there, and the copy of the inputs is
  /// over. Asks nobody: the device itself tells.
  [[nodiscard]] bool have_arrived() const noexcept {
    return arrived().load(std::memory_order_acquire) != 0;
  }
  /// Row after row.
  [[nodiscard]] std::span<float const> answers() const { return answers_.const_elements(); }

  /// Issues to the current group, the first of `branches` if there are such: the copy of a bucket's
  /// inputs, the model, which may use the other ones, the copy of its answers, and returns the
  /// position of that, which is after all of it. Throws what the model throws, and
  /// std::invalid_argument when the result has another shape than expected; `has_issued` is then
  /// whether something was issued.
  order::Position issue(std::int64_t rows,
                        Forward<R> const& forward,
                        bool& has_issued,
                        std::span<StreamGroup<R>* const> branches = {}) const {
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
  /// Also after the copy of the inputs, where the result does not depend on it: what comes after
  /// the answers may write the inputs.
  order::Position copy_to_host(Tensor<float, R> const& result,
                               Tensor<std::uint8_t, R> const& inputs) const {
    auto count = result.count();
    if (count > kMostToldAtOnce) {
      auto* const runtime = result.device()->context->runtime.get();
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
  static constexpr std::int64_t kNothing = 0;             // all is zero

  std::shared_ptr<InputLayout const> layout_;
  std::int64_t outputs_per_row_;
  std::int64_t packed_for_ = kNothing;
  PinnedArray<std::uint8_t, R> pinned_;
  Tensor<std::uint8_t, R> packed_;
  PinnedArray<float, R> answers_;
  PinnedArray<std::int32_t, R> arrived_;  ///< one: whether the answers are there
};

}  // namespace msstream::serve
