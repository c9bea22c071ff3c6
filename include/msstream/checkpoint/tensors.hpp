// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/host_state.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace msstream {

namespace checkpoint {

class Tensors;

}  // namespace checkpoint

namespace detail {

/// A tensor on a device, with the name that it has in a checkpoint.
struct NamedTensor {
  std::string name;
  AnyTensor tensor;
  bool is_optional = false;  ///< whether a file that lacks it is loaded all the same
};

/// Arrays in host memory, with the beginning of the names that they have in a checkpoint.
struct NamedState {
  std::string prefix;
  std::shared_ptr<HostState> state;
};

/// Adds each tensor that it is called with to a list. Every function that visits named tensors
/// takes it.
struct TensorAdder {
  using TakesHostState = void;

  checkpoint::Tensors* to;

  void operator()(SourceCheck check) const;
  void operator()(std::string const& name, std::shared_ptr<HostState> state) const;
  /// Adds a tensor that keeps its elements if a file lacks it, as files of earlier versions do.
  template <Element T, class R>
  void operator()(OptionalInFile, std::string name, Tensor<T, R> const& tensor) const;

  template <Element T, class R>
  void operator()(std::string name, Tensor<T, R> const& tensor) const;
};

template <class Source>
concept VisitsState = requires(Source const& source, TensorAdder const& adder) {
  source.visit_state(adder);
};
template <class Source>
concept VisitsTensors = requires(Source const& source, TensorAdder const& adder) {
  source.visit(adder);
};
template <class Source>
concept CallsVisitor = requires(Source const& source, TensorAdder const& adder) {
  source(adder);
};

}  // namespace detail

namespace checkpoint {

/// Something that names the tensors that it has, by one of `visit_state(visit)` (Parameters, an
/// Optimizer, a RandomGenerator, data::Transforms, a metric), `visit(visit)` and a call with
/// `visit` (a lambda). It calls `visit(name, tensor)` for each tensor.
template <class T>
concept Source = detail::VisitsState<T> || detail::VisitsTensors<T> || detail::CallsVisitor<T>;

/// The tensors of a checkpoint, by name: what save(), load() and Writer take.
///
///     checkpoint::Tensors tensors(parameters, optimizer);
///     tensors.add("random", random_state);
///
/// Holds handles of the tensors, which share their elements, so one list serves a whole training:
/// make it when all parameters have been made and added to their optimizer. save(), load() and
/// Writer throw std::logic_error for a list that was made earlier. Not synchronised.
class Tensors {
 public:
  Tensors() = default;
  /// Makes a list of the tensors of all sources, as add() does.
  template <Source... Sources>
    requires(sizeof...(Sources) > 0)
  explicit Tensors(Sources const&... sources) { (add(sources), ...); }

  /// Adds all tensors of a source. Throws like the other add().
  template <Source S>
  Tensors& add(S const& source) {
    detail::TensorAdder const adder{this};
    if constexpr (detail::VisitsState<S>) {
      source.visit_state(adder);
    } else if constexpr (detail::VisitsTensors<S>) {
      source.visit(adder);
    } else {
      source(adder);
    }
    return *this;
  }
  /// Adds all tensors of a source under names of their own, `<prefix>/<name>`: for one of several
  /// optimizers, for example, whose tensors have equal names. Throws like the other add().
  template <Source S>
  Tensors& add(std::string const& prefix, S const& source) {
    Tensors const own(source);
    for (auto const& named : own.tensors_) {
      add_any(prefix + "/" + named.name, named.tensor, named.is_optional);
    }
    for (auto const& named : own.states_) {
      add_state({prefix + "/" + named.prefix, named.state});
    }
    checks_.insert(checks_.end(), own.checks_.begin(), own.checks_.end());
    return *this;
  }
  /// Adds a tensor. Throws std::invalid_argument for a name that is in the list already, the name
  /// `__metadata__`, a name that is not UTF-8, and a tensor of another device than the others.
  template <Element T, class R>
  Tensors& add(std::string name, Tensor<T, R> const& tensor) {
    add_any(std::move(name), tensor.any());
    return *this;
  }

  /// Returns the number of tensors on a device.
  [[nodiscard]] std::size_t count() const noexcept { return tensors_.size(); }
  /// Returns the bytes of all tensors on a device together.
  [[nodiscard]] std::uint64_t bytes() const noexcept;

  /// Returns the tensors in the order in which they were added. For use by the library only.
  [[nodiscard]] std::vector<detail::NamedTensor> const& any() const noexcept { return tensors_; }
  /// Returns what is saved from host memory. For use by the library only.
  [[nodiscard]] std::vector<detail::NamedState> const& states() const noexcept { return states_; }
  /// Throws std::logic_error if the list cannot be loaded, or saved, as its sources are now. For
  /// use by the library only.
  void require_ready(char const* call, bool saves) const;

 private:
  friend detail::TensorAdder;
  void add_state(detail::NamedState named);
  void add_any(std::string name, detail::AnyTensor const& tensor, bool is_optional = false);

  std::vector<detail::NamedTensor> tensors_;
  std::vector<detail::NamedState> states_;
  std::vector<detail::SourceCheck> checks_;
};

}  // namespace checkpoint

inline void detail::TensorAdder::operator()(std::string const&,
                                            std::shared_ptr<HostState> state) const {
  to->add_state({{}, std::move(state)});
}
inline void detail::TensorAdder::operator()(SourceCheck check) const {
  to->checks_.push_back(std::move(check));
}
template <Element T, class R>
void detail::TensorAdder::operator()(OptionalInFile,
                                     std::string name,
                                     Tensor<T, R> const& tensor) const {
  to->add_any(std::move(name), tensor.any(), true);
}
template <Element T, class R>
void detail::TensorAdder::operator()(std::string name, Tensor<T, R> const& tensor) const {
  to->add(std::move(name), tensor);
}

}  // namespace msstream
