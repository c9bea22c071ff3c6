// SPDX-License-Identifier: Apache-2.0
#include "segment/spans.cuh"

namespace msstream::ops::kernels {

std::size_t span_workspace_bytes(std::int64_t capacity, std::int64_t segments, std::int64_t width) {
  if (is_one_launch(capacity, segments, width)) {
    return 0;
  }
  // The workspace has the larger of two sizes, because it is not known yet whether rows can be read
  // four floats at a time.
  auto const bytes_of = [&](bool are_vectors) {
    WorkspaceLayout workspace(nullptr);
    SpanBorders(workspace, SpanParts(capacity, width, are_vectors), width);
    return workspace.bytes();
  };
  return std::max(bytes_of(false), bytes_of(true));
}

void sum_spans(CudaStream stream, SpanArgs const& args) {
  reduce_spans<EveryElement<Total>>(stream, args);
}

}  // namespace msstream::ops::kernels
