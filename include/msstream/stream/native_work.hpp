// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace msstream {

/// Wraps the work of an operation that calls the runtime itself: it is called with the stream's
/// native handle instead of a HostStream or CudaStream.
template <class F>
struct NativeWork {
  F put_on;
};
template <class F>
NativeWork(F) -> NativeWork<F>;

}  // namespace msstream
