// SPDX-License-Identifier: Apache-2.0
#include <msstream/runtime/checked.hpp>
#include <msstream/runtime/cuda.hpp>
#include <msstream/runtime/detail/backend_of.hpp>
#include <msstream/runtime/host.hpp>
#include <msstream/runtime/sim.hpp>

#include <fmt/core.h>

#include <stdexcept>

namespace msstream::detail {

Backend::~Backend() = default;

void throw_runtime_has_no(std::string_view runtime, char const* what) {
  throw std::logic_error(fmt::format("the runtime '{}' has no {}", runtime, what));
}

void throw_other_runtime(std::string_view actual, std::string_view expected) {
  throw std::invalid_argument(fmt::format(
      "a device of the runtime '{}' is used as one of another runtime type, named '{}'; "
      "a runtime that is checked or faulty is another type than the plain one",
      actual,
      expected));
}

template class BackendOf<Host>;
template class BackendOf<Checked<Host>>;
template class BackendOf<Sim>;
#if MSSTREAM_CUDA
template class BackendOf<Cuda>;
template class BackendOf<Checked<Cuda>>;
#endif

}  // namespace msstream::detail
