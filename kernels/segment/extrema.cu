// SPDX-License-Identifier: Apache-2.0
#include "segment/spans.cuh"

namespace msstream::ops::kernels {

void extrema_of_spans(CudaStream stream, SpanArgs const& args) {
  if (args.reduction == SegmentReduction::max) {
    reduce_spans<EveryElement<Largest>>(stream, args);
  } else {
    reduce_spans<EveryElement<Smallest>>(stream, args);
  }
}

}  // namespace msstream::ops::kernels
