// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/host_state.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/ops/optimizer.hpp>
#include <msstream/step/initializer.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace msstream {

struct ParametersOptions {
  std::uint64_t seed = 0;  ///< of the first values of all parameters
};

namespace detail {

class OwnedParameters;

/// Calls visit(name, tensor) with a tensor of the type of `any`: float32, float16 or bfloat16.
template <Runtime R, class Visit>
void visit_weights(Visit& visit, std::string const& name, AnyTensor const& any) {
  switch (any.dtype()) {
    case DType::float16:
      return visit(name, Tensor<float16, R>(OfKnownType(), any));
    case DType::bfloat16:
      return visit(name, Tensor<bfloat16, R>(OfKnownType(), any));
    default:
      return visit(name, Tensor<float, R>(OfKnownType(), any));
  }
}

}  // namespace detail

/// The parameters of a model, by name: dense weights, embedding tables and buffers. Makes them with
/// their first values, finds them again, lists them, and freezes them. An Optimizer takes the store
/// whole.
///
/// The first values of a parameter depend on the seed, its name, its shape and its initializer
/// alone, so the order in which a program makes its parameters does not matter, and CUDA and the
/// host give equal bits. Copies share the parameters. Not synchronised.
template <Runtime R = DefaultRuntime>
class Parameters;

/// The implementation of Parameters<R>, compiled once for all runtimes.
template <>
class Parameters<detail::AnyRuntime> {
 public:
  /// The way in which a parameter is trained.
  enum class Kind : std::uint8_t {
    dense,   ///< made by dense(): all elements are updated in each step
    table,   ///< made by table(): the gradient is row-sparse
    buffer,  ///< made by buffer(): no optimizer updates it
  };
  /// A parameter of the store, for lists.
  struct Entry {
    std::string name;  ///< such as "tower/0/weight"; unique in the store
    Shape shape;       ///< [rows, width] of a table
    DType dtype;       ///< float32; float16 or bfloat16 for tables, too
    Kind kind;         ///< how it is trained
    bool is_frozen;    ///< whether freeze() holds for it now
  };

  Parameters(std::shared_ptr<detail::DeviceState> device, ParametersOptions const& options);

  /// Returns all parameters in the order in which they were made.
  [[nodiscard]] std::vector<Entry> entries() const;
  /// Returns the number of elements of all parameters.
  [[nodiscard]] std::int64_t count() const noexcept;
  /// Returns whether a parameter, a table or a buffer has this name.
  [[nodiscard]] bool contains(std::string_view name) const;
  /// Returns ParametersOptions::seed, from which first values are drawn.
  [[nodiscard]] std::uint64_t seed() const noexcept;

  /// Freezes every parameter whose whole name the pattern matches, such as "bottom/*", and returns
  /// their number. In a pattern, `*` stands for any characters and `?` for one. A frozen parameter
  /// gets no gradient, and an optimizer leaves it out, in add() and in step(); its moments stay as
  /// they are. Call it between two steps. Blocks the host until the writes so far are complete.
  /// Steps captured before that write one throw std::logic_error, with its name, when they are
  /// replayed. Throws std::invalid_argument for a pattern that matches no name.
  int freeze(std::string const& names);
  /// Undoes freeze() for every parameter whose whole name the pattern matches, frozen or not, and
  /// returns their number. Optimizers that had it go on with it; others throw until
  /// Optimizer::add() is called again. Steps captured while it was frozen do not train it, and
  /// throw std::logic_error with its name when they are replayed: capture them again. Does not
  /// block the host. No other thread may use these parameters meanwhile, such as an inference pool.
  /// Throws std::invalid_argument for a pattern that matches no name, and std::logic_error for a
  /// parameter that the calling thread's capture uses.
  int unfreeze(std::string const& names);

  /// Passes each parameter to `visit(name, tensor, kind)`, in the order in which they were made.
  void for_each(
      std::function<void(std::string const&, detail::AnyTensor const&, Kind)> const& visit) const;

  // The implementations of functions of Parameters<R>, which documents them.

  [[nodiscard]] detail::AnyTensor make_or_find(Kind kind,
                                               DType dtype,
                                               std::string_view name,
                                               Shape const& shape,
                                               std::optional<Initializer> const& initializer,
                                               std::source_location issued_at);
  [[nodiscard]] detail::AnyTensor find(std::string_view name, DType dtype) const;
  [[nodiscard]] detail::SourceCheck check_of_list() const;
  /// Returns whether note_stack() was called with a name, by which a DenseStack notes its own.
  [[nodiscard]] bool has_stack(std::string_view name) const;
  /// Notes that a DenseStack has this name. For use by the library only.
  void note_stack(std::string_view name);
  /// Notes that an optimizer has parameters of the store.
  void note_optimizer(std::shared_ptr<detail::OwnedParameters const> const& owned) const;
  /// Returns the parameters of each optimizer that was noted and still exists.
  [[nodiscard]] std::vector<std::shared_ptr<detail::OwnedParameters const>> optimizers() const;

 private:
  class State;
  std::shared_ptr<State> state_;
};

template <Runtime R>
class Parameters : public Parameters<detail::AnyRuntime> {
  using Body = Parameters<detail::AnyRuntime>;

 public:
  /// Makes a store without parameters. Everything that it makes is on the device.
  explicit Parameters(Device<R> const& device, ParametersOptions const& options = {})
      : Body(device.state(), options) {}

  /// Returns the dense parameter of this name: a new one with its first values, by default those of
  /// init::xavier_uniform(), or the one that exists. Asynchronous. Throws std::invalid_argument for
  /// an empty name; if the name belongs to a parameter of another shape or type, to a table, or to
  /// a parameter that was made with another initializer than the one that is given here; and for an
  /// initializer that does not fit the shape, or whose numbers are not finite or out of range.
  [[nodiscard]] Tensor<float, R> dense(
      std::string_view name,
      Shape const& shape,
      std::optional<Initializer> const& initializer = {},
      std::source_location issued_at = std::source_location::current()) {
    return {detail::OfKnownType(),
            Body::make_or_find(Kind::dense, DType::float32, name, shape, initializer, issued_at)};
  }
  /// Returns the embedding table [rows, width] of this name, of float32, float16 or bfloat16: a new
  /// one with its first values, by default those of init::uniform(-0.05F, 0.05F), or the one that
  /// exists. Throws what dense() throws.
  template <Element T = float>
    requires std::constructible_from<ops::AnyTable<R>, Tensor<T, R>>
  [[nodiscard]] Tensor<T, R> table(
      std::string_view name,
      Shape const& shape,
      std::optional<Initializer> const& initializer = {},
      std::source_location issued_at = std::source_location::current()) {
    return {detail::OfKnownType(),
            Body::make_or_find(Kind::table, dtype_of<T>, name, shape, initializer, issued_at)};
  }
  /// Returns a table of each shape, with the names `<name>/0`, `<name>/1` and so on, as table()
  /// does.
  template <Element T = float>
    requires std::constructible_from<ops::AnyTable<R>, Tensor<T, R>>
  [[nodiscard]] std::vector<Tensor<T, R>> tables(
      std::string_view name,
      std::vector<Shape> const& shapes,
      std::optional<Initializer> const& initializer = {},
      std::source_location issued_at = std::source_location::current()) {
    std::vector<Tensor<T, R>> all;
    for (auto const& shape : shapes) {
      auto const own = std::string(name) + "/" + std::to_string(all.size());
      all.push_back(table<T>(own, shape, initializer, issued_at));
    }
    return all;
  }
  /// Returns the buffer of this name, a tensor that belongs to the model and its checkpoints but
  /// that no optimizer updates, such as running statistics: a new one with its first values, by
  /// default zeros, or the one that exists. Throws what dense() throws.
  [[nodiscard]] Tensor<float, R> buffer(
      std::string_view name,
      Shape const& shape,
      std::optional<Initializer> const& initializer = {},
      std::source_location issued_at = std::source_location::current()) {
    return {detail::OfKnownType(),
            Body::make_or_find(Kind::buffer, DType::float32, name, shape, initializer, issued_at)};
  }
  /// Returns the parameter of this name. Throws std::invalid_argument, with the names that exist,
  /// if there is none, and if it has another type.
  template <Element T = float>
  [[nodiscard]] Tensor<T, R> find(std::string_view name) const {
    return {detail::OfKnownType(), Body::find(name, dtype_of<T>)};
  }

  /// Passes each parameter to `visit(name, tensor)`, in the order in which they were made, for
  /// checkpoints: a reader or a writer of tensors of float32, float16 and bfloat16.
  template <class Visit>
  void visit_state(Visit&& visit) const {
    Body::for_each([&](std::string const& name, detail::AnyTensor const& any, Kind) {
      detail::visit_weights<R>(visit, name, any);
    });
    if constexpr (detail::TakesHostState<Visit>) {
      visit(Body::check_of_list());
    }
  }
};

template <Runtime R>
Parameters(Device<R>, ParametersOptions = {}) -> Parameters<R>;

}  // namespace msstream
