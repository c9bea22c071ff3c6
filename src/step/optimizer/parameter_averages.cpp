// SPDX-License-Identifier: Apache-2.0
#include "base/unheard_failure.hpp"
#include "optimizer/averages.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/step/parameter_averages.hpp>
#include <msstream/tensor/detail/any_copy.hpp>
#include <msstream/tensor/issue.hpp>

#include <exception>
#include <stdexcept>
#include <vector>

namespace msstream {

using detail::AnyRuntime;
using detail::Floats;

class ParameterAverages<AnyRuntime>::State {
 public:
  explicit State(float decay) : decay_(decay) {
    require(decay >= 0.0F && decay < 1.0F,
            "ParameterAverages: a decay of {}; expected a number in [0, 1)",
            decay);
  }

  void add(std::string name, Floats const& weight, std::source_location issued_at) {
    require_not_swapped("add");
    for (auto const& other : parameters_) {
      require(other.name != name, "ParameterAverages: two parameters named \"{}\"", name);
    }
    require(!weight.immutable(),
            "ParameterAverages: \"{}\" of shape {} is frozen",
            name,
            weight.shape());
    Floats average(weight.device(), weight.shape());
    detail::copy_on_device(average.any(), weight.any(), issued_at);
    parameters_.push_back({std::move(name), weight, std::move(average)});
  }
  void update(std::source_location issued_at) {
    require_not_swapped("update");
    issue_for_all("update_averages", false, issued_at, [decay = decay_](auto stream, auto tensors) {
      ops::kernels::update_averages(stream, decay, tensors);
    });
  }
  void swap(bool in, std::source_location issued_at) {
    if (in) {
      require_not_swapped("swap_in");
    }
    issue_for_all("swap_averages", true, issued_at, [](auto stream, auto tensors) {
      ops::kernels::swap_averages(stream, tensors);
    });
    is_swapped_ = in;
  }
  template <class Function>
  void for_each(Function const& function) const {
    require_not_swapped("visit_state");
    for (auto const& parameter : parameters_) {
      function("average/" + parameter.name, parameter.average);
    }
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
};

ParameterAverages<AnyRuntime>::ParameterAverages(float decay)
    : state_(std::make_unique<State>(decay)) {}

ParameterAverages<AnyRuntime>::~ParameterAverages() = default;

ParameterAverages<AnyRuntime>::Swapped::Swapped(ParameterAverages& averages,
                                                std::source_location issued_at)
    : averages_(averages), issued_at_(issued_at) {
  averages_.state_->swap(true, issued_at_);
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
    averages_.state_->swap(false, issued_at);
    is_restored_ = true;
  }
}

void ParameterAverages<AnyRuntime>::add(std::string name,
                                        Floats const& weight,
                                        std::source_location issued_at) {
  state_->add(std::move(name), weight, issued_at);
}

void ParameterAverages<AnyRuntime>::update(std::source_location issued_at) {
  state_->update(issued_at);
}

void ParameterAverages<AnyRuntime>::visit_state(
    std::function<void(std::string const&, Floats const&)> const& visit) const {
  state_->for_each(visit);
}

}  // namespace msstream
