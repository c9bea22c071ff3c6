// SPDX-License-Identifier: Apache-2.0
#include "stream/stream_group.hpp"

#include <msstream/base/text.hpp>
#include <msstream/stream/detail/work_ref.hpp>

#include <stdexcept>

namespace msstream::detail {

void PendingLaunch::launch(WorkRef work) {
  group_->launch(*this, work);
}

void PendingLaunch::give_up() noexcept {
  group_->context()->runtime->operation_given_up(observed_);
}

void WorkRef::throw_no_kernels(Backend const& runtime) {
  throw std::logic_error(text("an operation of msstream on the runtime '",
                              runtime.traits.name,
                              "', whose stream_ref is neither HostStream nor CudaStream: it has no "
                              "kernels for it"));
}

}  // namespace msstream::detail
