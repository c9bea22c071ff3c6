// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/stream/stream_kind.hpp>

namespace msstream {

struct IssueOptions {
  StreamKind stream = StreamKind::compute;  ///< the stream of the group that the work is put on
};

}  // namespace msstream
