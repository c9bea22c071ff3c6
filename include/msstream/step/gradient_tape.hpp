// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/embedding_gradient.hpp>
#include <msstream/runtime/compiled_once.hpp>
#include <msstream/step/by_memory.hpp>
#include <msstream/step/gradient_scopes.hpp>
#include <msstream/step/gradient_sum.hpp>
#include <msstream/step/gradient_terms.hpp>
#include <msstream/step/grouped_ids.hpp>
#include <msstream/step/owned_parameters.hpp>
#include <msstream/step/seed_gradient.hpp>
#include <msstream/stream/stream_scope.hpp>

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

/// Why what should have a gradient has none.
inline constexpr char const* kCutOff =
    "the loss does not depend on it, or an operation in between was called without the tape";

}  // namespace detail

/// Records differentiable operations and plays their gradients back, last first.
///
/// An operation issued in a StreamScope with include_grad plays back on that scope's group; any
/// other on the group that is current at backward(). Where several operations use one tensor, their
/// gradients are added in the order of playing back, whatever the groups: the same bits for any
/// number of them.
///
/// What backward() issues is named `gradients/`, the name scopes around the recorded operation, and
/// the operation: a StreamAssignment steers the two of a tower together by
/// `(gradients/)?tower_1/.*`.
///
/// Every tensor has a gradient unless it is frozen, or excluded with without_gradient() itself or
/// as a part of what is. A gradient is one of elements, however the handles of them were made:
/// handles of the same elements share it, whatever their shapes, and what the loss takes from a
/// view, such as Tensor::rows() of a parameter, a table or a result, adds into the gradient of the
/// whole and of every other view. The tape holds the tensors that the gradients need until
/// backward() has used them, and those with a gradient, excluded or looked up in vain until
/// clear(). What a recorded operation used must not be written before backward(), which computes
/// from what is there then. One tape a thread; not synchronised.
template <Runtime R = DefaultRuntime>
class GradientTape {
 public:
  using Gradient = Tensor<float, R>;
  /// Computes the gradients of an operation's inputs from that of its output and passes them to
  /// add_gradient().
  using Backward = std::function<void(GradientTape&, Gradient const& output_gradient)>;

  explicit GradientTape(Device<R> device) : device_(std::move(device)) {}
  GradientTape(GradientTape const&) = delete;
  GradientTape& operator=(GradientTape const&) = delete;

  /// Records an operation that gave `output`. `backward` should hold what it needs: inputs, and not
  /// the tape.
  void record(std::string_view name,
              Tensor<float, R> output,
              Backward backward,
              std::source_location issued_at = std::source_location::current()) {
    record_node(name, std::move(output), std::nullopt, std::move(backward), issued_at);
  }
  /// Like record(), of a lookup in `table`, whose backward calls add_row_gradient(). The table is
  /// then known also when the loss does not depend on `output`: for_each_unreached_table().
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

  /// While the guard lives, nothing is recorded or excluded: for evaluation.
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

  /// The tensor is data: neither it nor a view of it gets a gradient, and operations may save the
  /// work. Until clear().
  template <Element T>
  void without_gradient(Tensor<T, R> const& tensor) {
    auto const range = Range::of(tensor);
    if (!paused_ && excluded_.find(range) == nullptr) {
      excluded_.emplace(range, tensor.block());
    }
  }
  /// Whether an operation should compute the gradient of this input.
  template <Element T>
  [[nodiscard]] bool wants_gradient(Tensor<T, R> const& tensor) const {
    return !tensor.immutable() && !excluded_.contains(Range::of(tensor));
  }

  /// Plays back from `loss`, a scalar that the tape recorded; its own gradient is 1. The records
  /// are gone afterwards, the gradients stay until clear(): those of several calls add up. The host
  /// does not block. Throws std::logic_error when the tape did not record `loss`, and what the
  /// backward functions throw; the tape is then good for clear().
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
      // Of the output and of views of it; not of what the output is a view of, which goes on to
      // the operation that made the whole.
      gradients_.take_within(Range::of(node.output), taken_);
      if (taken_.empty()) {
        keep_unreached(std::move(node.looked_up));
      } else {
        std::optional<StreamScope<R>> scope;
        if (node.group != nullptr) {
          scope.emplace(*node.group, StreamScopeOptions{.include_grad = true}, node.issued_at);
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

  /// For backward functions: `gradient` is a part of the gradient of `tensor`. Parts are added in
  /// the order of the calls; those of a tensor without gradient are dropped. Throws
  /// std::logic_error when a recorded result is a part of `tensor` and not the whole: its own
  /// backward would not see the gradient.
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
  /// For backward functions of lookups: `gradient` is a part of the gradient of `table`, which may
  /// be a view, or a recorded result. Throws std::logic_error as add_gradient().
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
    lookups->value.push_back({table.shape(), {std::move(gradient), current_group()}});
  }
  /// The grouped ids of a lookup; one grouping serves all tables of `rows` rows that the same bags
  /// index. `pooling` as for ops::deduplicate(). Valid until the backward ends.
  ops::UniqueRows<R> const& unique_rows(
      ops::Bags<R> const& bags,
      std::int64_t rows,
      ops::Pooling pooling = ops::Pooling::sum,
      std::source_location issued_at = std::source_location::current()) {
    return unique_rows_.of(bags, rows, pooling, issued_at);
  }

  /// The gradient of a tensor after backward(), in the tensor's shape, with all that views of its
  /// elements got; elements that the loss does not depend on have 0. Of a table, too: rows by rows,
  /// row_gradients() takes less. Throws std::logic_error when the loss depends on no element.
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
  /// Whether backward() gave some element of the tensor a gradient, by lookups or otherwise.
  template <Element T>
  [[nodiscard]] bool has_gradient(Tensor<T, R> const& tensor) const {
    return has_gradient(Range::of(tensor));
  }
  [[nodiscard]] bool has_gradient(detail::MemoryRange const& elements) const {
    return gradients_.overlaps(elements) || row_gradients_.overlaps(elements);
  }
  /// Whether backward() gave some element of the tensor a gradient by operations other than
  /// lookups.
  template <Element T>
  [[nodiscard]] bool has_dense_gradient(Tensor<T, R> const& tensor) const {
    return gradients_.overlaps(Range::of(tensor));
  }
  /// For messages: what keeps a tensor without a gradient from having one.
  template <Element T>
  [[nodiscard]] std::string why_no_gradient(Tensor<T, R> const& tensor) const {
    return tensor.immutable()        ? "it is frozen"
           : !wants_gradient(tensor) ? "it is excluded by without_gradient()"
           : !played_back_           ? "backward() was not called"
           : unreached_.overlaps(Range::of(tensor))
               ? text("it was looked up, but ", detail::kCutOff)
               : detail::kCutOff;
  }

  /// A part of a table's gradient, and the group where its lookup's backward ran; null outside
  /// every scope.
  struct RowGradientPart {
    ops::RowGradients<R> rows;
    std::shared_ptr<StreamGroup<R>> group;
  };
  /// One part a lookup of the table, or of a view of its rows; none when the loss does not depend
  /// on it. The ids are of the table's rows. Throws std::logic_error for lookups in a view with
  /// rows of another width.
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
  /// The parts of row_gradients() added up, on the group of the first one; empty when there is
  /// none. Throws as row_gradients().
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
    std::optional<StreamScope<R>> scope;
    if (group != nullptr) {
      scope.emplace(*group, StreamScopeOptions{}, issued_at);
    }
    return RowGradientPart{ops::merge_row_gradients(rows, table.shape()[0], first_rows, issued_at),
                           group};
  }
  /// Throws std::logic_error as row_gradients() does.
  template <Element T>
  void require_row_gradients(Tensor<T, R> const& table) const {
    (void)lookups_of(table);
  }
  /// Calls function(range, shape) for what lookups gave a gradient: tables, and views of tables.
  template <class Function>
  void for_each_table(Function function) const {
    row_gradients_.for_each(
        [&](auto const& entry) { function(entry.range, entry.value.value.front().table); });
  }

  /// Calls function(range, shape) for what was looked up in vain: tables, and views of tables, that
  /// should have a gradient and have none in any element, because backward() came to no result of
  /// the lookups in them.
  template <class Function>
  void for_each_unreached_table(Function function) const {
    unreached_.for_each([&](auto const& entry) {
      if (!entry.value.memory->immutable && !excluded_.contains(entry.range) &&
          !has_gradient(entry.range)) {
        function(entry.range, entry.value.value);
      }
    });
  }

  /// For optimizers: notes that one moves its parameters by the gradients of the last backward().
  /// Keeps no tensor.
  void note_step(std::shared_ptr<detail::OwnedParameters const> const& parameters) const {
    if (std::ranges::find(stepped_, parameters) == stepped_.end()) {
      stepped_.push_back(parameters);
    }
  }
  /// For optimizers: those of note_step() since the last backward() or clear().
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

  /// What is known of a tensor by its addresses, with its memory, so that the addresses cannot come
  /// to mean another tensor.
  template <class Value>
  struct Held {
    memory::BlockRef<R> memory;
    Value value;
  };
  /// A table, or a view of one, that a recorded lookup was in.
  struct LookedUp {
    Range range;
    Held<Shape> table;
  };
  /// One lookup's gradient of the table or view that it looked into.
  struct Lookup {
    Shape table;
    RowGradientPart part;
  };
  /// The same of a table that was asked for: row 0 of the part is `first_row` of the table, and
  /// may lie before it.
  struct LookupOfTable {
    RowGradientPart const* part;
    std::int64_t first_row;
    bool is_whole;  ///< the part has the table's rows, and no others
  };
  struct Node {
    std::string name;
    std::shared_ptr<std::string const> scope;  ///< the name scopes around it; null: none
    Tensor<float, R> output;
    std::shared_ptr<StreamGroup<R>> group;
    std::optional<LookedUp> looked_up;
    Backward play_back;
    std::source_location issued_at;  ///< where it was recorded
  };

  void record_node(std::string_view name,
                   Tensor<float, R> output,
                   std::optional<LookedUp> looked_up,
                   Backward backward,
                   std::source_location issued_at) {
    if (paused_) {
      return;
    }
    auto const* const scope = StreamScope<R>::current(*device_.context());
    bool const keeps_group = scope != nullptr && scope->includes_grad();
    auto const range = Range::of(output);
    if (recorded_.find(range) == nullptr) {
      recorded_.emplace(range, output.shape());
    }
    nodes_.push_back({NameScope::qualify(name),
                      NameScope::kept(),
                      std::move(output),
                      keeps_group ? scope->group() : nullptr,
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
  [[nodiscard]] std::shared_ptr<StreamGroup<R>> current_group() const {
    auto const* const scope = StreamScope<R>::current(*device_.context());
    return scope == nullptr ? nullptr : scope->group();
  }

  Device<R> device_;
  bool paused_ = false;
  bool played_back_ = false;  ///< since clear()
  std::vector<Node> nodes_;
  detail::ByMemory<Held<Sum>> gradients_;
  std::vector<typename detail::ByMemory<Held<Sum>>::Entry> taken_;  ///< for one node at a time
  detail::ByMemory<Held<std::vector<Lookup>>> row_gradients_;       ///< at least one each
  detail::ByMemory<memory::BlockRef<R>> excluded_;
  detail::ByMemory<Shape> recorded_;
  detail::ByMemory<Held<Shape>> unreached_;  ///< tables of lookups that backward() passed over
  mutable std::vector<std::shared_ptr<detail::OwnedParameters const>> stepped_;
  detail::GroupedIds<R> unique_rows_;
  detail::SeedGradient<R> seed_;
};

template <Runtime R>
GradientTape(Device<R>) -> GradientTape<R>;

MSSTREAM_COMPILED_ONCE(class GradientTape<DefaultRuntime>);

}  // namespace msstream
