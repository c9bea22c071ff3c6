// SPDX-License-Identifier: Apache-2.0
#include <msstream/runtime/checked.hpp>
#include <msstream/runtime/cuda.hpp>
#include <msstream/runtime/detail/backend_of.hpp>
#include <msstream/runtime/host.hpp>
#include <msstream/runtime/sim.hpp>

namespace msstream::detail {

Backend::~Backend() = default;

template class BackendOf<Host>;
template class BackendOf<Checked<Host>>;
template class BackendOf<Sim>;
#if MSSTREAM_CUDA
template class BackendOf<Cuda>;
template class BackendOf<Checked<Cuda>>;
#endif

}  // namespace msstream::detail
