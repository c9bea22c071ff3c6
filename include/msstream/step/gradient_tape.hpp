// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/embedding_gradient.hpp>
#include <msstream/step/gradient_sum.hpp>
#include <msstream/stream/stream_scope.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace msstream {

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
/// Every tensor has a gradient unless it is frozen or excluded with without_gradient(). Handles of
/// the same elements share it, whatever their shapes; a part of a recorded result has none. The
/// tape holds the tensors that the gradients need until backward() has used them, and those with a
/// gradient or excluded until clear(). What a recorded operation used must not be written before
/// backward(), which computes from what is there then. One tape a thread; not synchronised.
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
  void record(std::string_view name, Tensor<float, R> output, Backward backward) {
    if (paused_) {
      return;
    }
    auto const* const scope = StreamScope<R>::current(*device_.context());
    bool const keeps_group = scope != nullptr && scope->includes_grad();
    recorded_.insert_or_assign(key_of(output), output.shape());
    nodes_.push_back({NameScope::qualify(name),
                      NameScope::kept(),
                      std::move(output),
                      keeps_group ? scope->group() : nullptr,
                      std::move(backward)});
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

  /// The tensor is data: it gets no gradient, and operations may save the work. Until clear().
  template <Element T>
  void without_gradient(Tensor<T, R> const& tensor) {
    if (!paused_) {
      excluded_.emplace(key_of(tensor), tensor.block());
    }
  }
  /// Whether an operation should compute the gradient of this input.
  template <Element T>
  [[nodiscard]] bool wants_gradient(Tensor<T, R> const& tensor) const {
    return !tensor.immutable() && !excluded_.contains(key_of(tensor));
  }

  /// Plays back from `loss`, a scalar that the tape recorded; its own gradient is 1. The records
  /// are gone afterwards, the gradients stay until clear(): those of several calls add up. The host
  /// does not block. Throws std::logic_error when the tape did not record `loss`, and what the
  /// backward functions throw; the tape is then good for clear().
  void backward(Tensor<float, R> const& loss) {
    require(
        loss.count() == 1, "backward from a tensor of shape ", loss.shape(), "; expected a scalar");
    if (!recorded_.contains(key_of(loss))) {
      throw std::logic_error("backward from a tensor that this tape did not record");
    }
    GradientScopes scopes;
    {
      NameScope const names(scopes.of(nullptr));
      add_gradient(loss, one());
    }
    while (!nodes_.empty()) {
      Node node = std::move(nodes_.back());
      nodes_.pop_back();
      auto const gradient = gradients_.find(key_of(node.output));
      if (gradient != gradients_.end()) {
        std::optional<StreamScope<R>> scope;
        if (node.group != nullptr) {
          scope.emplace(*node.group, StreamScopeOptions{.include_grad = true});
        }
        NameScope const names(scopes.of(node.scope));
        trace::Range const range(node.name.c_str());
        node.backward(*this, gradient->second.value.sum().reshaped(node.output.shape()));
        gradients_.erase(key_of(node.output));
      }
    }
    unique_rows_.clear();
    recorded_.clear();
  }

  /// For backward functions: `gradient` is a part of the gradient of `tensor`. Parts are added in
  /// the order of the calls; those of a tensor without gradient are dropped. Throws
  /// std::logic_error when `tensor` is a view of some elements of a recorded result, whose own
  /// backward would not see the gradient.
  void add_gradient(Tensor<float, R> const& tensor, Gradient gradient) {
    require(gradient.count() == tensor.count(),
            "gradient of shape ",
            gradient.shape(),
            " for a tensor of shape ",
            tensor.shape());
    if (!wants_gradient(tensor)) {
      return;
    }
    refuse_part_of_result(tensor);
    auto const found = gradients_.find(key_of(tensor));
    if (found == gradients_.end()) {
      gradients_.emplace(key_of(tensor), Held<Sum>{tensor.block(), Sum(std::move(gradient))});
    } else {
      found->second.value.add(gradient);
    }
  }
  /// For backward functions of lookups: `gradient` is a part of the gradient of `table`.
  template <Element T>
  void add_row_gradient(Tensor<T, R> const& table, ops::RowGradients<R> gradient) {
    if (wants_gradient(table)) {
      auto& parts = row_gradients_.try_emplace(key_of(table), table.block()).first->second.value;
      parts.push_back({std::move(gradient), current_group()});
    }
  }
  /// The grouped ids of a lookup; one grouping serves all tables of `rows` rows that the same bags
  /// index. Valid until the backward ends.
  ops::UniqueRows<R> const& unique_rows(ops::Bags<R> const& bags, std::int64_t rows) {
    auto const view = bags.view();
    BagsKey const key{
        view.ids, view.capacity, view.bags, view.offsets, view.bag_count, view.default_id, rows};
    auto found = unique_rows_.find(key);
    if (found == unique_rows_.end()) {
      found = unique_rows_.emplace(key, std::make_pair(bags, ops::deduplicate(bags, rows))).first;
    }
    return found->second.second;
  }

  /// The gradient of a tensor after backward(), in the tensor's shape. Throws std::logic_error when
  /// the loss does not depend on it.
  [[nodiscard]] Gradient gradient(Tensor<float, R> const& tensor) const {
    auto const found = gradients_.find(key_of(tensor));
    if (found == gradients_.end()) {
      throw std::logic_error(
          text("no gradient for a tensor of shape ",
               tensor.shape(),
               ": backward() was not called, or the loss does not depend on it"));
    }
    return found->second.value.sum().reshaped(tensor.shape());
  }

  /// A part of a table's gradient, and the group where its lookup's backward ran; null outside
  /// every scope.
  struct RowGradientPart {
    ops::RowGradients<R> rows;
    std::shared_ptr<StreamGroup<R>> group;
  };
  /// One part a lookup of the table; none when the loss does not depend on it.
  template <Element T>
  [[nodiscard]] std::vector<RowGradientPart> const& row_gradients(Tensor<T, R> const& table) const {
    static std::vector<RowGradientPart> const none;
    auto const found = row_gradients_.find(key_of(table));
    return found == row_gradients_.end() ? none : found->second.value;
  }

  /// Forgets all records and gradients.
  void clear() {
    nodes_.clear();
    gradients_.clear();
    row_gradients_.clear();
    unique_rows_.clear();
    excluded_.clear();
    recorded_.clear();
  }
  [[nodiscard]] Device<R> const& device() const noexcept { return device_; }

 private:
  using Sum = detail::GradientSum<R>;

  /// Where a tensor's elements are and how many: a view of a part is not the whole.
  using Key = std::pair<void const*, std::int64_t>;
  struct HashKey {
    std::size_t operator()(Key const& key) const noexcept {
      return std::hash<void const*>{}(key.first) ^ (std::hash<std::int64_t>{}(key.second) << 1U);
    }
  };
  /// What is known by a tensor's key, with the tensor's memory, so that the key cannot come to mean
  /// another tensor.
  template <class Value>
  struct Held {
    explicit Held(memory::BlockRef<R> held, Value initial = {})
        : memory(std::move(held)), value(std::move(initial)) {}
    memory::BlockRef<R> memory;
    Value value;
  };
  /// What the grouping of ids depends on: ids, their capacity, bags, offsets, bag count,
  /// default id, table rows.
  using BagsKey = std::tuple<void const*,
                             std::int64_t,
                             std::int64_t,
                             void const*,
                             std::int64_t const*,
                             std::int64_t,
                             std::int64_t>;
  struct Node {
    std::string name;
    std::shared_ptr<std::string const> scope;  ///< the name scopes around it; null: none
    Tensor<float, R> output;
    std::shared_ptr<StreamGroup<R>> group;
    Backward backward;
  };

  /// The paths of what is played back; neighbours share one.
  class GradientScopes {
   public:
    /// `recorded` is the path of a recorded operation, kept; null: of none.
    [[nodiscard]] std::shared_ptr<std::string const> const& of(
        std::shared_ptr<std::string const> const& recorded) {
      if (path_ == nullptr || recorded != recorded_) {
        recorded_ = recorded;
        path_ = std::make_shared<std::string const>(recorded == nullptr ? std::string("gradients")
                                                                        : "gradients/" + *recorded);
      }
      return path_;
    }

   private:
    std::shared_ptr<std::string const> recorded_;
    std::shared_ptr<std::string const> path_;
  };

  template <Element T>
  static Key key_of(Tensor<T, R> const& tensor) {
    return {tensor.identity(), tensor.count()};
  }
  void refuse_part_of_result(Tensor<float, R> const& tensor) const {
    constexpr auto kLongest = std::numeric_limits<std::int64_t>::max();
    auto const after = recorded_.upper_bound({tensor.identity(), kLongest});
    if (tensor.count() == 0 || after == recorded_.begin() || recorded_.contains(key_of(tensor))) {
      return;
    }
    // Of the results that begin at the tensor or before it, the nearest and longest.
    auto const& [key, shape] = *std::prev(after);
    auto const* const end = static_cast<float const*>(key.first) + key.second;
    if (tensor.data() + tensor.count() <= end) {
      throw std::logic_error(text("gradient for a view of shape ",
                                  tensor.shape(),
                                  " of a recorded result of shape ",
                                  shape,
                                  ": record an operation that takes the view"));
    }
  }
  [[nodiscard]] std::shared_ptr<StreamGroup<R>> current_group() const {
    auto const* const scope = StreamScope<R>::current(*device_.context());
    return scope == nullptr ? nullptr : scope->group();
  }
  /// Made again when work on a launch thread has failed since, which may have been its copy.
  Gradient one() {
    auto const failures = device_.context()->launch_failure->count();
    if (!one_ || failures != failures_before_one_) {
      one_.reset();
      one_.emplace(to_device<float, R>(device_, std::vector<float>{1.0F}, Shape{}));
      failures_before_one_ = failures;
    }
    return *one_;
  }

  Device<R> device_;
  bool paused_ = false;
  std::vector<Node> nodes_;
  std::unordered_map<Key, Held<Sum>, HashKey> gradients_;
  std::unordered_map<Key, Held<std::vector<RowGradientPart>>, HashKey> row_gradients_;
  std::unordered_map<Key, memory::BlockRef<R>, HashKey> excluded_;
  std::map<Key, Shape> recorded_;
  std::map<BagsKey, std::pair<ops::Bags<R>, ops::UniqueRows<R>>> unique_rows_;
  std::optional<Gradient> one_;
  std::uint64_t failures_before_one_ = 0;
};

template <Runtime R>
GradientTape(Device<R>) -> GradientTape<R>;

}  // namespace msstream
