// SPDX-License-Identifier: Apache-2.0
#include "base/name_pattern.hpp"
#include "base/unheard_failure.hpp"
#include "optimizer/averages.hpp"
#include "step/optimizer/swapped_weights.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/step/parameter_averages.hpp>
#include <msstream/tensor/detail/any_copy.hpp>
#include <msstream/tensor/issue.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>
#include <vector>

namespace msstream {

using detail::AnyRuntime;
using detail::AnyTensor;
using detail::Floats;

class ParameterAverages<AnyRuntime>::State {
 public:
  explicit State(float decay) : decay_(decay) {
    require(decay >= 0.0F && decay < 1.0F,
            "ParameterAverages: a decay of {}; expected a number in [0, 1)",
            decay);
  }
  State(State const&) = delete;
  State& operator=(State const&) = delete;
  ~State() { detail::SwappedWeights::remove(swapped_); }

  void add(std::string name, Floats const& weight, std::source_location issued_at) {
    require_not_swapped("add");
    for (auto const& other : parameters_) {
      require(other.name != name, "ParameterAverages: two parameters named \"{}\"", name);
    }
    require(!weight.immutable(),
            "ParameterAverages: \"{}\" of shape {} is frozen",
            name,
            weight.shape());
    detail::SwappedWeights::refuse("ParameterAverages::add", name, weight.any());
    Floats average(weight.device(), weight.shape());
    detail::copy_on_device(average.any(), weight.any(), issued_at);
    parameters_.push_back({std::move(name), weight, std::move(average)});
  }
  void add(Parameters<AnyRuntime> const& parameters,
           std::optional<std::string> const& names,
           std::source_location issued_at) {
    using Kind = Parameters<AnyRuntime>::Kind;
    bool has_match = false;
    std::vector<std::pair<std::string, Floats>> found;
    parameters.for_each([&](std::string const& name, AnyTensor const& tensor, Kind kind) {
      bool const is_selected = names ? kind != Kind::buffer && detail::matches_pattern(*names, name)
                                     : kind == Kind::dense;
      if (!is_selected || tensor.immutable()) {
        return;
      }
      has_match = true;
      require(tensor.dtype() == DType::float32,
              "ParameterAverages: \"{}\" is of {}; only parameters of float32 have averages",
              name,
              tensor.dtype());
      if (average_of(tensor) == nullptr) {
        found.emplace_back(name, Floats(detail::OfKnownType(), tensor));
      }
    });
    require(has_match || !names,
            "ParameterAverages::add: \"{}\" matches the whole name of no parameter to be averaged",
            names.value_or(""));
    for (auto& [name, weight] : found) {
      add(std::move(name), weight, issued_at);
    }
  }
  void update(std::source_location issued_at) {
    require_not_swapped("update");
    refuse_swapped("ParameterAverages::update");
    issue_for_all("update_averages", false, issued_at, [decay = decay_](auto stream, auto tensors) {
      ops::kernels::update_averages(stream, decay, tensors);
    });
  }
  void swap_in(std::source_location issued_at) {
    require_not_swapped("swap_in");
    refuse_swapped("ParameterAverages::swap_in");
    std::vector<memory::BlockRef> blocks;
    for (auto const& parameter : parameters_) {
      blocks.push_back(parameter.weight.block());
      blocks.push_back(parameter.average.block());
    }
    exchange(issued_at);
    is_swapped_ = true;
    swapped_ = std::move(blocks);
    detail::SwappedWeights::add(swapped_);
  }
  void swap_out(std::source_location issued_at) {
    exchange(issued_at);
    is_swapped_ = false;
    detail::SwappedWeights::remove(swapped_);
    swapped_.clear();
  }
  template <class Function>
  void for_each(Function const& function) const {
    require_not_swapped("visit_state");
    for (auto const& parameter : parameters_) {
      function("average/" + parameter.name, parameter.average);
    }
  }
  /// Returns the average of exactly the elements of a tensor, or null if it has none.
  [[nodiscard]] Floats const* average_of(AnyTensor const& tensor) const {
    auto const found = std::ranges::find_if(parameters_, [&](Parameter const& parameter) {
      return parameter.weight.data() == tensor.data() && parameter.weight.count() == tensor.count();
    });
    return found == parameters_.end() ? nullptr : &found->average;
  }
  /// Calls function(name, tensor) for each parameter of the store, with its average if it has one.
  template <class Function>
  void for_each_of(Parameters<AnyRuntime> const& parameters, Function const& function) const {
    require_not_swapped("as_weights");
    std::size_t averaged = 0;
    parameters.for_each([&](auto const& name, AnyTensor const& tensor, auto) {
      auto const* const average = average_of(tensor);
      averaged += average != nullptr ? 1 : 0;
      function(name, average != nullptr ? average->any() : tensor);
    });
    require(averaged > 0 || parameters_.empty(),
            "ParameterAverages::as_weights: no parameter of the store has an average");
  }

 private:
  struct Parameter {
    std::string name;
    Floats weight;
    Floats average;
  };

  void require_not_swapped(char const* call) const {
    if (is_swapped_) {
      throw std::logic_error(std::string("ParameterAverages::") + call +
                             ": the averages are swapped in; end the guard of swap_in() first");
    }
  }
  void refuse_swapped(char const* call) const {
    for (auto const& parameter : parameters_) {
      detail::SwappedWeights::refuse(call, parameter.name, parameter.weight.any());
    }
  }
  void exchange(std::source_location issued_at) const {
    issue_for_all("swap_averages", true, issued_at, [](auto stream, auto tensors) {
      ops::kernels::swap_averages(stream, tensors);
    });
  }
  template <class Launch>
  void issue_for_all(char const* name,
                     bool writes_weights,
                     std::source_location issued_at,
                     Launch const& launch) const {
    if (parameters_.empty()) {
      return;
    }
    detail::Uses<AnyRuntime, AccessMode::read> read;
    detail::Uses<AnyRuntime, AccessMode::write> written;
    std::vector<ops::kernels::AveragedWeights> tensors;
    for (auto const& parameter : parameters_) {
      if (writes_weights) {
        written.add(parameter.weight);
      } else {
        read.add(parameter.weight);
      }
      written.add(parameter.average);
      tensors.push_back(
          {parameter.weight.data(), parameter.average.data(), parameter.weight.count()});
    }
    issue(
        name,
        read,
        written,
        [launch, tensors = std::move(tensors)](auto stream) {
          launch(stream, std::span<ops::kernels::AveragedWeights const>(tensors));
        },
        {},
        issued_at);
  }

  float decay_;
  std::vector<Parameter> parameters_;
  bool is_swapped_ = false;
  std::vector<memory::BlockRef> swapped_;  ///< the blocks in SwappedWeights
};

ParameterAverages<AnyRuntime>::ParameterAverages(float decay)
    : state_(std::make_unique<State>(decay)) {}

ParameterAverages<AnyRuntime>::~ParameterAverages() = default;

ParameterAverages<AnyRuntime>::Swapped::Swapped(ParameterAverages& averages,
                                                std::source_location issued_at)
    : averages_(averages), issued_at_(issued_at) {
  averages_.state_->swap_in(issued_at_);
}

ParameterAverages<AnyRuntime>::Swapped::~Swapped() {
  detail::UnheardFailure const unheard;
  try {
    restore(issued_at_);
  } catch (...) {
    detail::UnheardFailure::log("ParameterAverages::Swapped", std::current_exception());
  }
}

void ParameterAverages<AnyRuntime>::Swapped::restore(std::source_location issued_at) {
  if (!is_restored_) {
    averages_.state_->swap_out(issued_at);
    is_restored_ = true;
  }
}

void ParameterAverages<AnyRuntime>::add(std::string name,
                                        Floats const& weight,
                                        std::source_location issued_at) {
  state_->add(std::move(name), weight, issued_at);
}

void ParameterAverages<AnyRuntime>::add(Parameters<AnyRuntime> const& parameters,
                                        std::optional<std::string> const& names,
                                        std::source_location issued_at) {
  state_->add(parameters, names, issued_at);
}

void ParameterAverages<AnyRuntime>::visit_as_weights(
    Parameters<AnyRuntime> const& parameters,
    std::function<void(std::string const&, AnyTensor const&)> const& visit) const {
  state_->for_each_of(parameters, visit);
}

void ParameterAverages<AnyRuntime>::update(std::source_location issued_at) {
  state_->update(issued_at);
}

void ParameterAverages<AnyRuntime>::visit_state(
    std::function<void(std::string const&, Floats const&)> const& visit) const {
  state_->for_each(visit);
}

}  // namespace msstream
