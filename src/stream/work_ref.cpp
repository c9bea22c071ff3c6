// SPDX-License-Identifier: Apache-2.0
#include "stream/stream_group.hpp"

#include <msstream/stream/detail/work_ref.hpp>

namespace msstream::detail {

void PendingLaunch::launch(WorkRef work) {
  group_->launch(*this, work);
}

}  // namespace msstream::detail
