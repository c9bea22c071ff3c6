// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/ops/bags.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/ops/embedding.hpp>
#include <msstream/step/detail/memory_range.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream {

namespace ops {

template <Runtime R>
class EmbeddingTables;
template <Runtime R>
struct TableBags;

namespace detail {

struct TablePart;

}  // namespace detail
}  // namespace ops

namespace detail {

class OwnedParameters;
class StreamGroup;
struct LookupGradient;
struct TapeState;

}  // namespace detail

/// Records differentiable operations and plays their gradients back, last operation first.
///
/// An operation issued in a StreamScope with include_grad is played back on that scope's group; any
/// other is played back on the group that is current at backward(). If several operations use one
/// tensor, their gradients are added in the order of playback, so that any number of groups gives
/// the same bits.
///
/// The operations that backward() issues are named `gradients/`, followed by the name scopes around
/// the recorded operation and its name. The expression `(gradients/)?tower_1/.*` of a
/// StreamAssignment thus assigns the forward and the backward of a tower together.
///
/// Every tensor has a gradient unless it is frozen, or is a tensor, or a part of one, that
/// without_gradient() has excluded. A gradient belongs to elements, not to handles: handles of the
/// same elements share it, whatever their shapes. If the loss uses a view, such as Tensor::rows()
/// of a parameter, a table or a result, its gradient is added to that of the whole tensor and of
/// every other view. The tape holds the tensors that the gradients need until backward() has used
/// them. It holds tensors that have a gradient, are excluded, or were looked up without effect on
/// the loss until clear(). Tensors that a recorded operation used must not be written before
/// backward(), which reads their current contents. Use one tape per thread; not synchronised.
template <Runtime R = DefaultRuntime>
class GradientTape;

/// The implementation of GradientTape<R>, compiled once for all runtimes.
template <>
class GradientTape<detail::AnyRuntime> {
 public:
  using Gradient = detail::Floats;
  using Backward = std::function<void(GradientTape&, Gradient const& output_gradient)>;
  /// The backward of an operation whose result is float32, float16 or bfloat16, as is its gradient.
  using AnyBackward = std::function<void(GradientTape&, detail::AnyTensor const& output_gradient)>;

  GradientTape(GradientTape const&) = delete;
  GradientTape& operator=(GradientTape const&) = delete;

  /// A guard. While it lives, the tape records and excludes nothing. Used for evaluation.
  class Pause {
   public:
    /// Stops the recording until the guard is destroyed.
    [[nodiscard("without a name the guard goes at once")]] explicit Pause(GradientTape& tape)
        : tape_(tape), outer_(std::exchange(tape.paused_, true)) {}
    ~Pause() { tape_.paused_ = outer_; }
    Pause(Pause const&) = delete;
    Pause& operator=(Pause const&) = delete;

   private:
    GradientTape& tape_;
    bool outer_;
  };

  /// Returns whether the tape records: false while a Pause lives.
  [[nodiscard]] bool is_recording() const noexcept { return !paused_; }
  /// Returns whether backward() gave any element in the range of memory a gradient.
  [[nodiscard]] bool has_gradient(detail::MemoryRange const& elements) const;
  /// Calls function(range, shape) for each table or view of a table to which lookups gave a
  /// gradient.
  void for_each_table(
      std::function<void(detail::MemoryRange const&, Shape const&)> const& function) const;
  /// Calls function(range, shape) for each tensor that is no result of a recorded operation and to
  /// which operations other than lookups gave a gradient.
  void for_each_dense(
      std::function<void(detail::MemoryRange const&, Shape const&)> const& function) const;
  /// Calls function(range, shape) for each table or view of a table that was looked up, should have
  /// a gradient, and has none in any element, because backward() reached no result of its lookups.
  void for_each_unreached_table(
      std::function<void(detail::MemoryRange const&, Shape const&)> const& function) const;

  /// Returns the number of backward() calls since clear(), whose gradients the tape has added up.
  [[nodiscard]] std::int64_t backward_count() const noexcept;

  /// Records that an optimizer has applied the gradients of the last backward() to its parameters;
  /// called by optimizers. Keeps no tensor.
  void note_step(std::shared_ptr<detail::OwnedParameters const> const& parameters) const;
  /// Returns the parameters that optimizers have updated, as passed to note_step(), since the last
  /// backward() or clear(); called by optimizers.
  [[nodiscard]] std::vector<std::shared_ptr<detail::OwnedParameters const>> const& stepped()
      const noexcept;

  /// Drops all recorded operations, exclusions and gradients.
  void clear();

  /// Notes tensors that the operation reads that is recorded next: a NonFiniteLocator names those
  /// that had a NaN or an infinity before. Does nothing without one.
  template <class... Inputs>
  void note_inputs(Inputs const&... inputs) {
    (note_input(inputs.any()), ...);
  }
  void note_input(detail::AnyTensor const& input);
  /// Notes an intermediate result of the operation that is recorded next, behind the inputs that
  /// were noted so far: a NonFiniteLocator searches it, too. Does nothing without one.
  void note_part(std::string_view name,
                 detail::AnyTensor const& part,
                 std::source_location issued_at);

  // The implementations of functions of GradientTape<R>, which documents them.

  void record(std::string_view name,
              detail::Floats output,
              Backward backward,
              std::source_location issued_at);
  void record_any(std::string_view name,
                  detail::AnyTensor output,
                  AnyBackward backward,
                  std::source_location issued_at);
  void record_lookup(std::string_view name,
                     detail::AnyTensor const& table,
                     detail::Floats output,
                     Backward backward,
                     std::source_location issued_at);
  /// Records a lookup of these bags, whose backward calls take_pooled_gradient(), and where that
  /// returns false, add_row_gradient() with the ids that unique_rows() returns for the bags. So the
  /// ids are known before the backward.
  void record_lookup(std::string_view name,
                     detail::AnyTensor const& table,
                     ops::Bags<detail::AnyRuntime> const& bags,
                     ops::Pooling pooling,
                     detail::Floats output,
                     Backward backward,
                     std::source_location issued_at);
  /// Records a lookup in many tables, whose backward calls add_table_part() for each of them. With
  /// bags, which may be null, it does so only where take_pooled_gradient() returns false.
  void record_lookup(std::string_view name,
                     ops::EmbeddingTables<detail::AnyRuntime> const& tables,
                     ops::TableBags<detail::AnyRuntime> const* bags,
                     detail::AnyTensor output,
                     AnyBackward backward,
                     std::source_location issued_at);
  void without_gradient(detail::AnyTensor const& tensor);
  [[nodiscard]] bool wants_gradient(detail::AnyTensor const& tensor) const;
  /// Returns whether the tensor shares elements with the result of a recorded operation.
  [[nodiscard]] bool is_result(detail::AnyTensor const& tensor) const;
  void backward(detail::Floats const& loss, std::source_location issued_at);
  /// Adds a gradient, which has the tensor's type.
  void add_gradient(detail::AnyTensor const& tensor,
                    detail::AnyTensor gradient,
                    std::source_location issued_at);
  void add_gradient(detail::Floats const& tensor,
                    Gradient const& gradient,
                    std::source_location issued_at) {
    add_gradient(tensor.any(), gradient.any(), issued_at);
  }
  void add_row_gradient(detail::AnyTensor const& table,
                        ops::RowGradients<detail::AnyRuntime> gradient,
                        std::source_location issued_at);
  /// Offers the gradient of the output of a lookup that was recorded with its bags. Returns whether
  /// a DataParallel takes it, to compute that of the rows from the outputs of all ranks.
  [[nodiscard]] bool take_pooled_gradient(detail::AnyTensor const& table,
                                          detail::Floats const& gradient) const;
  /// The columns of the tables are the last of the gradient.
  [[nodiscard]] bool take_pooled_gradient(ops::EmbeddingTables<detail::AnyRuntime> const& tables,
                                          detail::AnyTensor const& gradient,
                                          std::source_location issued_at) const;
  /// Adds the gradient of one table among those of many.
  void add_table_part(detail::AnyTensor const& table,
                      ops::detail::TablePart gradient,
                      std::source_location issued_at);
  /// Returns the ids of a lookup grouped by value. The reference is valid until the backward ends.
  ops::UniqueRows<detail::AnyRuntime> const& unique_rows(ops::Bags<detail::AnyRuntime> const& bags,
                                                         std::int64_t rows,
                                                         ops::Pooling pooling,
                                                         std::source_location issued_at);
  [[nodiscard]] detail::AnyTensor gradient(detail::AnyTensor const& tensor,
                                           std::source_location issued_at) const;
  [[nodiscard]] Gradient gradient(detail::Floats const& tensor,
                                  std::source_location issued_at) const {
    return {detail::OfKnownType(), gradient(tensor.any(), issued_at)};
  }
  [[nodiscard]] bool has_gradient(detail::AnyTensor const& tensor) const;
  [[nodiscard]] bool has_dense_gradient(detail::AnyTensor const& tensor) const;
  [[nodiscard]] std::string why_no_gradient(detail::AnyTensor const& tensor) const;

  struct RowGradientPart {
    ops::RowGradients<detail::AnyRuntime> rows;
    std::shared_ptr<detail::StreamGroup> group;
  };
  [[nodiscard]] std::vector<RowGradientPart> row_gradients(detail::AnyTensor const& table,
                                                           std::source_location issued_at) const;
  [[nodiscard]] std::optional<RowGradientPart> row_gradient_sum(
      detail::AnyTensor const& table, std::source_location issued_at) const;
  /// Like row_gradient_sum(), but leaves the gradient of a lookup in many tables where it is.
  [[nodiscard]] std::optional<detail::LookupGradient> lookup_gradient(
      detail::AnyTensor const& table, std::source_location issued_at) const;
  void require_row_gradients(detail::AnyTensor const& table) const;
  [[nodiscard]] detail::TapeState& state() const noexcept { return *state_; }

 protected:
  explicit GradientTape(std::shared_ptr<detail::DeviceState> device);
  ~GradientTape();

 private:
  bool paused_ = false;
  std::unique_ptr<detail::TapeState> state_;
};

namespace detail {

using AnyTape = GradientTape<AnyRuntime>;

}  // namespace detail

namespace ops::detail {

using msstream::detail::AnyTape;

}  // namespace ops::detail

template <Runtime R>
class GradientTape : public GradientTape<detail::AnyRuntime> {
  using Body = GradientTape<detail::AnyRuntime>;

 public:
  /// The gradient of a tensor, float32 in the tensor's shape, whatever the tensor's type.
  using Gradient = Tensor<float, R>;
  /// A function that computes the gradients of an operation's inputs from the gradient of its
  /// output, and passes them to add_gradient().
  using Backward = std::function<void(GradientTape&, Gradient const& output_gradient)>;

  /// Makes an empty tape for operations on the device.
  explicit GradientTape(Device<R> device) : Body(device.state()), device_(std::move(device)) {}

  /// Records an operation with result `output`. `backward` should own the inputs that it needs, but
  /// not the tape.
  void record(std::string_view name,
              Tensor<float, R> output,
              Backward backward,
              std::source_location issued_at = std::source_location::current()) {
    Body::record(name, std::move(output), untyped(std::move(backward)), issued_at);
  }
  /// Records an operation with a result of half precision. The gradient of the result has its type.
  template <HalfElement T, class HalfBackward>
    requires std::invocable < HalfBackward&, GradientTape&, Tensor<T, R>
  const& > void record(std::string_view name,
                       Tensor<T, R> const& output,
                       HalfBackward backward,
                       std::source_location issued_at = std::source_location::current()) {
    Body::record_any(
        name,
        output.any(),
        [backward = std::move(backward)](Body& tape, detail::AnyTensor const& gradient) mutable {
          backward(static_cast<GradientTape&>(tape), Tensor<T, R>(detail::OfKnownType(), gradient));
        },
        issued_at);
  }
  /// Records a lookup in `table` with result `output`, whose backward calls add_row_gradient(). The
  /// tape knows the table even if the loss does not depend on `output`: see
  /// for_each_unreached_table().
  template <Element T>
  void record_lookup(std::string_view name,
                     Tensor<T, R> const& table,
                     Tensor<float, R> output,
                     Backward backward,
                     std::source_location issued_at = std::source_location::current()) {
    Body::record_lookup(
        name, table.any(), std::move(output), untyped(std::move(backward)), issued_at);
  }

  /// Excludes a tensor that is data: until clear(), neither the tensor nor a view of it gets a
  /// gradient, so operations need not compute one.
  template <Element T>
  void without_gradient(Tensor<T, R> const& tensor) {
    Body::without_gradient(tensor.any());
  }
  /// Returns whether an operation should compute the gradient of its input `tensor`.
  template <Element T>
  [[nodiscard]] bool wants_gradient(Tensor<T, R> const& tensor) const {
    return Body::wants_gradient(tensor.any());
  }

  /// Computes all gradients of `loss`, a scalar that the tape has recorded, by playing the recorded
  /// operations back from it. Afterwards the tape has no recorded operations; gradients stay until
  /// clear(), and those of several calls add up. Does not block the host. Throws std::logic_error
  /// if the tape did not record `loss`, or has dropped it since, as backward() and clear() do, and
  /// what the backward functions throw; after an exception only clear() may be called.
  void backward(Tensor<float, R> const& loss,
                std::source_location issued_at = std::source_location::current()) {
    Body::backward(loss, issued_at);
  }

  /// Adds `gradient` to the gradient of `tensor`; called by backward functions. Gradients are added
  /// in the order of the calls; a gradient of a tensor that is frozen or excluded is dropped.
  /// Throws std::logic_error if a recorded result is a part of `tensor` and not all of it, because
  /// the backward of that result would miss the gradient.
  void add_gradient(Tensor<float, R> const& tensor,
                    Gradient gradient,
                    std::source_location issued_at = std::source_location::current()) {
    Body::add_gradient(tensor, gradient, issued_at);
  }
  /// Adds the gradient of a tensor of half precision, which is of the tensor's type.
  template <HalfElement T>
  void add_gradient(Tensor<T, R> const& tensor,
                    Tensor<T, R> const& gradient,
                    std::source_location issued_at = std::source_location::current()) {
    Body::add_gradient(tensor.any(), gradient.any(), issued_at);
  }
  /// Adds a row-sparse gradient to the gradient of `table`, which may be a view, or a recorded
  /// result; called by backward functions of lookups. Throws std::logic_error if a recorded result
  /// is a part of `table` and not all of it.
  template <Element T>
  void add_row_gradient(Tensor<T, R> const& table,
                        ops::RowGradients<R> gradient,
                        std::source_location issued_at = std::source_location::current()) {
    Body::add_row_gradient(
        table.any(),
        {std::move(gradient.ids), std::move(gradient.count), std::move(gradient.values)},
        issued_at);
  }
  /// Returns the ids of a lookup grouped by value, as ops::deduplicate() does. The tape keeps the
  /// result until the backward ends, and one result serves all tables of `rows` rows that the same
  /// bags index. `pooling` has the meaning that it has in ops::deduplicate().
  ops::UniqueRows<R> unique_rows(ops::Bags<R> const& bags,
                                 std::int64_t rows,
                                 ops::Pooling pooling = ops::Pooling::sum,
                                 std::source_location issued_at = std::source_location::current()) {
    return ops::detail::typed<R>(Body::unique_rows(bags, rows, pooling, issued_at));
  }

  /// Returns the gradient of a tensor after backward(), in the tensor's shape and type, including
  /// the gradients of all views of its elements. Elements that the loss does not depend on have 0.
  /// Also works for tables, for which row_gradients() needs less memory. Throws std::logic_error if
  /// the loss depends on no element.
  template <RealElement T>
  [[nodiscard]] Tensor<T, R> gradient(
      Tensor<T, R> const& tensor,
      std::source_location issued_at = std::source_location::current()) const {
    return {detail::OfKnownType(), Body::gradient(tensor.any(), issued_at)};
  }
  using Body::has_gradient;
  /// Returns whether backward() gave any element of the tensor a gradient.
  template <Element T>
  [[nodiscard]] bool has_gradient(Tensor<T, R> const& tensor) const {
    return Body::has_gradient(tensor.any());
  }
  /// Returns whether backward() gave any element of the tensor a gradient that does not come from a
  /// lookup.
  template <Element T>
  [[nodiscard]] bool has_dense_gradient(Tensor<T, R> const& tensor) const {
    return Body::has_dense_gradient(tensor.any());
  }
  /// Returns the reason, for messages, why a tensor without a gradient has none.
  template <Element T>
  [[nodiscard]] std::string why_no_gradient(Tensor<T, R> const& tensor) const {
    return Body::why_no_gradient(tensor.any());
  }

  /// The part of a table's gradient that comes from one lookup, and the stream group on which the
  /// backward of the lookup ran. The group is null if the backward ran outside every scope.
  struct RowGradientPart {
    ops::RowGradients<R> rows;  ///< the rows with a gradient, and their sums
    std::shared_ptr<detail::StreamGroup> group;
  };
  /// Returns one part per lookup in the table or in a view of its rows, with row numbers of the
  /// table; no parts if the loss does not depend on the table. Throws std::logic_error for lookups
  /// in a view whose rows are not rows of the table.
  template <Element T>
  [[nodiscard]] std::vector<RowGradientPart> row_gradients(
      Tensor<T, R> const& table,
      std::source_location issued_at = std::source_location::current()) const {
    std::vector<RowGradientPart> parts;
    for (auto& part : Body::row_gradients(table.any(), issued_at)) {
      parts.push_back(typed(std::move(part)));
    }
    return parts;
  }
  /// Returns the sum of the parts of row_gradients(), computed on the group of the first part, or
  /// null if there is no part. Throws what row_gradients() throws.
  template <Element T>
  [[nodiscard]] std::optional<RowGradientPart> row_gradient_sum(
      Tensor<T, R> const& table,
      std::source_location issued_at = std::source_location::current()) const {
    auto sum = Body::row_gradient_sum(table.any(), issued_at);
    return sum ? std::optional(typed(*std::move(sum))) : std::nullopt;
  }
  /// Throws std::logic_error if row_gradients() would: for lookups in a view whose rows are not
  /// rows of the table.
  template <Element T>
  void require_row_gradients(Tensor<T, R> const& table) const {
    Body::require_row_gradients(table.any());
  }

  /// Returns the device of the operations that the tape records.
  [[nodiscard]] Device<R> const& device() const noexcept { return device_; }

 private:
  [[nodiscard]] static Body::Backward untyped(Backward backward) {
    return [backward = std::move(backward)](Body& tape, detail::Floats const& gradient) {
      // The cast is valid because every GradientTape<AnyRuntime> is the base of a GradientTape<R>,
      // and calls only functions that were recorded on that tape.
      backward(static_cast<GradientTape&>(tape), detail::typed<R>(gradient));
    };
  }
  [[nodiscard]] static RowGradientPart typed(Body::RowGradientPart part) {
    return {ops::detail::typed<R>(std::move(part.rows)), std::move(part.group)};
  }

  Device<R> device_;
};

template <Runtime R>
GradientTape(Device<R>) -> GradientTape<R>;

}  // namespace msstream
