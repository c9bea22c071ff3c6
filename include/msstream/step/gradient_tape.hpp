// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/embedding_gradient.hpp>
#include <msstream/ops/pooling.hpp>
#include <msstream/step/by_memory.hpp>
#include <msstream/step/detail/engine_queries.hpp>
#include <msstream/step/gradient_scopes.hpp>
#include <msstream/step/gradient_sum.hpp>
#include <msstream/step/gradient_terms.hpp>
#include <msstream/step/grouped_ids.hpp>
#include <msstream/step/owned_parameters.hpp>
#include <msstream/step/seed_gradient.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/trace/name_scope.hpp>
#include <msstream/trace/stack_range.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream {
namespace detail {

/// The reason why a tensor that should have a gradient has none.
inline constexpr char const* kCutOff =
    "the loss does not depend on it, or an operation in between was called without the tape";

}  // namespace detail

/// Records differentiable operations and plays their gradients back, last operation first.
///
/// An operation issued in a StreamScope with include_grad is played back on that scope's group; any
/// other is played back on the group that is current at backward(). If several operations use one
/// tensor, their gradients are added in the order of playback, whatever the groups: any number of
/// groups gives the same bits.
///
/// The operations that backward() issues are named `gradients/`, followed by the name scopes around
/// the recorded operation and its name. The expression `(gradients/)?tower_1/.*` of a
/// StreamAssignment thus assigns the forward and the backward of a tower together.
///
/// Every tensor has a gradient unless it is frozen, or excluded by without_gradient(), itself or as
/// a part of an excluded tensor. A gradient belongs to elements, not to handles: handles of the
/// same elements share it, whatever their shapes. If the loss uses a view, such as Tensor::rows()
/// of a parameter, a table or a result, its gradient is added to that of the whole tensor and of
/// every other view. The tape holds the tensors that the gradients need until backward() has used
/// them. It holds tensors that have a gradient, are excluded, or were looked up without effect on
/// the loss until clear(). Tensors that a recorded operation used must not be written before
/// backward(), which reads their current contents. Use one tape per thread; not synchronised.
template <Runtime R = DefaultRuntime>
class GradientTape {
 public:
  using Gradient = Tensor<float, R>;
  /// Computes the gradients of an operation's inputs from that of its output, and passes them to
  /// add_gradient().
  using Backward = std::function<void(GradientTape&, Gradient const& output_gradient)>;

  explicit GradientTape(Device<R> device) : device_(std::move(device)) {}
  GradientTape(GradientTape const&) = delete;
  GradientTape& operator=(GradientTape const&) = delete;

  /// Records an operation with result `output`. `backward` should own the inputs that it needs, but
  /// not the tape.
  void record(std::string_view name,
              Tensor<float, R> output,
              Backward backward,
              std::source_location issued_at = std::source_location::current()) {
    record_node(name, std::move(output), std::nullopt, std::move(backward), issued_at);
  }
  /// Like record(), for a lookup in `table` whose backward calls add_row_gradient(). The tape then
  /// knows the table even if the loss does not depend on `output`: for_each_unreached_table().
  template <Element T>
  void record_lookup(std::string_view name,
                     Tensor<T, R> const& table,
                     Tensor<float, R> output,
                     Backward backward,
                     std::source_location issued_at = std::source_location::current()) {
    record_node(name,
                std::move(output),
                LookedUp{Range::of(table), {table.block(), table.shape()}},
                std::move(backward),
                issued_at);
  }

  /// A guard during whose lifetime the tape records and excludes nothing. Used for evaluation.
  class Pause {
   public:
    [[nodiscard("without a name the guard goes at once")]] explicit Pause(GradientTape& tape)
        : tape_(tape), outer_(std::exchange(tape.paused_, true)) {}
    ~Pause() { tape_.paused_ = outer_; }
    Pause(Pause const&) = delete;
    Pause& operator=(Pause const&) = delete;

   private:
    GradientTape& tape_;
    bool outer_;
  };

  /// Excludes a tensor that is data: neither it nor a view of it gets a gradient, and operations
  /// may save the work. Holds until clear().
  template <Element T>
  void without_gradient(Tensor<T, R> const& tensor) {
    auto const range = Range::of(tensor);
    if (!paused_ && excluded_.find(range) == nullptr) {
      excluded_.emplace(range, tensor.block());
    }
  }
  /// Returns whether an operation should compute the gradient of this input.
  template <Element T>
  [[nodiscard]] bool wants_gradient(Tensor<T, R> const& tensor) const {
    return !tensor.immutable() && !excluded_.contains(Range::of(tensor));
  }

  /// Plays back from `loss`, a scalar that the tape has recorded and whose own gradient is 1.
  /// Afterwards the records are gone; gradients stay until clear(), and those of several calls add
  /// up. Does not block the host. Throws std::logic_error if the tape did not record `loss`, and
  /// what the backward functions throw; after an exception only clear() may be called.
  void backward(Tensor<float, R> const& loss,
                std::source_location issued_at = std::source_location::current()) {
    require(
        loss.count() == 1, "backward from a tensor of shape ", loss.shape(), "; expected a scalar");
    if (!recorded_.contains(Range::of(loss))) {
      throw std::logic_error("backward from a tensor that this tape did not record");
    }
    played_back_ = true;
    stepped_.clear();
    detail::GradientScopes scopes;
    {
      NameScope const names(scopes.of(nullptr));
      add_gradient(loss, seed_.one(device_, issued_at), issued_at);
    }
    while (!nodes_.empty()) {
      Node node = std::move(nodes_.back());
      nodes_.pop_back();
      // Takes the gradients of the output and of views of it. If the output is itself a view, the
      // gradient of the whole tensor is left for the operation that made the whole.
      gradients_.take_within(Range::of(node.output), taken_);
      if (taken_.empty()) {
        keep_unreached(std::move(node.looked_up));
      } else {
        std::optional<detail::AnyStreamScope> scope;
        if (node.group != nullptr) {
          scope.emplace(node.group, StreamScopeOptions{.include_grad = true}, node.issued_at);
        }
        NameScope const names(scopes.of(node.scope));
        trace::StackRange const range(node.name.c_str());
        auto const gradient = detail::total_of<R>(taken_, Range::of(node.output), node.issued_at)
                                  .reshaped(node.output.shape());
        taken_.clear();
        node.play_back(*this, gradient);
      }
    }
    unique_rows_.clear();
    recorded_.clear();
  }

  /// Adds `gradient` to the gradient of `tensor`; called by backward functions. Gradients are added
  /// in the order of the calls; a gradient of a tensor that is frozen or excluded is dropped.
  /// Throws std::logic_error if a recorded result is a part of `tensor` and not all of it, because
  /// the backward of that result would miss the gradient.
  void add_gradient(Tensor<float, R> const& tensor,
                    Gradient gradient,
                    std::source_location issued_at = std::source_location::current()) {
    require(gradient.count() == tensor.count(),
            "gradient of shape ",
            gradient.shape(),
            " for a tensor of shape ",
            tensor.shape());
    if (!wants_gradient(tensor)) {
      return;
    }
    auto const range = Range::of(tensor);
    refuse_results_within(range, tensor.shape());
    if (auto* const found = gradients_.find(range)) {
      found->value.add(gradient, issued_at);
    } else {
      gradients_.emplace(range, {tensor.block(), Sum(std::move(gradient), issued_at)});
    }
  }
  /// Adds `gradient` to that of `table`, which may be a view, or a recorded result; called by
  /// backward functions of lookups. Throws std::logic_error in the cases of add_gradient().
  template <Element T>
  void add_row_gradient(Tensor<T, R> const& table,
                        ops::RowGradients<R> gradient,
                        std::source_location issued_at = std::source_location::current()) {
    if (!wants_gradient(table)) {
      return;
    }
    auto const range = Range::of(table);
    if constexpr (std::is_same_v<T, float>) {
      if (recorded_.overlaps(range)) {
        add_gradient(table, detail::dense_of(gradient, table.shape()[0], issued_at), issued_at);
        return;
      }
    }
    auto* lookups = row_gradients_.find(range);
    if (lookups == nullptr) {
      lookups = &row_gradients_.emplace(range, {table.block(), {}});
    }
    lookups->value.push_back(
        {table.shape(), {std::move(gradient), detail::current_scope(*device_.state()).group()}});
  }
  /// Returns the grouped ids of a lookup. One grouping serves all tables of `rows` rows that the
  /// same bags index. `pooling` has the meaning that it has in ops::deduplicate(). Valid until the
  /// backward ends.
  ops::UniqueRows<R> const& unique_rows(
      ops::Bags<R> const& bags,
      std::int64_t rows,
      ops::Pooling pooling = ops::Pooling::sum,
      std::source_location issued_at = std::source_location::current()) {
    return unique_rows_.of(bags, rows, pooling, issued_at);
  }

  /// Returns the gradient of a tensor after backward(), in the tensor's shape, including the
  /// gradients of all views of its elements. Elements that the loss does not depend on have 0. Also
  /// works for tables, for which row_gradients() needs less memory. Throws std::logic_error if the
  /// loss depends on no element.
  [[nodiscard]] Gradient gradient(
      Tensor<float, R> const& tensor,
      std::source_location issued_at = std::source_location::current()) const {
    auto const range = Range::of(tensor);
    Terms terms(range);
    gradients_.for_each_overlap(
        range, [&](auto const& entry) { terms.add(entry.range, entry.value.value.sum()); });
    row_gradients_.for_each_overlap(range, [&](auto const& entry) {
      for (auto const& lookup : entry.value.value) {
        terms.add(entry.range, detail::dense_of(lookup.part.rows, lookup.table[0], issued_at));
      }
    });
    if (terms.empty()) {
      throw std::logic_error(text(
          "no gradient for a tensor of shape ", tensor.shape(), ": ", why_no_gradient(tensor)));
    }
    return terms.total(issued_at).reshaped(tensor.shape());
  }
  /// Returns whether backward() gave any element of the tensor a gradient.
  template <Element T>
  [[nodiscard]] bool has_gradient(Tensor<T, R> const& tensor) const {
    return has_gradient(Range::of(tensor));
  }
  [[nodiscard]] bool has_gradient(detail::MemoryRange const& elements) const {
    return gradients_.overlaps(elements) || row_gradients_.overlaps(elements);
  }
  /// Like has_gradient(), but ignores the gradients of lookups.
  template <Element T>
  [[nodiscard]] bool has_dense_gradient(Tensor<T, R> const& tensor) const {
    return gradients_.overlaps(Range::of(tensor));
  }
  /// Returns the reason, for messages, why a tensor without a gradient has none.
  template <Element T>
  [[nodiscard]] std::string why_no_gradient(Tensor<T, R> const& tensor) const {
    return tensor.immutable()        ? "it is frozen"
           : !wants_gradient(tensor) ? "it is excluded by without_gradient()"
           : !played_back_           ? "backward() was not called"
           : unreached_.overlaps(Range::of(tensor))
               ? text("it was looked up, but ", detail::kCutOff)
               : detail::kCutOff;
  }

  /// A part of a table's gradient, and the group on which its lookup's backward ran. The group is
  /// null if the backward ran outside every scope.
  struct RowGradientPart {
    ops::RowGradients<R> rows;
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
    for (auto const& lookup : lookups_of(table)) {
      parts.push_back(*lookup.part);
      if (!lookup.is_whole) {
        parts.back().rows = ops::merge_row_gradients(
            std::vector{lookup.part->rows}, table.shape()[0], {lookup.first_row}, issued_at);
      }
    }
    return parts;
  }
  /// Returns the sum of the parts of row_gradients(), computed on the group of the first part, or
  /// null if there is no part. Throws std::logic_error in the cases of row_gradients().
  template <Element T>
  [[nodiscard]] std::optional<RowGradientPart> row_gradient_sum(
      Tensor<T, R> const& table,
      std::source_location issued_at = std::source_location::current()) const {
    auto const lookups = lookups_of(table);
    if (lookups.empty()) {
      return std::nullopt;
    }
    auto const& group = lookups.front().part->group;
    if (lookups.size() == 1 && lookups.front().is_whole) {
      return *lookups.front().part;
    }
    std::vector<ops::RowGradients<R>> rows;
    std::vector<std::int64_t> first_rows;
    for (auto const& lookup : lookups) {
      rows.push_back(lookup.part->rows);
      first_rows.push_back(lookup.first_row);
    }
    std::optional<detail::AnyStreamScope> scope;
    if (group != nullptr) {
      scope.emplace(group, StreamScopeOptions{}, issued_at);
    }
    return RowGradientPart{ops::merge_row_gradients(rows, table.shape()[0], first_rows, issued_at),
                           group};
  }
  /// Throws std::logic_error in the cases of row_gradients().
  template <Element T>
  void require_row_gradients(Tensor<T, R> const& table) const {
    (void)lookups_of(table);
  }
  /// Calls function(range, shape) for each table or view of a table to which lookups gave a
  /// gradient.
  template <class Function>
  void for_each_table(Function function) const {
    row_gradients_.for_each(
        [&](auto const& entry) { function(entry.range, entry.value.value.front().table); });
  }

  /// Calls function(range, shape) for each table or view of a table that was looked up, should have
  /// a gradient, and has none in any element, because backward() reached no result of its lookups.
  template <class Function>
  void for_each_unreached_table(Function function) const {
    unreached_.for_each([&](auto const& entry) {
      if (!detail::is_immutable(entry.value.memory) && !excluded_.contains(entry.range) &&
          !has_gradient(entry.range)) {
        function(entry.range, entry.value.value);
      }
    });
  }

  /// Notes that an optimizer has applied the gradients of the last backward() to its parameters;
  /// called by optimizers. Keeps no tensor.
  void note_step(std::shared_ptr<detail::OwnedParameters const> const& parameters) const {
    if (std::ranges::find(stepped_, parameters) == stepped_.end()) {
      stepped_.push_back(parameters);
    }
  }
  /// Returns the parameters passed to note_step() since the last backward() or clear(); called by
  /// optimizers.
  [[nodiscard]] std::vector<std::shared_ptr<detail::OwnedParameters const>> const& stepped()
      const noexcept {
    return stepped_;
  }

  /// Forgets all records and gradients.
  void clear() {
    nodes_.clear();
    gradients_.clear();
    taken_.clear();
    row_gradients_.clear();
    unique_rows_.clear();
    excluded_.clear();
    recorded_.clear();
    unreached_.clear();
    stepped_.clear();
    played_back_ = false;
  }
  [[nodiscard]] Device<R> const& device() const noexcept { return device_; }

 private:
  using Sum = detail::GradientSum<R>;

  using Range = detail::MemoryRange;
  using Terms = detail::GradientTerms<R>;

  /// A value for a tensor that is identified by its addresses. It holds the tensor's memory, so
  /// that no other tensor can get the same addresses.
  template <class Value>
  struct Held {
    memory::BlockRef memory;
    Value value;
  };
  /// A table or a view of a table in which a recorded lookup was made.
  struct LookedUp {
    Range range;
    Held<Shape> table;
  };
  /// The gradient that one lookup gave to its table or view.
  struct Lookup {
    Shape table;
    RowGradientPart part;
  };
  /// The gradient of one lookup, seen from a requested table: row 0 of the part is `first_row` of
  /// the table, which may be negative.
  struct LookupOfTable {
    RowGradientPart const* part;
    std::int64_t first_row;
    bool is_whole;  ///< whether the part covers exactly the table's rows
  };
  struct Node {
    std::string name;
    std::shared_ptr<std::string const> scope;  ///< the name scopes around it, or null
    Tensor<float, R> output;
    std::shared_ptr<detail::StreamGroup> group;
    std::optional<LookedUp> looked_up;
    Backward play_back;
    std::source_location issued_at;  ///< of the recorded operation
  };

  void record_node(std::string_view name,
                   Tensor<float, R> output,
                   std::optional<LookedUp> looked_up,
                   Backward backward,
                   std::source_location issued_at) {
    if (paused_) {
      return;
    }
    auto const scope = detail::current_scope(*device_.state());
    auto const range = Range::of(output);
    if (recorded_.find(range) == nullptr) {
      recorded_.emplace(range, output.shape());
    }
    nodes_.push_back({NameScope::qualify(name),
                      NameScope::kept(),
                      std::move(output),
                      scope.includes_grad ? scope.group() : nullptr,
                      std::move(looked_up),
                      std::move(backward),
                      issued_at});
  }
  /// Notes that a lookup got no gradient. A lookup in a recorded result is not noted, because the
  /// operation that made the result then gets none, too.
  void keep_unreached(std::optional<LookedUp> looked_up) {
    if (looked_up && !recorded_.overlaps(looked_up->range) &&
        unreached_.find(looked_up->range) == nullptr) {
      unreached_.emplace(looked_up->range, std::move(looked_up->table));
    }
  }
  void refuse_results_within(Range const& range, Shape const& shape) const {
    if (recorded_.contains(range)) {
      return;
    }
    recorded_.for_each_overlap(range, [&](auto const& result) {
      throw std::logic_error(text("gradient for a tensor of shape ",
                                  shape,
                                  " of which a recorded result of shape ",
                                  result.value,
                                  " is a part: put results together by a recorded operation, such "
                                  "as concat; Tensor::rows() needs no record"));
    });
  }
  template <Element T>
  [[nodiscard]] std::vector<LookupOfTable> lookups_of(Tensor<T, R> const& table) const {
    std::vector<LookupOfTable> lookups;
    auto const range = Range::of(table);
    row_gradients_.for_each_overlap(range, [&](auto const& entry) {
      for (auto const& [shape, part] : entry.value.value) {
        auto const offset = static_cast<std::int64_t>(entry.range.begin - range.begin);
        auto const row_bytes = shape[1] * static_cast<std::int64_t>(sizeof(T));
        bool const is_whole = entry.range == range && shape == table.shape();
        if (!is_whole && (table.shape().rank() != 2 || shape[1] != table.shape()[1] ||
                          row_bytes == 0 || offset % row_bytes != 0)) {
          throw std::logic_error(text("lookups in a tensor of shape ",
                                      shape,
                                      " that shares elements with a table of shape ",
                                      table.shape(),
                                      ": expected rows of the table"));
        }
        lookups.push_back({&part, is_whole ? 0 : offset / row_bytes, is_whole});
      }
    });
    return lookups;
  }

  Device<R> device_;
  bool paused_ = false;
  bool played_back_ = false;  ///< since clear()
  std::vector<Node> nodes_;
  detail::ByMemory<Held<Sum>> gradients_;
  std::vector<typename detail::ByMemory<Held<Sum>>::Entry> taken_;  ///< gradients of the node that
                                                                    ///< is played back
  detail::ByMemory<Held<std::vector<Lookup>>> row_gradients_;       ///< at least one per range
  detail::ByMemory<memory::BlockRef> excluded_;
  detail::ByMemory<Shape> recorded_;
  detail::ByMemory<Held<Shape>> unreached_;  ///< tables of lookups whose results have no gradient
  mutable std::vector<std::shared_ptr<detail::OwnedParameters const>> stepped_;
  detail::GroupedIds<R> unique_rows_;
  detail::SeedGradient<R> seed_;
};

template <Runtime R>
GradientTape(Device<R>) -> GradientTape<R>;

}  // namespace msstream
