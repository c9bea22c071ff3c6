// SPDX-License-Identifier: Apache-2.0
#include "segment/spans.cuh"

namespace msstream::ops::kernels {

void multiply_spans(CudaStream stream, SpanArgs const& args) {
  reduce_spans<EveryElement<Product>>(stream, args);
}
void multiply_nonzeros_of_spans(CudaStream stream, SpanArgs const& args) {
  reduce_spans<ProductOfNonzeros>(stream, args);
}

}  // namespace msstream::ops::kernels
