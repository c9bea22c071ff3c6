// SPDX-License-Identifier: Apache-2.0
#include "stream/stream_group.hpp"

#include <msstream/stream/detail/work_ref.hpp>

namespace msstream::detail {

void PendingLaunch::launch(WorkRef work) {
  group_->launch(*this, work);
}

void PendingLaunch::give_up() noexcept {
  group_->context()->runtime->operation_given_up(observed_);
}

}  // namespace msstream::detail
